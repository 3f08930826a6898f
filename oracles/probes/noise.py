"""Telling wrong results from rounding: how far may the un-optimised result itself move?

On a mismatch the un-optimised program is run again under several perturbations
(`oracles.numerics.perturbation`). That gives a spread for each element; an element counts as different only
where it lies clearly beyond its spread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import islice

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import NodeProto

from corpus.onnx.graph import free_names, outer_names, producers, subgraphs, walk_nodes
from corpus.onnx.types import element_type
from corpus.values import Tensor, Value
from oracles.in_worker.onnx.domain import DOMAIN
from oracles.numerics.compare import (
    Difference,
    Mask,
    Tolerance,
    compare,
    describe,
    differing,
    distance,
    is_float,
    widen,
)
from oracles.numerics.in_double import NARROW
from oracles.numerics.input_noise import EPSILON, NOISE_ULPS, is_near_limits, perturb_inputs
from oracles.numerics.operators import operator_of
from oracles.numerics.perturbation import Perturbation
from oracles.numerics.value_types import tensor_types
from oracles.probes.record import Recording, record_model
from oracles.run import Run, Status
from oracles.sandbox.sandbox import Job

SEEDS = 6
SNAPPING: Mapping[int, float] = {SEEDS + 1: 128.0, SEEDS + 2: 1.0}
"""The seeds of the samples in which results go to round numbers instead, and how coarse a grid these are."""
RECORDED_BYTES = 256 << 20
CLEAR = 3.0
"""How many times its spread an element must be away to count."""

SEEDS_OF_SPREADS = (1, 2, 3, 4)
"""The noisy runs that say how far every tensor of a program moves."""

CLEAR_IF_SMALL = 10.0
"""The same where only small differences are left."""


class Noise:
    """What rounding may do to the results of one program; every run of it is made at most once."""

    def __init__(
        self,
        model: onnx.ModelProto,
        job: Job,
        rerun: Callable[[Job], tuple[Run, ...]],
        *,
        is_wide: bool = False,
    ) -> None:
        self._model = model
        self._is_wide = is_wide
        self._job = job
        self._rerun = rerun
        self._gave_up = False
        self._draws = False
        self._made: dict[tuple[int, bool, bool], Mapping[str, Value] | None] = {}
        self._spreads: dict[bool, Mapping[str, NDArray[np.float64]]] = {}
        self.notes: list[str] = []

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
            return None if self._shape_moves(difference.output, expected, steps) else difference
        return self._weigh_values(difference.output, expected, actual, tolerance, steps)

    def _shape_moves(self, name: str, expected: Tensor, steps: bool) -> bool:
        return any(_shape(sample.get(name)) != expected.shape for sample in self.samples(steps))

    def _weigh_values(
        self, name: str, expected: Tensor, actual: Tensor, tolerance: Tolerance, steps: bool
    ) -> Difference | None:
        apart = distance(expected, actual)
        is_wild = not self.nonfinite.isdisjoint(self.ancestors(name))
        is_defined = is_wild and self._is_defined(name)
        plain = differing(expected, actual, tolerance.plain)
        if plain.any() or is_wild or (steps and self._quantises):
            tolerance = tolerance.plain  # a small difference counts only where nothing else can explain it
        differs = left = differing(expected, actual, tolerance)
        if is_wild and not is_defined:
            left = left & _finite(expected)
        clear = CLEAR if tolerance.ulps == 0 else CLEAR_IF_SMALL
        spread, told = np.zeros(expected.shape), np.zeros(expected.shape, bool)
        for sample in self.samples(steps, wild=is_defined):
            if not left.any():
                break
            moved = self._moved(expected, sample.get(name), tolerance.plain, wild=is_defined)
            told |= ~np.isnan(moved)
            spread = np.fmax(spread, moved)
            # a few samples miss some of the elements that a step may reach: the others speak for them
            usual = np.median(spread) if steps and self._quantises else 0.0
            left = left & (apart > np.maximum(clear * spread, usual))
        explained = differs & ~left & np.isfinite(spread)
        if left.any() and not _is_like(apart[left], apart[explained]):
            is_untold = not (left & told).any()
            found = describe(name, expected, actual, left if is_untold else left & told)
            found = replace(found, is_small=tolerance.ulps > 0, untold=is_untold)
            return replace(found, unconfirmed=self._unconfirmed(name, expected, tolerance.plain, steps))
        self.notes.append("nonfinite" if is_wild else "rounding")
        return None

    def _unconfirmed(self, name: str, expected: Tensor, tolerance: Tolerance, steps: bool) -> Mask | None:
        """The elements that hang on what a node made of finite values and that is not finite itself.

        No text fixes those: another implementation must make the same of them.
        """
        if self.nonfinite.isdisjoint(self.ancestors(name)) or self._only_passes(name):
            return None
        hangs = ~_finite(expected)
        for sample in islice(self.samples(steps), 2):
            hangs = hangs | ~np.isfinite(self._moved(expected, sample.get(name), tolerance))
        return hangs

    def _moved(
        self, expected: Tensor, sample: Value, tolerance: Tolerance, *, wild: bool = False
    ) -> NDArray[np.float64]:
        """How far one sample moved each element; without bound where it hangs on something not finite.

        NaN where the noise itself left the range of the type: the sample says nothing of that element. In a
        `wild` sample nothing was made finite, so that it may be compared as it is.
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

    def _sample(self, seed: int, steps: bool) -> Mapping[str, Value] | None:
        """One perturbed run; where the backend cannot run the noisy program, noise in the inputs must do."""
        if seed in SNAPPING:
            return self._snapped(seed, self._replaced)
        inputs = self._noisy_inputs(seed)
        return self._noisy(self._perturbation(seed, self._replaced, steps), inputs)

    def _perturbation(self, seed: int, replaced: frozenset[str], steps: bool) -> Perturbation:
        return Perturbation(self.types, seed, replaced, steps, large=self._large, is_wide=self._is_wide)

    def _noisy_inputs(self, seed: int, *, finite: bool = True) -> dict[str, Value]:
        """What flows into a program of torch's own is exact, whoever runs it: only results are rounded."""
        is_exact = any(node.domain == DOMAIN for node in self._model.graph.node)
        size = 0.0 if is_exact else NOISE_ULPS
        return perturb_inputs(self._job.inputs, seed, finite=finite, size=size, is_wide=self._is_wide)

    def _snapped(self, seed: int, replaced: frozenset[str]) -> Mapping[str, Value] | None:
        """The run on round numbers; None where the backend cannot do that."""
        snapping = replace(self._perturbation(seed, replaced, True), snaps=SNAPPING[seed])
        program = snapping.apply(self._model).SerializeToString()
        run = self._rerun(replace(self._job, program=program))[0]
        return run.outputs if run.is_ok else None

    def _wild_sample(self, seed: int, steps: bool) -> Mapping[str, Value] | None:
        if seed in SNAPPING:
            return self._snapped(seed, frozenset())
        inputs = self._noisy_inputs(seed, finite=False)
        return self._noisy(self._perturbation(seed, frozenset(), steps), inputs)

    def _noisy(self, perturbation: Perturbation, inputs: Mapping[str, Value]) -> Mapping[str, Value] | None:
        for program in self._variants(perturbation):
            run = self._rerun(replace(self._job, program=program, inputs=inputs))[0]
            if run.is_ok:
                return run.outputs
            self._draws = True
            if run.status is not Status.EXCEPTION:
                self._gave_up = True  # it hangs, starves or dies of noise: the next seed would too
                break
        return None

    def _variants(self, perturbation: Perturbation) -> Iterator[bytes]:
        """The noisy program; with noise in constants where a backend draws no numbers; without any noise."""
        if not self._draws:
            yield perturbation.apply(self._model).SerializeToString()
        yield replace(perturbation, draws=True).apply(self._model).SerializeToString()
        yield self._job.program

    @cached_property
    def _quantises(self) -> bool:
        return any(operator_of(node).quantises for node in walk_nodes(self._model.graph))

    @cached_property
    def types(self) -> dict[str, onnx.TypeProto.Tensor]:
        """Types of all values: inferred, and where that falls short, those that were seen."""
        types = tensor_types(self._model, self._job.inputs)
        made = {name for node in self._model.graph.node for name in node.output if name}
        if made <= types.keys():
            return types
        for name, value in self.recording.values.items():
            if name not in types and isinstance(value, np.ndarray):
                seen = onnx.helper.make_tensor_type_proto(element_type(value.dtype), value.shape)
                types[name] = seen.tensor_type
        return types

    @cached_property
    def recording(self) -> Recording:
        """The un-optimised run with its intermediates."""
        return record_model(self._model, self._job, self._rerun, byte_budget=RECORDED_BYTES)

    def spreads(self, steps: bool = True) -> Mapping[str, NDArray[np.float64]]:
        """How far noise moves each tensor of the main graph; those that no noisy run gives are left out.

        Infinite where a run left the range of a type.
        """
        if steps not in self._spreads:
            self._spreads[steps] = self._spread_of_all(steps)
        return self._spreads[steps]

    def _spread_of_all(self, steps: bool) -> dict[str, NDArray[np.float64]]:
        outer = outer_names(self._model.graph)
        made = [name for node in self._model.graph.node for name in node.output if name and name not in outer]
        found: dict[str, NDArray[np.float64]] = {}
        for seed in SEEDS_OF_SPREADS:
            noisy = replace(self._perturbation(seed, self._replaced, steps), draws=self._draws)
            program = noisy.apply(self._model)
            del program.graph.output[:]
            program.graph.output.extend(onnx.ValueInfoProto(name=name) for name in made)
            inputs = self._noisy_inputs(seed)
            run = self._rerun(
                replace(self._job, program=program.SerializeToString(), inputs=inputs, outputs=None)
            )[0]
            for name, value in run.outputs.items() if run.is_ok else ():
                known = self.recording.values.get(name)
                if not isinstance(known, np.ndarray) or not isinstance(value, np.ndarray):
                    continue
                if known.shape == value.shape and known.dtype == value.dtype:
                    found[name] = np.maximum(found.get(name, 0.0), distance(known, value))
        return found

    @cached_property
    def nonfinite(self) -> frozenset[str]:
        """The values of the main graph, inputs included, that hold a NaN or an infinity."""
        return frozenset(name for name, value in self.recording.values.items() if not _all_finite(value))

    @cached_property
    def _replaced(self) -> frozenset[str]:
        """What the perturbation makes finite; inside bodies nothing was seen, so everything there."""
        if not self.nonfinite:
            return frozenset()
        return self.nonfinite | (self.types.keys() - self.recording.values.keys())

    @cached_property
    def _large(self) -> frozenset[str]:
        """The values of which noise might leave the range of their type, though they are finite."""
        return frozenset(name for name, value in self.recording.values.items() if is_near_limits(value))

    def _is_defined(self, name: str) -> bool:
        """Whether values that are not finite enter no operator but such as define what to do with them."""
        entered = (node for node in self._makers(name) if self.nonfinite.intersection(free_names(node)))
        return all(operator_of(node).defines_nonfinite for node in entered)

    def _only_passes(self, name: str) -> bool:
        """Whether NaN and infinity come in from outside: no node but such operators makes one, which is
        where implementations differ."""
        made = (node for node in self._makers(name) if self.nonfinite.intersection(node.output))
        return all(operator_of(node).defines_nonfinite for node in made)

    def _makers(self, name: str) -> Iterator[NodeProto]:
        """The nodes of the main graph that a value is computed by."""
        wanted = self.ancestors(name)
        return (node for node in self._model.graph.node if wanted.intersection(node.output))

    def ancestors(self, name: str) -> set[str]:
        """The names that a value of the main graph is computed from, itself included."""
        makers = producers(self._model.graph)
        found, waiting = {name}, [name]
        while waiting:
            maker = makers.get(waiting.pop())
            new = free_names(maker) - found if maker is not None else set()
            found |= new
            waiting += new
        return found

    def unknown_before(self, name: str) -> str:
        """The first operator before a value of which nobody has said how it rounds; empty if there is none.

        A call of the model's own function is what its body is.
        """
        functions = {(each.domain, each.name): each for each in self._model.functions}
        waiting, asked = list(self._makers(name)), set[tuple[str, str]]()
        for node in waiting:
            key = node.domain, node.op_type
            if key in functions and key not in asked:
                asked.add(key)
                waiting.extend(functions[key].node)
            elif key not in functions and not operator_of(node).is_known:
                return node.op_type
            waiting.extend(inner for body in subgraphs(node) for inner in body.node)
        return ""

    def widens(self, name: str) -> bool:
        """Whether any value before an output is a float narrower than float64, or of unknown type."""
        types = (self.types.get(value) for value in self.ancestors(name))
        return any(declared is None or declared.elem_type in NARROW for declared in types)

    def _can_move(self, name: str) -> bool:
        """Whether anything before an output is a float, of unknown type, or random."""
        types = self.types
        wanted = self.ancestors(name)
        if any(value not in types or types[value].elem_type in EPSILON for value in wanted if value):
            return True
        return any(operator_of(node).is_random or subgraphs(node) for node in self._makers(name))


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
