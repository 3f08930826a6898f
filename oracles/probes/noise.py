"""Telling wrong results from rounding: how far may the un-optimised result itself move?

On a mismatch the un-optimised program is run again under several perturbations
(`oracles.numerics.perturbation`). That gives a spread for each element; an element counts as different
only where it lies clearly beyond its spread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from corpus.values import Tensor, Value, is_float, widen
from oracles.numerics.compare import (
    Difference,
    Mask,
    Tolerance,
    compare,
    describe,
    differing,
    distance,
    part_of,
)
from oracles.probes.record import Recording
from oracles.sandbox.sandbox import Job
from oracles.verdict import Mark, Notes, Run

SEEDS = 6
SNAPPING: Mapping[int, float] = {SEEDS + 1: 128.0, SEEDS + 2: 1.0}
"""The seeds of the samples in which results go to round numbers instead, and how coarse a grid these are."""
CLEAR = 3.0
"""How many times its spread an element must be away to count."""
LEAST_SAMPLES = 2
"""Noisy runs that must end well where others hang or die: noise of both signs."""


class Noise(ABC):
    """The effect of rounding on the results of one program; each noisy run is made at most once.

    Each kind of program has a class of its own. `notes` tell why differences were set aside.
    """

    def __init__(self, job: Job, rerun: Callable[[Job], tuple[Run, ...]]) -> None:
        self._job = job
        self._rerun = rerun
        self.notes = Notes()

    @property
    @abstractmethod
    def recording(self) -> Recording:
        """The un-optimised run with its intermediates."""

    @cached_property
    def nonfinite(self) -> frozenset[str]:
        """The values of the main graph, inputs included, that hold a NaN or an infinity."""
        return frozenset(name for name, value in self.recording.values.items() if not _all_finite(value))

    @abstractmethod
    def ancestors(self, name: str) -> set[str]:
        """The names that a value is computed from, itself included."""

    @abstractmethod
    def unknown_before(self, name: str) -> str:
        """The first operator before a value of unknown rounding; empty if there is none."""

    @abstractmethod
    def widens(self, name: str) -> bool:
        """Whether any value before an output is a float narrower than float64, or of unknown type."""

    @abstractmethod
    def beyond_noise(
        self,
        expected: Mapping[str, Value],
        actual: Mapping[str, Value],
        tolerance: Tolerance,
        *,
        steps: bool = True,
    ) -> Iterator[Difference]:
        """The differences that rounding and values that are not finite do not explain, one an output at most.

        `steps` says whether a quantised value may fall to its neighbour: it may where groups of nodes around
        a quantisation are computed in integers as one.
        """


class SampledNoise(Noise):
    """Noise told by samples: runs of the un-optimised program with noise put in."""

    def __init__(self, job: Job, rerun: Callable[[Job], tuple[Run, ...]]) -> None:
        super().__init__(job, rerun)
        self._gave_up = False
        self._made: dict[tuple[int, bool, bool], Mapping[str, Value] | None] = {}

    @abstractmethod
    def _sample(self, seed: int, steps: bool) -> Mapping[str, Value] | None:
        """Run once with noise and all values finite; None if the run fails."""

    def _wild_sample(self, seed: int, steps: bool) -> Mapping[str, Value] | None:
        """Run once with noise and leave values that are not finite as they are; None if the run fails."""
        return None

    @property
    @abstractmethod
    def quantises(self) -> bool:
        """Whether some operator rounds its input to steps."""

    @property
    def has_steps(self) -> bool:
        """Whether some values are rounded to steps, by an operator or by what optimisers make of it."""
        return self.quantises

    @abstractmethod
    def _can_move(self, name: str) -> bool:
        """Whether noise can reach an output."""

    @abstractmethod
    def _is_defined(self, name: str) -> bool:
        """Whether NaN and infinity enter only operators that define how to treat them."""

    @abstractmethod
    def _only_passes(self, name: str) -> bool:
        """Whether NaN and infinity come in from outside, and no other node makes one."""

    def beyond_noise(
        self,
        expected: Mapping[str, Value],
        actual: Mapping[str, Value],
        tolerance: Tolerance,
        *,
        steps: bool = True,
    ) -> Iterator[Difference]:
        """One difference an output at most, told by the samples."""
        for name, value in expected.items():
            difference = compare(name, value, actual.get(name), tolerance)
            if difference is not None:
                difference = self._weigh(difference, value, actual.get(name), tolerance, steps)
            if difference is not None:
                yield difference

    def _weigh(
        self, difference: Difference, expected: Value, actual: Value, tolerance: Tolerance, steps: bool
    ) -> Difference | None:
        if difference.kind in ("dtype", "presence") or not self._can_move(difference.output):
            return difference
        if not isinstance(expected, np.ndarray) or not isinstance(actual, np.ndarray):
            return difference
        if difference.kind == "shape":
            found = None if self._shape_moves(difference.output, expected, steps) else difference
        else:
            found = self._weigh_values(difference.output, expected, actual, tolerance, steps)
        if found is not None and self._lacks_samples:
            self.notes.add(
                "undecided: no run with noise ends well, so rounding may explain it", Mark.UNDECIDED
            )
            return None
        return found

    @property
    def _lacks_samples(self) -> bool:
        """Whether noisy runs hung or died before enough of them ended well."""
        return self._gave_up and sum(made is not None for made in self._made.values()) < LEAST_SAMPLES

    def _shape_moves(self, name: str, expected: Tensor, steps: bool) -> bool:
        return any(_shape(part_of(sample, name)) != expected.shape for sample in self.samples(steps))

    def _weigh_values(
        self, name: str, expected: Tensor, actual: Tensor, tolerance: Tolerance, steps: bool
    ) -> Difference | None:
        apart = distance(expected, actual)
        is_wild = not self.nonfinite.isdisjoint(self.ancestors(name))
        is_defined = is_wild and self._is_defined(name)
        plain = differing(expected, actual, tolerance.plain)
        if plain.any() or is_wild or (steps and self.quantises):
            tolerance = tolerance.plain  # a small difference counts only where nothing else can explain it
        differs = left = differing(expected, actual, tolerance)
        if is_wild and not is_defined:
            left = left & _finite(expected)
        spread, told = np.zeros(expected.shape), np.zeros(expected.shape, bool)
        for sample in self.samples(steps, wild=is_defined):
            if not left.any():
                break
            moved = self._moved(expected, part_of(sample, name), tolerance.plain, wild=is_defined)
            told |= ~np.isnan(moved)
            spread = np.fmax(spread, moved)
            # a few samples miss some of the elements that a step may reach: the others speak for them
            usual = np.median(spread) if steps and self.has_steps else 0.0
            left = left & (apart > np.maximum(CLEAR * spread, usual))
        explained = differs & ~left & np.isfinite(spread)
        if left.any() and not _is_like(apart[left], apart[explained]):
            is_untold = not (left & told).any()
            found = describe(name, expected, actual, left if is_untold else left & told)
            found = replace(found, is_small=tolerance.ulps > 0, untold=is_untold)
            return replace(found, unconfirmed=self._unconfirmed(name, expected, tolerance.plain, steps))
        if is_wild:
            self.notes.add("nonfinite", Mark.NONFINITE)
        else:
            self.notes.add("rounding")
        return None

    def _unconfirmed(self, name: str, expected: Tensor, tolerance: Tolerance, steps: bool) -> Mask | None:
        """The elements that depend on a value that a node made not finite from finite ones.

        No text fixes those: another implementation must make the same of them.
        """
        if self.nonfinite.isdisjoint(self.ancestors(name)) or self._only_passes(name):
            return None
        hangs = ~_finite(expected)
        for sample in islice(self.samples(steps), 2):
            hangs = hangs | ~np.isfinite(self._moved(expected, part_of(sample, name), tolerance))
        return hangs

    def _moved(
        self, expected: Tensor, sample: Value, tolerance: Tolerance, *, wild: bool = False
    ) -> NDArray[np.float64]:
        """How far one sample moved each element; infinite if it depends on something not finite.

        NaN marks an element whose noise itself left the range of the type: the sample says nothing of it. In
        a `wild` sample nothing was made finite, so that it may be compared as it is.
        """
        if not isinstance(sample, np.ndarray) or sample.shape != expected.shape:
            return np.full(expected.shape, np.inf)
        if wild:
            return distance(expected, sample)
        tainted = ~_finite(sample)
        if not self.nonfinite:
            says_nothing = tainted & _finite(expected)
            return np.where(says_nothing, np.nan, np.where(tainted, np.inf, distance(expected, sample)))
        tainted |= differing(expected, sample, tolerance)
        return np.where(tainted, np.inf, distance(expected, sample))

    def samples(self, steps: bool = True, *, wild: bool = False) -> Iterator[Mapping[str, Value]]:
        """Outputs of the perturbed runs that end well, made as they are asked for.

        In `wild` ones what is not finite stays so.
        """
        for seed in range(1, SEEDS + len(SNAPPING) + 1):
            key = seed, steps, wild
            if key not in self._made:
                if self._gave_up:
                    return
                self._made[key] = self._wild_sample(seed, steps) if wild else self._sample(seed, steps)
            outputs = self._made[key]
            if outputs is not None:
                yield outputs


def _is_like(left: NDArray[np.float64], explained: NDArray[np.float64]) -> bool:
    """Whether the elements left are no more, and no further away, than those that noise explains.

    Of a tie of many (Hardmax, a maximum's index) a few samples show that it is one, but not each of its ends.
    """
    return 0 < left.size <= explained.size and bool(left.max() <= explained.max())


def _finite(tensor: Tensor) -> Mask:
    return np.isfinite(widen(tensor)) if is_float(tensor) else np.ones(tensor.shape, bool)


def _shape(value: Value) -> tuple[int, ...] | None:
    return value.shape if isinstance(value, np.ndarray) else None


def _all_finite(value: Value) -> bool:
    if isinstance(value, list):
        return all(_all_finite(item) for item in value)
    return value is None or bool(_finite(value).all())
