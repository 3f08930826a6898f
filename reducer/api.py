"""Reducing a case: show that it fails, shrink it through the gate, leave a folder that resumes."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from corpus.case import Case, Remark
from corpus.errors import UserError
from corpus.outputs import held
from oracles.judge import Judge
from oracles.verdict import Verdict
from reducer.course import DoesNotFail, Options, Progress
from reducer.engine.journal import NAME as JOURNAL
from reducer.engine.journal import Journal
from reducer.engine.predicates import JudgePool
from reducer.language import language_of
from reducer.result import Reduction, files_of, finished
from reducer.session import Session

__all__ = ["DoesNotFail", "Options", "Progress", "Reduction", "finished", "reduce_case"]


def reduce_case(
    case: Case,
    out: Path,
    options: Options,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    on_other: Callable[[Case, Verdict], None] = lambda case, verdict: None,
    judge: Judge | None = None,
) -> Reduction:
    """Reduce `case` into the folder `out`, resuming from the journal there.

    Raises `DoesNotFail`, and `UserError` for a folder of another case or other options. Whatever ends it
    early (the allowance, Ctrl-C) leaves the best case so far in `out`. `on_other` is given the
    candidates that showed another failure than the one that is reduced. `judge` is one as the options have
    it, lent.
    """
    journal = Journal(out / JOURNAL, options.header(case))
    if options.private and not language_of(case.format).can_hide:
        raise UserError(f"reduce --private: hides ONNX models only; this is a {case.format} program")
    pool = JudgePool(partial(options.judge, case.format), judge)
    violations = tuple(map(Remark.VIOLATION.note, case.remarks(Remark.VIOLATION)))
    case = replace(case, notes=tuple(note for note in case.notes if note not in violations))
    if options.private:
        case = replace(case, origin="", notes=())
    case = replace(case, target=options.target)
    try:
        with held(out):
            journal.open(files_of(case))
            try:
                return Session(case, out, options, pool, on_progress, on_other).run(journal)
            except DoesNotFail:
                journal.discard()
                raise
            finally:
                journal.close()
    finally:
        pool.close()
