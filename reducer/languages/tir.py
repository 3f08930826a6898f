"""Modules of TVM's PrimFuncs, to the reducer."""

from corpus.case import Case
from reducer.engine.predicates import JudgePool
from reducer.language import Language
from reducer.subject.tir_subject import TirSubject


def _open(case: Case, pool: JudgePool) -> TirSubject:
    return TirSubject.of(case, case.parsed)


LANGUAGE = Language(subject=TirSubject, open=_open)
