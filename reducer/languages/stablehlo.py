"""Modules of StableHLO, to the reducer: bindings, which users' commands take as MLIR's text."""

from collections.abc import Mapping
from dataclasses import replace

from corpus.case import Case
from oracles.judge import Judge
from reducer.language import GRAPHS


def _printed(case: Case, judge: Judge) -> Mapping[str, bytes]:
    text = judge.executor.describe(case.program, case.inputs).get("text")
    return {"program.mlir": str(text).encode()} if text else {}


LANGUAGE = replace(GRAPHS, printed=_printed)
