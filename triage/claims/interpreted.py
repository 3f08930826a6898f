"""What the interpreter of loops gives where every run of a program gives another thing."""

from __future__ import annotations

from corpus.case import Case
from oracles.probes.tir_context import INTERPRETER, interpretation_of
from oracles.run import Config, Phase, Run, Status
from oracles.verdict import Verdict

CONFIG = Config(INTERPRETER, backend="interpreter")


def interpreted(case: Case, verdict: Verdict) -> Run | None:
    """The interpreter's run, to compare with; None where runs differ among themselves or it knows too little.

    Only outputs that are defined throughout are told.
    """
    wrong = verdict.wrong
    if case.format != "tir" or wrong is None or wrong.truth != INTERPRETER or len(verdict.runs) != 1:
        return None
    found = interpretation_of(case.program, case.inputs)
    outputs = {name: value for name, value in found.outputs.items() if found.defined[name].all()}
    if set(outputs) != set(found.outputs):
        return None
    return Run(CONFIG, Status.OK, Phase.EXECUTE, outputs=outputs)
