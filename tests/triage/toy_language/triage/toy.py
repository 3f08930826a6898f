"""The toy language as people see it: its source is a list of operators."""

import numpy as np

from corpus.case import Case
from oracles.judge import Judge
from triage.language import Language
from triage.repro.source import Source


def source(case: Case, judge: Judge) -> Source:
    """The operators, and the input."""
    return Source(f"OPS = {case.parsed.ops!r}", f"{np.asarray(case.inputs['x']).tolist()!r},")


LANGUAGE = Language(source=source)
