"""Judging the cases of a command: one judge for each target and format, started when first needed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from corpus.case import Case
from corpus.target import Target
from oracles.judge import Judge
from oracles.optional import SETTING
from oracles.verdict import Verdict
from triage.console.options import CaseOptions
from triage.store.documents import wrong_document

if TYPE_CHECKING:
    from triage.console.status import PlainLines


class Judges:
    """The judges of one command; a context manager."""

    def __init__(self, options: CaseOptions) -> None:
        self.options = options
        self._open: dict[tuple[Target, str], Judge] = {}
        self._stack = ExitStack()

    def of(self, target: Target, format: str = "") -> Judge:
        """The judge of a target for programs of a format, opened when first asked for."""
        key = target, format
        if key not in self._open:
            self._open[key] = self._stack.enter_context(self.options.judge(target, format=format))
        return self._open[key]

    def begin(self, word: str) -> None:
        """Start what the case that a word names will need, where that can be told without opening it."""
        from corpus.formats import format_of

        found = format_of(Path(word)) if Path(word).is_file() else None
        if found is not None and found.begin is not None:
            self.of(self.options.target_of(None), found.name).executor.begin()
            found.begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


@contextmanager
def waits_shown() -> Iterator[None]:
    """Within it, a run that lasts says in which phase it is, every ten seconds where no line can be drawn."""
    from oracles.sandbox.processes import LISTENERS
    from triage.console.output import is_live

    if is_live(sys.stderr):  # the line at the foot listens by itself
        yield
        return
    shown: list[PlainLines] = []

    def tell(text: str) -> None:
        from triage.console.status import PlainLines

        if not shown:
            shown.append(PlainLines())
        shown[0].status(text)

    LISTENERS.append(tell)
    try:
        yield
    finally:
        LISTENERS.remove(tell)


def judge_often(judge: Judge, case: Case, repeat: int) -> tuple[Verdict, dict[str, Any]]:
    """The verdict that counts, and its document: the first that shows a bug, else the first.

    Repeated judging also says how often that symptom came.
    """
    first = judge.verdict(case).must_be_of_a_program(case.origin or case.case_id[:12])
    verdicts = [first, *(judge.verdict(case) for _ in range(repeat - 1))]
    chosen = next((verdict for verdict in verdicts if verdict.is_bug), verdicts[0])
    chosen = judge.explain(case, chosen)
    document: dict[str, Any] = {
        "outcome": chosen.outcome.value,
        "phase": chosen.phase.value,
        "symptom": str(chosen.symptom or ""),
        "title": chosen.title,
        "bug": chosen.is_bug,
        "target": str(judge.target),
        "notes": list(chosen.notes),
    }
    if chosen.wrong is not None:
        document["wrong"] = wrong_document(chosen)
    if repeat > 1:
        same = sum(verdict.symptom == chosen.symptom for verdict in verdicts)
        document |= {"repeats": repeat, "same": same}
    return chosen, document


def rewrites(target: Target) -> bool:
    """Whether an oracle of the target runs other programs than a case's own."""
    return "metamorphic" in target.get(SETTING, "").split(",")


def alone(
    case: Case, judge: Judge, said: Callable[[str], None] = lambda text: None
) -> tuple[Case, Verdict | None]:
    """The rewritten program and its verdict if that is what fails, and fails by itself; else the case."""
    if not rewrites(judge.target):
        return case, None
    verdict = judge.verdict(case)
    other = judge.rewritten(case, verdict) if verdict.is_bug else None
    found = judge.verdict(other) if other is not None else None
    if other is None or found is None or not found.is_bug or judge.rewritten(other, found) is not None:
        return case, verdict
    said("the rewritten program fails by itself: it is taken instead")
    return other, found
