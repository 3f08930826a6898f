"""Modules of TVM's PrimFuncs, to the reducer."""

from __future__ import annotations

from corpus.case import Case
from reducer.engine.predicates import JudgePool
from reducer.language import Language
from reducer.subject.loops.subject import LoopSubject


def _open(case: Case, pool: JudgePool) -> LoopSubject:
    return LoopSubject.of(case, case.parsed)


LANGUAGE = Language(subject=LoopSubject, open=_open)
