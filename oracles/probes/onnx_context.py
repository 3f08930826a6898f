"""What rules may ask about an ONNX model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cached_property

import numpy as np
import onnx

from corpus.onnx.canonical import steps
from corpus.onnx.check import checker_complaint
from corpus.onnx.graph import producers, walk_model, without_functions
from corpus.values import Value, is_float, widen
from oracles.backends import find_backend
from oracles.naming import names_of
from oracles.numerics.compare import Difference, Tolerance, compare, distance
from oracles.numerics.input_noise import Types, static_dims, tensor_types, type_complaint
from oracles.numerics.mismatch_kind import (
    exceeds,
    has_no_scale,
    has_subnormal,
    is_linear,
    left_open,
    may_flush,
    may_saturate,
    overflows,
)
from oracles.operators import arithmetic_of
from oracles.probes.context import EXACT_LEVELS, Context, Differs, Divergence, FirstDivergence, Truth, truths
from oracles.probes.onnx_noise import OnnxNoise
from oracles.probes.record import as_defined, node_alone, type_alone
from oracles.probes.segments import Segments, left_by
from oracles.relation.arithmetic import Rounding
from oracles.sandbox.executor import Executor
from oracles.sandbox.sandbox import Job
from oracles.verdict import Config, Located

SATURATION = "products of uint8 and int8 saturate by design in onnxruntime on a CPU without VNNI"
MUCH = 6.0
"""How many times its spread a tensor must be away to be where two ways part."""


def _dims_in(types: Types, name: str) -> tuple[int, ...] | None:
    declared = types.get(name)
    return static_dims(declared) if declared is not None else None


class OnnxContext(Context):
    """One ONNX model on its way through the rules.

    `is_wide`: the backend computes short floats in a longer type, so that they round once.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        job: Job,
        executor: Executor,
        *,
        tolerance: Tolerance,
        screen: Tolerance,
        is_wide: bool,
        accept_invalid: bool,
    ) -> None:
        super().__init__(job, executor, tolerance=tolerance, screen=screen)
        self.model = model
        self._is_wide = is_wide
        self._accept_invalid = accept_invalid
        self._partings: dict[tuple[Config, str], Divergence | None] = {}

    @cached_property
    def complaint(self) -> str | None:
        """Say why the checker rejects the model; None if it accepts it, or invalid models are accepted."""
        if self._accept_invalid:
            return None
        return checker_complaint(self.model) or type_complaint(self.model)

    @cached_property
    def contradiction(self) -> str:
        """Say what does not go together; empty if all does.

        That is a symbolic dim of two sizes, or operands that some kernel takes and ONNX does not allow.
        """
        seen: dict[str, tuple[int, str]] = {}
        for declared in self.model.graph.input:
            given = self.job.inputs.get(declared.name)
            dims = declared.type.tensor_type.shape.dim
            if not isinstance(given, np.ndarray) or given.ndim != len(dims):
                continue
            for dim, size in zip(dims, given.shape, strict=True):
                if not dim.dim_param:
                    continue
                first, where = seen.setdefault(dim.dim_param, (size, declared.name))
                if first != size:
                    return f"dim {dim.dim_param!r} is {first} in {where!r} and {size} in {declared.name!r}"
        for node in self.nodes:
            misfits = arithmetic_of(node).misfits
            dims = [self.shape_of(name) for name in node.input] if misfits else []
            for words in (words for words, is_misfit in misfits.items() if is_misfit(node, dims)):
                return f"{node.op_type}: {words}"
        return ""

    @cached_property
    def names(self) -> frozenset[str]:
        """The names in the model."""
        return names_of(self.model)

    def shape_of(self, name: str) -> tuple[int, ...] | None:
        """The shape that inference gives a value on these inputs; None where it is not known.

        The newest text of the operators comes first: it says what earlier ones meant, as of a window in the
        padding.
        """
        newest = _dims_in(self._newest_types, name)
        return _dims_in(self._types, name) if newest is None else newest

    @cached_property
    def _types(self) -> Types:
        return tensor_types(self.model, self.job.inputs)

    @cached_property
    def _newest_types(self) -> Types:
        newest = deepcopy(self.model)
        for opset in newest.opset_import:
            if not opset.domain:
                opset.version = onnx.defs.onnx_opset_version()
        return tensor_types(newest, self.job.inputs)

    @cached_property
    def own_truth(self) -> Truth | None:
        """Run the program in float64 on the un-optimised backend; None if the backend cannot."""
        if not any(self.noise.widens(output.name) for output in self.model.graph.output):
            return None
        return next(truths(self.model, self.job, lambda job: self.rerun(job)[0]), None)

    @cached_property
    def _untold(self) -> Iterator[Truth]:
        return truths(self.model, self.job, self.ask_referee, lambda job: self.rerun(job)[0])

    def declared(self, name: str) -> onnx.TypeProto.Tensor | None:
        """The type that a value of the main graph must have, by what flows into its node where need be."""
        if name not in self._declared:
            known, node = self.noise.types.get(name), self._makers.get(name)
            if node is not None and (known is None or static_dims(known) is None):
                values = self.noise.recording.values
                known = type_alone(self.model, node, name, values, self.job) or known
            self._declared[name] = known
        return self._declared[name]

    @cached_property
    def _declared(self) -> dict[str, onnx.TypeProto.Tensor | None]:
        return {}

    @cached_property
    def _makers(self) -> dict[str, onnx.NodeProto]:
        return producers(self.model.graph)

    def left_open(self, output: str) -> str:
        """What leaves an output open by something on the way to it.

        That is a scale that is not above 0, a value that cannot be held by the dtype computed in or that is
        flushed to 0, an overflow that is clamped, or weights of eight bits whose products saturate here.
        """
        nodes = self._plain.graph.node
        scaled = [node for node in nodes if arithmetic_of(node).has_scale or is_linear(node)]
        backend = self.executor.backend
        if not (scaled or backend.computed_as or backend.flushes or backend.clamps or self._saturates):
            return ""
        values, wanted = self.noise.recording.values, self.noise.ancestors(output)

        def leading(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
            return (node for node in nodes if not wanted.isdisjoint(node.output))

        if self._saturates and any(may_saturate(self._weights.get(name)) for name in wanted):
            return SATURATION
        if any(has_no_scale(node, values) for node in leading(scaled)):
            return "a scale that is not above 0"
        over = (node for node in leading(nodes) if overflows(node, values, backend.clamps))
        if clamped := next(over, None):
            return f"overflow is clamped, and {clamped.op_type} overflows"
        tiny = (node for node in leading(nodes) if may_flush(node, values, backend.flushes))
        if flushed := next(tiny, None):
            return f"numbers below the least normal one are taken for 0, and {flushed.op_type} may make some"
        reasons = (self._unheld(name, values[name]) for name in sorted(wanted & values.keys()))
        return next(filter(None, reasons), "")

    def _unheld(self, name: str, value: Value) -> str:
        """Why the backend cannot hold a value; empty if it can."""
        backend = self.executor.backend
        if not isinstance(value, np.ndarray):
            return ""
        shorter = backend.computed_as.get(value.dtype.name)
        if shorter and exceeds(value, shorter, is_position=name in self._positions):
            return f"{value.dtype} is computed as {shorter}, which cannot hold {name}"
        if value.dtype.name in backend.flushes and has_subnormal(value):
            return f"numbers below the least normal one are taken for 0, and {name} holds one"
        return ""

    @cached_property
    def _positions(self) -> frozenset[str]:
        """What Slice reads as starts and ends."""
        return frozenset(name for node in self.nodes if node.op_type == "Slice" for name in node.input[1:])

    @cached_property
    def _saturates(self) -> bool:
        backend = self.executor.backend
        return backend.saturates() or bool(backend.baseline and find_backend(backend.baseline).saturates())

    @cached_property
    def _weights(self) -> dict[str, Value]:
        values = self.noise.recording.values
        return {tensor.name: values.get(tensor.name) for tensor in self.model.graph.initializer}

    def divergence(self, config: Config, output: str) -> Divergence | None:
        """The first tensor before an output at which a configuration parts from the un-optimised run."""
        if not self.model.graph.node:
            return None
        key = config, output
        if key not in self._partings:
            self._partings[key] = self._way(config).first(output, self.noise.ancestors(output))
        return self._partings[key]

    def _way(self, config: Config) -> FirstDivergence:
        job, values = replace(self.job, configs=(config,)), self.noise.recording.values
        return FirstDivergence(self.model, job, self.executor.run, values, self._parter(config))

    def wrong_segments(self, config: Config) -> Iterator[tuple[Difference, Divergence, Iterator[Truth]]]:
        """The tensors that rounding within a segment does not explain (`oracles.probes.segments`)."""
        segments = self._segments(config)
        if segments is None:
            return
        for difference, divergence in segments.differences(self.screen):
            yield difference, divergence, segments.truths_of(divergence.name, self.ask_referee)

    def _segments(self, config: Config) -> Segments | None:
        names = left_by(self.executor.optimised(self.job, config), self.model)
        program = deepcopy(self.model)
        del program.graph.output[:], program.graph.value_info[:]
        program.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
        job = replace(self.job, program=program.SerializeToString(), outputs=None)
        run = self.run_as(job, config)
        seen = {name: value for name, value in run.outputs.items() if isinstance(value, np.ndarray)}
        return Segments(self._plain, self._plain_job, seen, self.rerun, self._is_wide) if run.is_ok else None

    def _parter(self, config: Config) -> Differs:
        """The test that tells a wrong tensor of a configuration from a tensor with other rounding."""
        steps = config.get("level") not in EXACT_LEVELS
        ranked = self._ranked

        def differs(name: str, expected: Value, actual: Value) -> bool:
            found = compare(name, expected, actual, self.screen)
            if found is None or found.mask is None:
                return found is not None
            if left_open(self._makers[name], self.noise.recording.values):
                return True  # no rounding: whatever reads it differs for this reason
            spreads = self.noise.spreads(steps)  # several runs, made where a tensor differs
            if name not in spreads:
                return True
            left = np.asarray(expected)
            # noise was put into runs without NaN and infinity: of these it says nothing
            is_plain = np.isfinite(widen(left)) if is_float(left) else np.full(left.shape, name not in ranked)
            apart = distance(left, np.asarray(actual))
            return bool(((apart > MUCH * spreads[name]) | ~is_plain)[found.mask].any())

        return differs

    @cached_property
    def _ranked(self) -> frozenset[str]:
        """What nodes that round nothing make right out of a NaN or an infinity: places, or a choice."""
        chosen = (node for node in self.nodes if arithmetic_of(node).rounding is Rounding.NOTHING)
        return frozenset(
            name for node in chosen if self.noise.nonfinite.intersection(node.input) for name in node.output
        )

    def located(self, divergence: Divergence) -> Located:
        """A parting for a verdict, in the names of the model."""
        return divergence.located(self.model)

    def is_refused_alone(self, config: Config) -> bool:
        """Whether the configuration lacks what a node or a container that flows in needs by itself."""
        graph = self.model.graph
        containers = (value for value in graph.input if not value.type.HasField("tensor_type"))
        return any(self._lacks(node, config) for node in graph.node) or any(
            self._lacks_input(value, config) for value in containers
        )

    def _lacks_input(self, value: onnx.ValueInfoProto, config: Config) -> bool:
        """Whether the configuration refuses a model that only passes this input on."""
        passed = onnx.ValueInfoProto(name=f"{value.name}_passed", type=value.type)
        node = onnx.helper.make_node("Identity", [value.name], [passed.name])
        model = onnx.ModelProto(ir_version=self.model.ir_version, opset_import=self.model.opset_import)
        model.graph.CopyFrom(onnx.helper.make_graph([node], "input", [value], [passed]))
        inputs = {name: given for name, given in self.job.inputs.items() if name == value.name}
        return self._refuses(replace(self.job, program=model.SerializeToString(), inputs=inputs), config)

    def _lacks(self, node: onnx.NodeProto, config: Config) -> bool:
        output = next(filter(None, node.output), "")
        found = self.alone(node, output)
        return found is not None and self._refuses(found[1], config)

    def _refuses(self, job: Job, config: Config) -> bool:
        (run,) = self.executor.run(replace(job, configs=(config,)))
        return not run.is_ok and self.classify(run) == "unsupported"

    def truths_of(self, divergence: Divergence) -> Iterator[Truth]:
        """Yield the referee's float64 results of the one node, on the values that flow into it."""
        found = self.alone(divergence.node, divergence.name)
        return truths(*found, self.ask_referee) if found is not None else iter(())

    @cached_property
    def nodes(self) -> Sequence[onnx.NodeProto]:
        """The nodes of the main graph."""
        return tuple(self.model.graph.node)

    @cached_property
    def steps(self) -> float:
        """Count the nodes that the model runs, with functions written out and loops run through."""
        return steps(self.model, self.job.inputs)

    @cached_property
    def has_open_operators(self) -> bool:
        """Whether ONNX leaves open what some operator gives on some operands."""
        return any(arithmetic_of(node).opens for node in walk_model(self.model))

    def alone(self, node: onnx.NodeProto, name: str) -> tuple[onnx.ModelProto, Job] | None:
        """A node as a model of its own that gives `name`, on recorded operands; None if it cannot be."""
        return node_alone(self.model, node, name, self.noise.recording.values, self.job)

    def orders_nan(self, node: onnx.NodeProto) -> bool:
        """Whether the framework's own texts do not leave open where NaN stands in an order."""
        return node.op_type not in self.executor.backend.leaves_nan

    def as_defined(self, divergence: Divergence) -> Value:
        """What the node's operator gives in an independent implementation as ONNX writes it out."""
        found = self.alone(divergence.node, divergence.name)
        program = as_defined(found[0]) if found is not None else None
        if found is None or program is None:
            return None
        run = self.ask_referee(replace(found[1], program=program.SerializeToString()))
        return run.outputs.get(divergence.name) if run.is_ok else None

    def written_out(self) -> tuple[Job, OnnxNoise] | None:
        """The model with its functions inlined, and its noise; None without any, or with endless ones."""
        if self._plain is self.model:
            return None
        return self._plain_job, OnnxNoise(self._plain, self._plain_job, self.rerun)

    @cached_property
    def _plain(self) -> onnx.ModelProto:
        return without_functions(self.model)

    @cached_property
    def _plain_job(self) -> Job:
        return (
            replace(self.job, program=self._plain.SerializeToString()) if self.model.functions else self.job
        )

    @cached_property
    def is_random(self) -> bool:
        """Whether the model draws random numbers, so that two runs may differ."""
        return any(arithmetic_of(node).is_random or _is_training(node) for node in walk_model(self.model))

    @cached_property
    def noise(self) -> OnnxNoise:
        """The effect of rounding on the model's results, within its functions, too."""
        return OnnxNoise(self._plain, self._plain_job, self.rerun, is_wide=self._is_wide)


def _is_training(node: onnx.NodeProto) -> bool:
    """Whether it is a Dropout that may drop: only an input of its own can tell it to."""
    return node.op_type == "Dropout" and len(node.input) > 2 and bool(node.input[2])
