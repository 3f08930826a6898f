"""What a campaign breeds on: programs with their passes.

A pool of programs with their passes follows Algorithm 1 of Tzer, block by block. A test is drawn from the
pool as it was when its block began; what it taught is a *trial*. Trials are put into the pool in the order
of their seeds, so a campaign breeds the same programs with any number of workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field, replace
from typing import Any

MOST_ENTRIES = 400
"""Programs that a pool keeps: of more than that the oldest go."""

FRESH, PROGRAM, PASSES = "fresh", "program", "passes"
"""What of a pool's entry a test changed: nothing of any, F, or P."""


@dataclass(frozen=True, slots=True)
class Entry:
    """⟨F, P, N⟩: a program's document, its passes, and how many changes in a row of F met nothing new.

    `kind` says who breeds on it.
    """

    key: str
    program: str
    passes: tuple[str, ...] = ()
    idle: int = 0
    kind: str = ""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Entry:
        """Read an entry from `document`."""
        return cls(**{**document, "passes": tuple(document.get("passes", ()))})


@dataclass(frozen=True, slots=True)
class Bred:
    """The origin of a test: its entry in the pool (empty for a fresh program), and the parts that changed.

    `made_of` is kept in the place of the program's document, where it says how to make that again; `kind`
    says whose programs go on from it, as strategies share a campaign's pool.
    """

    parent: str = ""
    changed: str = FRESH
    made_of: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """The lesson of one test: its origin, and the coverage that was new to its pool.

    `program` is its document if it brought news and did not fail, else empty.
    """

    key: str
    bred: Bred
    news: tuple[str, ...] = ()
    program: str = ""
    passes: tuple[str, ...] = ()
    failed: bool = False

    def document(self) -> dict[str, Any]:
        """The trial as JSON has it."""
        return asdict(self)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Trial:
        """Read a trial from `document`."""
        told: dict[str, Any] = {**document, "bred": Bred(**document["bred"])}
        lists = {name: tuple(told.get(name, ())) for name in ("news", "passes")}
        return cls(**{**told, **lists})


@dataclass(frozen=True, slots=True)
class Pool:
    """The entries, in the order in which they came, and all that was met."""

    entries: tuple[Entry, ...] = ()
    seen: frozenset[str] = field(default=frozenset())

    def of_kind(self, kind: str) -> Pool:
        """The entries of a kind, and all that was met."""
        return replace(self, entries=tuple(each for each in self.entries if each.kind == kind))

    def after(self, trials: Iterable[Trial]) -> Pool:
        """The pool with these tests, one after the other (Algorithm 1, lines 8 to 26)."""
        entries, seen = {each.key: each for each in self.entries}, set(self.seen)
        for trial in trials:
            if trial.failed:
                continue
            is_new = not seen.issuperset(trial.news)
            seen.update(trial.news)
            _note(entries, trial, is_new)
        kept = sorted(entries.values(), key=lambda each: int(each.key))[-MOST_ENTRIES:]
        return Pool(tuple(kept), frozenset(seen))

    def document(self) -> dict[str, Any]:
        """The pool as JSON has it."""
        return {"entries": [asdict(each) for each in self.entries], "seen": sorted(self.seen)}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Pool:
        """Read a pool from `document`; an empty one gives an empty pool."""
        entries = tuple(map(Entry.of, document.get("entries", ())))
        return cls(entries, frozenset(document.get("seen", ())))


EMPTY = Pool()


def _note(entries: dict[str, Entry], trial: Trial, is_new: bool) -> None:
    """Update the entries after one test that ended well."""
    parent = entries.get(trial.bred.parent)
    if trial.bred.changed == PASSES:
        if parent is not None:
            entries[parent.key] = replace(parent, passes=trial.passes if is_new else parent.passes, idle=0)
        return
    if is_new and trial.program:
        entries[trial.key] = Entry(trial.key, trial.program, trial.passes, kind=trial.bred.kind)
    if parent is not None:
        entries[parent.key] = replace(parent, idle=0 if is_new else parent.idle + 1)


def trial_of(
    key: str,
    bred: Bred,
    covered: AbstractSet[str],
    known: AbstractSet[str],
    program: str,
    passes: Sequence[str],
) -> Trial:
    """The trial of a test that ended well, where its pool knew so much."""
    news = tuple(sorted(covered - known))
    return Trial(key, bred, news, program if news else "", tuple(passes))
