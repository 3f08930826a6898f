"""Segments: the nodes between tensors that an optimiser left, each computed anew from what flowed into it.

The optimised run is recorded at these tensors. The un-optimised backend then computes each of them from the
recorded operands, so that a difference comes from the nodes of one segment, and only their own rounding
explains it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import onnx
from onnx import helper

from corpus.onnx.graph import free_names, outer_names, producers
from corpus.onnx.types import element_type
from corpus.values import Tensor, Value
from oracles.numerics.compare import (
    Difference,
    Mask,
    Tolerance,
    compare_tensors,
    describe,
    differing,
    distance,
)
from oracles.numerics.quantised_noise import only_moves
from oracles.operators import arithmetic_of
from oracles.probes.context import Divergence, Truth, truths
from oracles.probes.onnx_noise import OnnxNoise
from oracles.sandbox.sandbox import Job
from oracles.verdict import Run

AGAIN = "crux_again_"
"""Before the name of a tensor: the same, computed from recorded operands."""

MUCH = 6.0
"""How many times its spread an element must be away."""

SELDOM = 1.5
"""Behind several quantisations: how many times the greatest spread an element must be away, besides."""

LEAST_COUNT, LEAST_SHARE = 4, 0.02
"""Behind several quantisations: how many elements, and which share, a few noisy runs do not miss."""

Rerun = Callable[[Job], tuple[Run, ...]]


@dataclass(frozen=True)
class Segments:
    """The segments of one model, by the tensors `seen` in an optimised run; `rerun` runs un-optimised.

    `is_wide` is what `OnnxNoise` takes.
    """

    model: onnx.ModelProto
    job: Job
    seen: Mapping[str, Tensor]
    rerun: Rerun
    is_wide: bool

    def differences(self, screen: Tolerance) -> Iterator[tuple[Difference, Divergence]]:
        """The tensors that rounding within their segment does not explain, in topological order."""
        makers = producers(self.model.graph)
        for name, actual in self.seen.items():
            expected = self._again.get(self._named(name))
            if not isinstance(expected, np.ndarray) or name not in makers:
                continue
            if compare_tensors(name, expected, actual, screen) is None:
                continue
            if expected.shape != actual.shape or expected.dtype != actual.dtype:
                continue
            left = self._beyond(name, expected, actual, screen)
            if left is not None:
                yield left, Divergence(makers[name], name, expected, actual, together=True)

    def _beyond(self, name: str, expected: Tensor, actual: Tensor, screen: Tolerance) -> Difference | None:
        again = self._named(name)
        spread = self._noise.spreads().get(again)
        if spread is None or self._noise.unknown_before(again):
            return None
        quantisers = {node.output[0] for node in self._nodes_of(name) if arithmetic_of(node).quantises}
        bound = MUCH * spread
        if not quantisers <= self._lone:  # a few noisy runs miss elements that steps reach
            bound = np.maximum(bound, SELDOM * np.nanmax(spread, initial=0.0))
        left = differing(expected, actual, screen) & (distance(expected, actual) > bound)
        left &= np.isfinite(spread)
        if not left.any() or (not quantisers <= self._lone and _are_few(left)):
            return None
        return replace(describe(name, expected, actual, left), is_small=not quantisers)

    @cached_property
    def _again(self) -> Mapping[str, Value]:
        run = self.rerun(self._job)[0]
        return run.outputs if run.is_ok else {}

    @cached_property
    def _noise(self) -> OnnxNoise:
        return OnnxNoise(self._cut, self._job, self.rerun, is_wide=self.is_wide, lone=self._lone)

    @cached_property
    def _job(self) -> Job:
        fed = {name: value for name, value in self.seen.items() if name not in self._dequantised}
        inputs = {**self.job.inputs, **fed}
        return replace(self.job, program=self._cut.SerializeToString(), inputs=inputs, outputs=None)

    @cached_property
    def _cut(self) -> onnx.ModelProto:
        """The model with each tensor seen as an output, computed anew, and most of them as inputs too."""
        cut = deepcopy(self.model)
        graph = cut.graph
        for node in graph.node:
            for index, name in enumerate(node.output):
                if name in self.seen:
                    node.output[index] = self._named(name)
        del graph.output[:], graph.value_info[:]
        graph.output.extend(onnx.ValueInfoProto(name=self._named(name)) for name in self.seen)
        graph.input.extend(
            helper.make_tensor_value_info(name, element_type(value.dtype), value.shape)
            for name, value in self.seen.items()
            if name not in self._dequantised
        )
        return cut

    def _named(self, name: str) -> str:
        return name if name in self._dequantised else AGAIN + name

    @cached_property
    def _dequantised(self) -> frozenset[str]:
        """What came out of integers and was only moved since: what reads it may become a node of integers."""
        found = set[str]()
        for node in self.model.graph.node:
            if node.op_type == "DequantizeLinear" or (
                only_moves(node) and not found.isdisjoint(node.input[:1])
            ):
                found.update(node.output)
        return frozenset(found)

    def truths_of(self, name: str, referee: Callable[[Job], Run]) -> Iterator[Truth]:
        """The results of one segment in float64, under the tensor's own name."""
        alone = deepcopy(self._cut)
        graph, nodes = alone.graph, self._nodes_of(name)
        read = set[str]().union(*(free_names(node) for node in nodes))
        declared, weights = list(graph.input), list(graph.initializer)
        del graph.node[:], graph.input[:], graph.output[:], graph.initializer[:]
        graph.node.extend(nodes)
        graph.input.extend(each for each in declared if each.name in read)
        graph.initializer.extend(each for each in weights if each.name in read)
        graph.output.append(onnx.ValueInfoProto(name=self._named(name)))
        inputs = {each: value for each, value in self._job.inputs.items() if each in read}
        job = replace(self._job, program=alone.SerializeToString(), inputs=inputs)
        for truth in truths(alone, job, referee, lambda job: self.rerun(job)[0]):
            yield replace(truth, outputs={name: truth.outputs.get(self._named(name))})

    def _nodes_of(self, name: str) -> list[onnx.NodeProto]:
        """The nodes of the segment that ends in a tensor, in order."""
        found, waiting = set[int](), [self._named(name)]
        while waiting:
            at = self._makers.get(waiting.pop())
            if at is not None and at not in found:
                found.add(at)
                waiting += free_names(self._cut.graph.node[at])
        return [self._cut.graph.node[at] for at in sorted(found)]

    @cached_property
    def _makers(self) -> dict[str, int]:
        """The place of the node that makes a value."""
        nodes = self._cut.graph.node
        return {name: at for at, node in enumerate(nodes) for name in node.output if name}

    @cached_property
    def _lone(self) -> frozenset[str]:
        """The results of nodes that quantise, where no segment has two: of two an optimiser may leave one.

        What flows in is quantised exactly: it counts only if it is quantised again with no node between.
        """
        lone, several = set[str](), set[str]()
        for name in self.seen:
            nodes = self._nodes_of(name)
            made = [node for node in nodes if arithmetic_of(node).quantises]
            computed = {output for node in nodes for output in node.output}
            first = {node.output[0] for node in made if node.input[0] not in computed}
            again = {self._quantised_before(node) for node in made}
            rest = {node.output[0] for node in made} - (first - again)
            (lone if len(rest) == 1 else several).update(rest)
            lone |= first - again
        return frozenset(lone - several)

    def _quantised_before(self, node: onnx.NodeProto) -> str:
        """The name from which a node gets what it quantises, but for nodes that only move or widen it."""
        name = str(node.input[0])
        while (at := self._makers.get(name)) is not None:
            maker = self._cut.graph.node[at]
            if maker.op_type != "DequantizeLinear" and not only_moves(maker):
                break
            name = str(maker.input[0])
        return name


def _are_few(left: Mask) -> bool:
    """Whether a few noisy runs may have missed elements that steps reach."""
    return int(left.sum()) < max(LEAST_COUNT, LEAST_SHARE * left.size)


def left_by(optimised: onnx.ModelProto | None, model: onnx.ModelProto) -> list[str]:
    """The tensors of a model's main graph that its optimised form still makes, or all without that form."""
    outer = outer_names(model.graph)
    names = [name for node in model.graph.node for name in node.output if name and name not in outer]
    if optimised is None:
        return names
    kept = {name for node in optimised.graph.node for name in node.output}
    return [name for name in names if name in kept]
