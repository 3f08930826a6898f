"""Rounding-sized noise in an ONNX model, put in by `oracles.numerics.perturbation`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import NodeProto

from corpus.onnx.graph import free_names, outer_names, producers, subgraphs, walk_nodes
from corpus.onnx.types import element_type
from corpus.values import Value
from oracles.numerics.compare import distance
from oracles.numerics.input_noise import (
    EPSILON,
    NARROW,
    NOISE_ULPS,
    is_near_limits,
    perturb_inputs,
    tensor_types,
)
from oracles.numerics.perturbation import Perturbation, exact_results
from oracles.numerics.quantised_noise import OF_WEIGHTS, TOGETHER
from oracles.operators import arithmetic_of
from oracles.probes.noise import SNAPPING, SampledNoise
from oracles.probes.record import Recording, record_model
from oracles.sandbox.sandbox import Job
from oracles.verdict import Run, Status
from oracles.worker.onnx import DOMAIN

SEEDS_OF_SPREADS = (1, 2, 3, 4)
"""The noisy runs that say how far every tensor of a program moves; with steps the last two kinds do, too.

In a sum of few terms, moves up and down by chance may cancel in every run.
"""

RECORDED_BYTES = 256 << 20
"""Of intermediates that are kept for the samples."""


class OnnxNoise(SampledNoise):
    """The effect of rounding on the results of one model.

    `is_wide` says that the backend computes short floats in a longer type, so that they round once. `lone`
    says that the inputs are results of the run under judgement, so exact, and which quantised values reach
    another step only near its edge.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        job: Job,
        rerun: Callable[[Job], tuple[Run, ...]],
        *,
        is_wide: bool = False,
        lone: frozenset[str] | None = None,
    ) -> None:
        super().__init__(job, rerun)
        self._model = model
        self._is_wide = is_wide
        self._lone = lone
        self._draws = False
        self._spreads: dict[bool, Mapping[str, NDArray[np.float64]]] = {}

    def _sample(self, seed: int, steps: bool) -> Mapping[str, Value] | None:
        """One perturbed run; where the backend cannot run the noisy program, noise in the inputs must do."""
        if seed in SNAPPING:
            return self._snapped(seed, self._replaced)
        inputs = self._noisy_inputs(seed)
        return self._noisy(self._perturbation(seed, self._replaced, steps), inputs)

    def _perturbation(self, seed: int, replaced: frozenset[str], steps: bool) -> Perturbation:
        return Perturbation(
            self.types,
            seed,
            replaced=replaced,
            exact=self._exact,
            steps=steps,
            large=self._large,
            is_wide=self._is_wide,
            lone=self._lone or frozenset(),
        )

    def _noisy_inputs(self, seed: int, *, finite: bool = True) -> dict[str, Value]:
        """Add noise to inputs, unless torch's own operators read them: there only results are rounded."""
        is_exact = any(node.domain == DOMAIN for node in self._model.graph.node)
        size = 0.0 if is_exact or self._lone is not None else NOISE_ULPS
        return perturb_inputs(self._job.inputs, seed, finite=finite, size=size, is_wide=self._is_wide)

    def _snapped(self, seed: int, replaced: frozenset[str]) -> Mapping[str, Value] | None:
        """The run on round numbers; None where the backend cannot do that."""
        snapping = replace(self._perturbation(seed, replaced, True), snaps=SNAPPING[seed])
        program = snapping.apply(self._model).SerializeToString()
        run = self._rerun(replace(self._job, program=program))[0]
        return run.outputs if run.is_ok else None

    def _wild_sample(self, seed: int, steps: bool) -> Mapping[str, Value] | None:
        """Run a sample as `_sample` does, but keep NaN and infinity."""
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
    def quantises(self) -> bool:
        """Whether some operator rounds its input to steps."""
        return any(arithmetic_of(node).quantises for node in walk_nodes(self._model.graph))

    @cached_property
    def has_steps(self) -> bool:
        """Whether some values are rounded to steps: floats beside integer weights are, by an optimiser."""
        return self.quantises or any(arithmetic_of(node).has_scale for node in walk_nodes(self._model.graph))

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
        """Map each tensor of the main graph to the distance that noise moves it; without a run, leave it out.

        The distance is infinite where a run left the range of a type.
        """
        if steps not in self._spreads:
            self._spreads[steps] = self._spread_of_all(steps)
        return self._spreads[steps]

    def _spread_of_all(self, steps: bool) -> dict[str, NDArray[np.float64]]:
        outer = outer_names(self._model.graph)
        made = [name for node in self._model.graph.node for name in node.output if name and name not in outer]
        found: dict[str, NDArray[np.float64]] = {}
        for seed in (*SEEDS_OF_SPREADS, *((TOGETHER, OF_WEIGHTS) if steps and self.has_steps else ())):
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
    def _replaced(self) -> frozenset[str]:
        """The tensors that the perturbation makes finite; in bodies all, since no run shows them."""
        if not self.nonfinite:
            return frozenset()
        return self.nonfinite | (self.types.keys() - self.recording.values.keys())

    @cached_property
    def _large(self) -> frozenset[str]:
        """The finite values that noise could push out of their type's range."""
        return frozenset(name for name, value in self.recording.values.items() if is_near_limits(value))

    @cached_property
    def _exact(self) -> frozenset[str]:
        """The results of the main graph that no rounding enters."""
        return exact_results(self._model.graph.node, self.types, self.recording.values)

    def _is_defined(self, name: str) -> bool:
        """Whether NaN and infinity enter only operators that define how to treat them."""
        entered = (node for node in self._makers(name) if self.nonfinite.intersection(free_names(node)))
        return all(arithmetic_of(node).defines_nonfinite for node in entered)

    def _only_passes(self, name: str) -> bool:
        """Whether NaN and infinity come in from outside: only operators that define them make one."""
        made = (node for node in self._makers(name) if self.nonfinite.intersection(node.output))
        return all(arithmetic_of(node).defines_nonfinite for node in made)

    def _makers(self, name: str) -> Iterator[NodeProto]:
        """The nodes of the main graph that a value is computed by."""
        wanted = self.ancestors(name)
        return (node for node in self._model.graph.node if wanted.intersection(node.output))

    def ancestors(self, name: str) -> set[str]:
        """The names that a value of the main graph is computed from, itself included.

        Of a tensor of a sequence (`compare.in_parts`) they are those of the whole.
        """
        makers = producers(self._model.graph)
        whole = name
        while whole not in makers and "#" in whole:
            whole = whole.rpartition("#")[0]
        found, waiting = {name, whole}, [whole]
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
            elif key not in functions and not arithmetic_of(node).is_known:
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
        return any(arithmetic_of(node).is_random or subgraphs(node) for node in self._makers(name))
