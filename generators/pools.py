"""What a campaign breeds on: programs with their passes, and those that reached its target's own code.

A pool of programs with their passes follows Algorithm 1 of Tzer, block by block. A test is drawn from the
pool as it was when its block began; what it taught is a *trial*. Trials are put into the pool in the order
of their seeds, so a campaign breeds the same programs with any number of workers.

A program that reached new code is kept as its *lineage*, how it was made: a strategy, a seed, and the seeds
of the changes since. So such a pool is small, and crosses to any machine. A test draws from what the
campaign knew when its epoch began; what it reached is a *sighting*, put in by the order of the seeds.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpus.reading import unpack

BEFORE = "<"
"""What stands in a piece of coverage between a pass and a kind of node that was there before it."""

FRESH, PROGRAM, PASSES = "fresh", "program", "passes"
"""What of a pool's entry a test changed: nothing of any, F, or P."""


@dataclass(frozen=True, slots=True)
class Entry:
    """⟨F, P, N⟩: a program's document, its passes, and how many changes in a row of F met nothing new.

    `changed` are the passes that changed the program, where its coverage names such; `kind` says who breeds
    on it.
    """

    key: str
    program: str
    passes: tuple[str, ...] = ()
    idle: int = 0
    changed: tuple[str, ...] = ()
    kind: str = ""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Entry:
        """Read an entry from `document`."""
        lists = {name: tuple(document.get(name, ())) for name in ("passes", "changed")}
        return cls(**{**document, **lists})


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
    changed: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """The trial as JSON has it."""
        return asdict(self)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Trial:
        """Read a trial from `document`."""
        told: dict[str, Any] = {**document, "bred": Bred(**document["bred"])}
        lists = {name: tuple(told.get(name, ())) for name in ("news", "passes", "changed")}
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
        kept = sorted(entries.values(), key=lambda each: int(each.key))[-MOST:]
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
            kept = (trial.passes, trial.changed) if is_new else (parent.passes, parent.changed)
            entries[parent.key] = replace(parent, passes=kept[0], changed=kept[1], idle=0)
        return
    if is_new and trial.program:
        entries[trial.key] = Entry(
            trial.key, trial.program, trial.passes, changed=trial.changed, kind=trial.bred.kind
        )
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
    changed = {piece.partition(BEFORE)[0] for piece in covered if BEFORE in piece} if news else set()
    return Trial(key, bred, news, program if news else "", tuple(passes), changed=tuple(sorted(changed)))


NATIVE = "native"
"""The mixture that is led by it, and the strategy in it that breeds."""
ALONE = frozenset({"random", "uniform", "functions", "backward", "patterns", "mutate", NATIVE})
"""Strategies whose programs follow from their seeds and lineages alone, so that they can be made again."""
FADING = 0.7
"""What is left of the weight of tests and news with every further epoch; epochs grow with a campaign."""
MOST_PACKED, MOST_BLOCKS = 1 << 26, 1 << 27
"""Bytes of a list of blocks, and the number of the last block that a library may have."""
MOST = 400
"""Programs that a pool keeps: of more than that the oldest go."""
ENOUGH = 4
"""New blocks from which on a program is kept: fewer may be chance, such as hashes that collide."""
SAMPLED = 3
"""One block of seeds in this many tells what it reached: telling costs a test over a millisecond."""
DEEPEST = 3
"""Changes since a program was grown: all of them are made again for each of its children."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """How a program is made: grown by a strategy from a seed, with so many nodes, then changed by seeds."""

    strategy: str
    seed: int
    nodes: int
    changes: tuple[int, ...] = ()

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Lineage:
        """What `asdict` gave."""
        return cls(**{**document, "changes": tuple(document["changes"])})


@dataclass(frozen=True, slots=True)
class NewlyReached:
    """What a test reached that nobody knew when it was drawn: numbers of blocks, of one build of the target.

    `arm` names its strategy and mode. `lineage` is None where the program cannot be made again, or was broken
    on purpose.
    """

    build: str
    arm: str
    blocks: tuple[int, ...] = ()
    lineage: Lineage | None = None

    def document(self) -> dict[str, Any]:
        """The sighting as JSON has it; of the numbers, which are in order, the steps between them."""
        steps = np.diff(np.array((0, *self.blocks), np.int64)).astype("<u4").tobytes()
        lineage = asdict(self.lineage) if self.lineage else None
        return {"build": self.build, "arm": self.arm, "blocks": _text(steps), "lineage": lineage}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> NewlyReached:
        """What `document` gave."""
        found = document["lineage"]
        lineage = Lineage.of(found) if found else None
        blocks = np.cumsum(np.frombuffer(_bytes(document["blocks"]), "<u4").astype(np.int64))
        if blocks.size and blocks[-1] > MOST_BLOCKS:
            raise ValueError(f"a block of number {blocks[-1]}")
        return cls(str(document["build"]), str(document["arm"]), tuple(blocks.tolist()), lineage)


@dataclass(frozen=True, slots=True)
class Root:
    """A program to breed on, and how many blocks it was the first to reach."""

    lineage: Lineage
    gain: int

    @property
    def key(self) -> int:
        """The seed of the test that it was, which no other program of a campaign has."""
        return self.lineage.changes[-1] if self.lineage.changes else self.lineage.seed

    @property
    def weight(self) -> float:
        """How often it is chosen beside others: more for more news, but slowly.

        In whole steps, so that a few blocks more or less, which may be chance, change no choice.
        """
        return float(round(np.log2(1 + self.gain)))


@dataclass(frozen=True, slots=True)
class Reach:
    """The blocks of one build that are known, as packed bits; the programs in the order of their coming.

    `arms` are the tests of each arm and the new blocks that they met, those of late for most.
    """

    build: str = ""
    known: bytes = b""
    roots: tuple[Root, ...] = ()
    arms: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def bits(self, build: str, count: int) -> NDArray[np.bool_]:
        """A flag for each of so many blocks: whether it is known; of another build nothing is."""
        packed = np.frombuffer(self.known if build == self.build else b"", np.uint8)
        found = np.zeros(count, bool)
        bits = np.unpackbits(packed)[:count]
        found[: len(bits)] = bits
        return found

    def after(self, sightings: Iterable[NewlyReached]) -> Reach:
        """With these, one after the other. The blocks of a new build begin anew; programs stay."""
        build, roots = self.build, list(self.roots)
        arms = {name: (FADING * tests, FADING * gain) for name, (tests, gain) in self.arms.items()}
        known = np.unpackbits(np.frombuffer(self.known, np.uint8)).astype(bool)
        for each in sightings:
            if each.build != build:
                build, known = each.build, np.zeros(0, bool)
            known = _as_long(known, max(each.blocks, default=-1) + 1)
            numbers = np.array(each.blocks, np.int64)
            gain = int((~known[numbers]).sum())
            known[numbers] = True
            tests, before = arms.get(each.arm, (0.0, 0.0))
            arms[each.arm] = (tests + 1, before + gain)
            if gain >= ENOUGH and each.lineage is not None:
                roots.append(Root(each.lineage, gain))
        return Reach(build, np.packbits(known).tobytes(), tuple(roots[-MOST:]), arms)

    def choose(self, seed: int) -> Root | None:
        """The program that a seed is bred on; None where there is none.

        Each program draws a lot for the seed and the best one wins, by weight: so one program more or less in
        the pool changes only the seeds that it wins, and not all.
        """
        if not self.roots:
            return None
        keys = np.array([root.key for root in self.roots], np.uint64)
        forms = (_mixed(keys ^ _mixed(np.array([seed], np.uint64))) >> np.uint64(11)) / float(1 << 53)
        weights = np.array([root.weight for root in self.roots])
        return self.roots[int(np.argmax(np.log(forms + 2.0**-54) / weights))]

    def document(self) -> dict[str, Any]:
        """The reach as JSON has it."""
        roots = [asdict(root) for root in self.roots]
        return {"build": self.build, "known": _text(self.known), "roots": roots, "arms": dict(self.arms)}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Reach:
        """What `document` gave; nothing of an empty one."""
        if not document:
            return cls()
        known = _bytes(document["known"])
        roots = (Root(Lineage.of(each["lineage"]), int(each["gain"])) for each in document["roots"])
        arms = {name: (float(tests), float(gain)) for name, (tests, gain) in document["arms"].items()}
        return cls(str(document["build"]), known, tuple(roots), arms)


NOWHERE = Reach()


def is_sampled(seeds: range, block: int) -> bool:
    """Whether the block of these seeds, of so many each, tells what it reached."""
    return seeds.start // block % SAMPLED == 0


def _as_long(known: NDArray[np.bool_], count: int) -> NDArray[np.bool_]:
    """The flags, with room for so many."""
    return known if len(known) >= count else np.concatenate([known, np.zeros(count - len(known), bool)])


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Words that look like chance, and are the same anywhere: the last steps of splitmix64."""
    found = words * np.uint64(0x9E3779B97F4A7C15)
    found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return found ^ (found >> np.uint64(31))


def _text(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content)).decode()


def _bytes(text: str) -> bytes:
    return unpack(base64.b64decode(text), MOST_PACKED, "a lesson")
