"""Which failures are worth reducing: new ones before the tenth of a kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from typing import TypeAlias

from oracles.verdict import Outcome
from triage.store.causes import samples
from triage.store.database import Store
from triage.store.failures import NEW, REDUCED, Failure, get_failure, list_failures

MOST_PRESUMED = 2
"""How many failures of one symptom are reduced although they look like a bug that is known already."""
SEPARATOR = " | "
"""What stands between the parts of a symptom's text."""
PER_SYMPTOM = 8
"""So many wrong values or crashes of one symptom are as good as the first: their symptom says little."""
MOST_NOVEL = 40
"""How many of one symptom are reduced at most; wrong values of different bugs share their symptom."""


Rank: TypeAlias = tuple[bool, bool, int, int, int]
"""Endless, like what is known, how many of its symptom are done, operators, number: the least comes first."""


class Selection:
    """Chooses the next failure to reduce, and knows when there is none worth it.

    A failure that holds all operators of a reduced case of the same symptom is presumed to be that bug again,
    unless checks have said that it is none that is known (`is_refuted`, by the failure's number).
    """

    def __init__(
        self, store: Store, target: str, is_refuted: Callable[[int], bool] = lambda number: False
    ) -> None:
        self._store = store
        self._target = target
        self._is_refuted = is_refuted
        self._operators: dict[str, Counter[str]] = {}

    def next(self, *, urgent: bool = False, without: Container[int] = ()) -> Failure | None:
        """The most promising un-reduced failure: unlike the known ones, of a rare symptom, small.

        Those whose numbers are in `without` are not asked for.

        What does not end comes last: each check and each proof takes all the time that a run may take.
        `urgent` asks only for the first of a symptom, which ends and is like no bug that is known.
        """
        failures = [each for each in list_failures(self._store) if each.target == self._target]
        reduced = [each for each in failures if each.status == REDUCED]
        waiting = [each for each in failures if each.status == NEW and each.id not in without]
        by_symptom = Counter(_kind(each) for each in reduced)
        sampled = samples(self._store)
        ranked = {
            each: self._rank(each, [] if each.id in sampled else reduced, by_symptom[_kind(each)])
            for each in waiting
        }
        worth = {failure: rank for failure, rank in ranked.items() if rank is not None}
        if urgent:
            first = {each for each in worth if not by_symptom[_kind(each)]}
            worth = {
                each: rank for each, rank in worth.items() if each in first and rank[:2] == (False, False)
            }
        return min(worth, key=lambda failure: worth[failure]) if worth else None

    def _rank(self, failure: Failure, reduced: list[Failure], done: int) -> Rank | None:
        """The less, the more promising; None where enough of its symptom are `done`."""
        alike = not self._is_refuted(failure.id) and self._known_bugs_in(failure, reduced) > 0
        specific = _is_specific(failure)
        if done >= (MOST_PRESUMED if alike or specific else MOST_NOVEL):
            return None
        size = sum(self._operators_of(failure.case_id).values())
        return failure.is_endless, alike, done if specific else done // PER_SYMPTOM, size, failure.id

    def _known_bugs_in(self, failure: Failure, reduced: list[Failure]) -> int:
        """Count the reduced cases of the same symptom that this failure could contain."""
        own = self._operators_of(failure.case_id)
        return sum(
            _kind(each) == _kind(failure) and _holds(own, self._operators_of(each.best_case))
            for each in reduced
        )

    def _operators_of(self, case_id: str) -> Counter[str]:
        if case_id not in self._operators:
            self._operators[case_id] = Counter(self._store.load_case(case_id).measure.ops)
        return self._operators[case_id]


def waiting(store: Store) -> Iterator[Failure]:
    """Yield every un-reduced failure, each after the one before is reduced; what tells most comes first.

    One that is as new when the next is asked for was left, such as one that needs trust: it comes once.
    """
    left: set[int] = set()
    for target in sorted({failure.target for failure in list_failures(store, status=NEW)}):
        selection = Selection(store, target)
        while failure := selection.next(without=left):
            yield failure
            _note_left(store, failure, left)
    while rest := [each for each in list_failures(store, status=NEW) if each.id not in left]:
        yield rest[0]
        _note_left(store, rest[0], left)


def _note_left(store: Store, failure: Failure, left: set[int]) -> None:
    if get_failure(store, failure.id).status == NEW:
        left.add(failure.id)


def _kind(failure: Failure) -> str:
    """The symptom; of a crash only its signal, for one kernel has many places in a stripped library."""
    if failure.outcome == Outcome.CRASH.value:
        return SEPARATOR.join(failure.symptom.split(SEPARATOR)[:3])
    return failure.symptom


def _is_specific(failure: Failure) -> bool:
    """Whether the symptom names a place in the compiler, so that the same symptom is most likely one bug."""
    return failure.outcome == Outcome.EXCEPTION.value


def _holds(outer: Mapping[str, int], inner: Mapping[str, int]) -> bool:
    return all(outer.get(operator, 0) >= count for operator, count in inner.items())
