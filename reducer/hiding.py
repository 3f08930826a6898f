"""`--private`: once a case is small, what it still tells of the original gives way; then it is searched."""

from __future__ import annotations

from corpus.case import Case
from corpus.errors import UserError
from reducer.engine.rounds import Engine
from reducer.moves import hiding_moves
from reducer.private.remains import holds_run, words_left
from reducer.subject.base import Subject

MOST_ROUNDS = 3


def hide(engine: Engine, subject: Subject) -> Subject:
    """The subject after the moves that hide; after a full reduction, reduced again where they changed it."""
    hider = Engine(engine.gate, hiding_moves(), engine.hints, engine.learn, steps=engine.steps)
    for _ in range(MOST_ROUNDS):
        hidden = hider.run_once(subject)
        if hidden is subject or not engine.is_minimal:
            return hidden
        engine.is_minimal = False
        subject = hidden
        for better in engine.run(hidden):
            subject = better
    return subject


def inspect(original: Case, case: Case) -> tuple[str, ...]:
    """The words of the original that the failure needs; `UserError` where it needs a run of its values."""
    if case.external or holds_run(original, case):
        raise UserError(
            "reduce --private: the failure needs a run of eight values of the original, so that no result was"
            " written; reduce without --private"
        )
    return words_left(original, case)
