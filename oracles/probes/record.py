"""Recording a run: each intermediate value, where the run breaks, and a node by itself on its values."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from typing import Self

import numpy as np
import onnx

from corpus.case import Case
from corpus.errors import UserError
from corpus.formats.onnx import parse
from corpus.onnx.canonical import measure
from corpus.onnx.check import repair
from corpus.onnx.graph import free_names, outer_names, topological
from corpus.onnx.model_file import map_weight
from corpus.onnx.types import element_type, is_external, memory_bytes
from corpus.reading import ExternalFile
from corpus.target import Target
from corpus.values import Value
from oracles.backends import find_backend
from oracles.numerics.input_noise import Types, static_dims, tensor_types
from oracles.sandbox.executor import Executor
from oracles.sandbox.sandbox import Job, Sandbox
from oracles.verdict import Config, Limits, Run

BYTE_BUDGET = 1 << 30
EXTERNAL_BYTES = 64 << 20
"""Of weights in files that are looked at."""

Rerun = Callable[[Job], tuple[Run, ...]]


@dataclass(frozen=True, slots=True)
class Recording:
    """Values of the main graph by name: inputs, initializers kept in the program, intermediates.

    `crashed_at` is the name (or else the first output) of the node at which the run breaks, whether by a
    crash or an exception; the values are then those before it. `complete` is False when any value of a node
    that did run is not there: too large, or of a kind that cannot be an output.
    """

    values: Mapping[str, Value]
    crashed_at: str | None
    complete: bool


def record(executor: Executor, case: Case, *, byte_budget: int = BYTE_BUDGET) -> Recording:
    """The un-optimised run of a case with every intermediate of the main graph as an output."""
    model, _ = repair(case.parsed)
    job = Job(case.program, case.inputs, executor.configs[:1], case.external)
    return record_model(model, job, executor.run, byte_budget=byte_budget)


def record_whole(
    executor: Executor, case: Case, *, byte_budget: int = BYTE_BUDGET
) -> Mapping[str, Value] | None:
    """The values of one un-optimised run by name; None where it does not end well."""
    model = _ordered(repair(case.parsed)[0])
    job = Job(case.program, case.inputs, executor.configs[:1], case.external)
    wanted, _ = _affordable(model, tensor_types(model, case.inputs), byte_budget)
    whole = _Prefix(model, job, executor.run, wanted).program(len(model.graph.node))
    (run,) = executor.run(replace(job, program=whole.SerializeToString(), outputs=None))
    return {**_initializers(model, case.external), **case.inputs, **run.outputs} if run.is_ok else None


def record_model(
    model: onnx.ModelProto, job: Job, rerun: Rerun, *, byte_budget: int = BYTE_BUDGET
) -> Recording:
    """Record as `record` does, for a model at hand; `rerun` runs a job in the un-optimised configuration."""
    model = _ordered(model)
    types = tensor_types(model, job.inputs)
    known = {**_initializers(model, job.external), **job.inputs}
    wanted, skipped = _affordable(model, types, byte_budget)
    prefix = _Prefix(model, job, rerun, wanted)
    count = len(model.graph.node)
    whole = prefix.run(count)
    if whole.is_ok or not count:  # without a node, as an optimiser may leave it, nothing breaks
        return Recording({**known, **whole.outputs}, None, not skipped)
    count, longest = prefix.longest()
    values = longest.outputs if longest is not None else {}
    node = model.graph.node[count]
    name = node.name or next(filter(None, node.output), node.op_type)
    return Recording({**known, **values}, name, not skipped)


def _ordered(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its nodes in topological order, which a prefix of them needs; as it is for a cycle."""
    nodes = topological(model.graph.node, outer_names(model.graph))
    if nodes is None or all(new is old for new, old in zip(nodes, model.graph.node, strict=True)):
        return model
    ordered = deepcopy(model)
    del ordered.graph.node[:]
    ordered.graph.node.extend(nodes)
    return ordered


def _initializers(model: onnx.ModelProto, external: Sequence[ExternalFile]) -> dict[str, Value]:
    """The weights that the program itself holds, and those in files that are small; others stay there."""
    is_small = sum(file.size for file in external) <= EXTERNAL_BYTES
    files = {file.location: file for file in external if is_small}
    stored = (tensor for tensor in model.graph.initializer if files or not is_external(tensor))
    return {tensor.name: map_weight(tensor, files) for tensor in stored}


def _affordable(model: onnx.ModelProto, types: Types, byte_budget: int) -> tuple[frozenset[str], bool]:
    """The intermediates that fit the budget, smallest first; whether any was left out."""
    sizes = {name: _bytes(types, name) for node in model.graph.node for name in node.output if name}
    wanted: set[str] = set()
    left = byte_budget
    for name, size in sorted(sizes.items(), key=lambda item: item[1]):
        left -= size
        if left >= 0:
            wanted.add(name)
    return frozenset(wanted), len(wanted) < len(sizes)


def _bytes(types: Types, name: str) -> int:
    dims = static_dims(types[name]) if name in types else None
    return memory_bytes(types[name].elem_type, dims) if dims is not None else 0


@dataclass(frozen=True)
class _Prefix:
    """Runs of the first nodes of a model, with all their values as outputs."""

    model: onnx.ModelProto
    job: Job
    rerun: Rerun
    wanted: frozenset[str]

    def run(self, count: int) -> Run:
        program = self.program(count).SerializeToString()
        return self.rerun(replace(self.job, program=program, outputs=None))[0]

    def program(self, count: int) -> onnx.ModelProto:
        model = deepcopy(self.model)
        graph = model.graph
        del graph.node[count:], graph.output[:], graph.value_info[:]
        outer = outer_names(graph)
        names = [name for node in graph.node for name in node.output if name in self.wanted]
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in outer)
        return model

    def longest(self) -> tuple[int, Run | None]:
        """The longest prefix that runs (bisection), and its run; nodes must be in topological order."""
        works, fails = 0, len(self.model.graph.node)
        best: Run | None = None
        while fails - works > 1:
            middle = (works + fails) // 2
            run = self.run(middle)
            if run.is_ok:
                works, best = middle, run
            else:
                fails = middle
        return works, best


_LIMITS = Limits()


class Firing:
    """Asks one target's optimiser, in a sandbox of its own; a context manager.

    A pass that the target's backend runs by name is asked by running it alone, after what it needs.
    """

    def __init__(self, target: Target, *, limits: Limits = _LIMITS) -> None:
        backend = find_backend(target.backend)
        if backend.passes is None or backend.passes.may_have_fired is None:
            raise UserError(f"target {target}: its log does not tell which pass changed a program")
        self._passes, self._may_have_fired = backend.passes, backend.passes.may_have_fired
        self._sequences = backend.sequences
        self.target = target
        self.config = _without_execution(backend_configs(target))
        self._sandbox = Sandbox(target.backend, python=target.get("python") or None, limits=limits)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the sandbox."""
        self._sandbox.close()

    def passes(self, program: bytes) -> tuple[str, ...]:
        """The passes that change the program, in order; none where it does not compile.

        Of passes of which the log tells only together, each is asked by itself.
        """
        run = self._run(program, self.config)
        if not run.is_ok:
            return ()
        operators = frozenset(measure(parse(program)).ops)
        names = self._passes.likely(self._may_have_fired(run), operators)
        return tuple(name for name in names if not self._passes.told_with(name) or self.fires(program, name))

    def fires(self, program: bytes, name: str) -> bool:
        """Whether this pass changes the program, which compiles."""
        if self._sequences is not None and name in self._sequences.names:
            return self._fires_by_name(program, name, self._sequences.repaired([name]))
        config = self._passes.without(self.config, self._passes.told_with(name))
        run = self._run(program, config)
        return run.is_ok and self._passes.has_fired(run, name)

    @cached_property
    def commonplace(self) -> frozenset[str]:
        """The passes that change a program of a single operator, which is to say any program."""
        x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3]) for name in "xy")
        graph = onnx.helper.make_graph([onnx.helper.make_node("Exp", ["x"], ["y"])], "g", [x], [y])
        opsets = [onnx.helper.make_opsetid("", 17)]
        program: bytes = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
        return frozenset(self.passes(program))

    def _fires_by_name(self, program: bytes, name: str, sequence: tuple[str, ...]) -> bool:
        alone = replace(self.config, settings=(*self.config.settings, ("run", "passes")))
        run = self._run(program, alone, sequence)
        return run.is_ok and self._passes.has_fired(run, name)

    def _run(self, program: bytes, config: Config, sequence: tuple[str, ...] = ()) -> Run:
        job = Job(program, {}, (config,), outputs=(), collect_log=True, passes=sequence)
        return self._sandbox.run(job)[0]


def backend_configs(target: Target) -> Config:
    """The configuration in which a target optimises as it does for its users."""
    configs = find_backend(target.backend).configs(target)
    return configs[1] if configs[0].get("level") == "none" else configs[0]


def _without_execution(config: Config) -> Config:
    """Add the setting by which a backend stops before execution, if it has one."""
    if config.get("pipeline") is None:
        return config
    return Config(config.label, (*config.settings, ("run", "off")))


MOST_SHAPING = 64
"""Elements of an integer operand that may decide a shape: axes, dims, sizes."""


def node_alone(
    model: onnx.ModelProto, node: onnx.NodeProto, output: str, values: Mapping[str, Value], job: Job
) -> tuple[onnx.ModelProto, Job] | None:
    """The model that gives that output of the node, and the job; None where what it reads is not known."""
    operands = {name: values.get(name) for name in sorted(free_names(node))}
    if not all(isinstance(value, np.ndarray) for value in operands.values()):
        return None
    alone = onnx.ModelProto(ir_version=model.ir_version)
    alone.opset_import.extend(model.opset_import)
    alone.functions.extend(model.functions)
    graph = alone.graph
    graph.name = "alone"
    graph.node.append(node)
    for name, value in operands.items():
        assert isinstance(value, np.ndarray)
        graph.input.append(onnx.helper.make_tensor_value_info(name, element_type(value.dtype), value.shape))
    graph.output.append(onnx.ValueInfoProto(name=output))
    return alone, replace(job, program=alone.SerializeToString(), inputs=operands, external=(), outputs=None)


def type_alone(
    model: onnx.ModelProto, node: onnx.NodeProto, output: str, values: Mapping[str, Value], job: Job
) -> onnx.TypeProto.Tensor | None:
    """The type that inference gives the node's output where what decides its shape is known by value."""
    found = node_alone(model, node, output, values, job)
    if found is None:
        return None
    alone, its_job = found
    shaping = {
        name: value
        for name, value in its_job.inputs.items()
        if isinstance(value, np.ndarray) and value.dtype.kind in "iu" and value.size <= MOST_SHAPING
    }
    kept = [declared for declared in alone.graph.input if declared.name not in shaping]
    del alone.graph.input[:]
    alone.graph.input.extend(kept)
    alone.graph.initializer.extend(
        onnx.numpy_helper.from_array(value, name) for name, value in shaping.items()
    )
    return tensor_types(alone).get(output)


DEFINITION = "definition"
"""The domain under which an operator's own definition is called."""


def as_defined(alone: onnx.ModelProto) -> onnx.ModelProto | None:
    """The model of one node with its operator written out as ONNX defines it; None where ONNX does not."""
    (node,) = alone.graph.node
    versions = {opset.domain: opset.version for opset in alone.opset_import}
    try:
        schema = onnx.defs.get_schema(node.op_type, versions.get(node.domain, 1), node.domain)
    except onnx.defs.SchemaError:
        return None
    body = schema.function_body
    if not body.node:
        return None
    model = deepcopy(alone)
    call = model.graph.node[0]
    given = {attribute.name for attribute in node.attribute}
    defaults = (each.default_value for name, each in schema.attributes.items() if name not in given)
    call.attribute.extend(default for default in defaults if default.type)
    call.domain = body.domain = DEFINITION
    absent = {formal for formal, name in zip_longest(body.input, call.input) if not name}
    for inner in body.node:
        inner.input[:] = ["" if name in absent else name for name in inner.input]
    body.input[:] = [formal for formal in body.input if formal not in absent]
    call.input[:] = filter(None, call.input)
    model.functions.append(body)
    model.opset_import.append(onnx.helper.make_opsetid(DEFINITION, 1))
    return model
