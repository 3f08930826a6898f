"""The toy language as people see it: its source is a table of lines."""

import numpy as np

from corpus.case import Case
from oracles.judge import Judge
from triage.language import Language
from triage.repro.source import Source


def source(case: Case, judge: Judge) -> Source:
    """The lines as a table, and the inputs in order."""
    lines = "".join(f"    {(line.name, line.op, *line.reads)!r},\n" for line in case.parsed.lines)
    module = f"INPUTS = {case.parsed.inputs!r}\nLINES = [\n{lines}]"
    return Source(module, "\n".join(f"{np.asarray(value).tolist()!r}," for value in case.inputs.values()))


LANGUAGE = Language(source=source)
