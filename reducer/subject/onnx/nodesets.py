"""Any subset of a model's nodes as a well-typed model: by cut, or by linking what is left.

*Cut*: a tensor whose node is gone becomes an input that carries its recorded value, or an initializer when
no graph input had a part in it (as an input it could turn the bug into an unsupported feature with the same
text). *Link*: where a removed node stood between two kept ones, its use goes to an operand of the same type
that a kept node makes, so that data still flows from one to the other; everything else is cut.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Self, TypeVar

import onnx

from corpus.case import Case, ExternalFile
from corpus.onnx.graph import free_names, subgraphs, tensors, walk_nodes
from corpus.onnx.model_file import external_entry
from corpus.onnx.types import inferred_types, is_external, packed_bytes, tensor_type
from corpus.values import Tensor, Value
from reducer.search import Items
from reducer.subject.base import NodeSubject, initializer, read_tensor, type_of

COUNT_ATTRIBUTES = {"group", "hidden_size", "num_heads", "q_num_heads", "kv_num_heads"}
"""Of which other dims are multiples: the gates of an LSTM, the channels of a group, a head's width."""


@dataclass(frozen=True)
class OnnxView(NodeSubject):
    """The smallest failing model so far.

    `is_sound` says that the checker accepts it, and so must accept every candidate made of it. `earlier` are
    the sizes of dims in the case's earlier runs.
    """

    model: onnx.ModelProto
    external: tuple[ExternalFile, ...] = field(default=(), kw_only=True)
    is_sound: bool = field(default=True, kw_only=True)
    earlier: tuple[Mapping[str, int], ...] = field(default=(), kw_only=True)

    @cached_property
    def nodes(self) -> tuple[onnx.NodeProto, ...]:
        """The nodes of the main graph."""
        return tuple(self.model.graph.node)

    @cached_property
    def reads(self) -> tuple[tuple[str, ...], ...]:
        """List by node the names it reads in a fixed order, with those that its bodies capture."""
        return tuple(ordered_reads(node) for node in self.nodes)

    @cached_property
    def initializers(self) -> Mapping[str, onnx.TensorProto]:
        """The dense weights, by name."""
        return {tensor.name: tensor for tensor in self.model.graph.initializer}

    @cached_property
    def sparse_initializers(self) -> Mapping[str, onnx.SparseTensorProto]:
        """The sparse weights, by name."""
        return {sparse.values.name: sparse for sparse in self.model.graph.sparse_initializer}

    @cached_property
    def graph_inputs(self) -> Mapping[str, onnx.ValueInfoProto]:
        """The inputs of the main graph, by name."""
        return {info.name: info for info in self.model.graph.input}

    @cached_property
    def graph_outputs(self) -> Mapping[str, onnx.ValueInfoProto]:
        """The outputs of the main graph, by name."""
        return {info.name: info for info in self.model.graph.output}

    @cached_property
    def counts(self) -> frozenset[int]:
        """The dims that an attribute of a node counts, so that others are multiples of them."""
        attributes = (item for node in self.nodes for item in node.attribute)
        return frozenset(item.i for item in attributes if item.name in COUNT_ATTRIBUTES)

    def array(self, name: str) -> Tensor | None:
        """The values of an input or initializer; external weights are mapped, not read."""
        if name in self.initializers:
            return read_tensor(self.initializers[name], self.external)
        value = self.inputs.get(name)
        return None if isinstance(value, list) else value

    def type_of(self, name: str) -> onnx.TypeProto | None:
        """A tensor's type, static where its value was recorded, declared or inferred elsewhere."""
        if name in self.initializers:
            return tensor_type(self.initializers[name])
        recorded = type_of(self.facts.values.get(name, self.inputs.get(name)))
        if recorded is None and name in self.graph_inputs:
            return self.graph_inputs[name].type
        return recorded or self.facts.types.get(name)

    def case(self, like: Case) -> Case:
        """This subject as a case with the target, settings and origin of `like`."""
        program = self.model.SerializeToString(deterministic=True)
        used = {external_entry(tensor, "location") for tensor in tensors(self.model) if is_external(tensor)}
        external = tuple(file for file in self.external if str(file.location) in used)
        case = replace(like, program=program, inputs=self.inputs, external=external)
        return self.sequenced(case).with_earlier(self._fitting_runs())

    def _fitting_runs(self) -> list[Mapping[str, int]]:
        """The earlier runs, without sizes of dims that no input has any more."""
        shapes = (info.type.tensor_type.shape for info in self.model.graph.input) if self.earlier else ()
        known = {dim.dim_param for shape in shapes for dim in shape.dim}
        runs = ({name: size for name, size in each.items() if name in known} for each in self.earlier)
        return list(filter(None, runs))

    def embedded(self) -> Self:
        """The subject with the weights that it still needs inside the model, where they are not too large."""
        outside = [tensor for tensor in tensors(self.model) if is_external(tensor)]
        needed = sum(packed_bytes(tensor.data_type, tensor.dims) or 0 for tensor in outside)
        if not outside or needed > MOST_EMBEDDED:
            return self
        model = deepcopy(self.model)
        for tensor in tensors(model):
            if is_external(tensor):
                tensor.CopyFrom(initializer(tensor.name, read_tensor(tensor, self.external)))
        return replace(self, model=model)


MOST_EMBEDDED = 256 << 20
"""Weights up to this many bytes are taken into a reduced model."""


def ordered_reads(node: onnx.NodeProto) -> tuple[str, ...]:
    """The names that a node reads in a fixed order, those that its bodies capture last."""
    direct = dict.fromkeys(name for name in node.input if name)
    return (*direct, *sorted(free_names(node).difference(direct)))


S = TypeVar("S", bound=OnnxView)


def keep_nodes(subject: S, keep: Items, *, link: bool = False, constants: bool = False) -> S | None:
    """The model of the nodes `keep` (by index); None where the type of a cut tensor is unknown.

    `constants`: what is cut becomes an initializer, even where it depends on an input.
    """
    instead = _links(subject, keep) if link else {}
    kept = [rename_reads(subject.nodes[index], instead) for index in sorted(keep)]
    return assemble(subject, kept, constants=subject.dynamic if constants else frozenset())


def assemble(
    subject: S,
    nodes: Sequence[onnx.NodeProto],
    outputs: Sequence[str] | None = None,
    *,
    constants: frozenset[str] = frozenset(),
) -> S | None:
    """A model of these nodes, sorted, that may read any tensor of `subject`; the rest is cut away.

    Unless they are given, the outputs are the subject's own that are still made, then what nobody reads
    any more. Of the tensors that are cut those among `constants` become initializers though they depend on an
    input.
    """
    edges = _Edges(subject, constants)
    made = {name for node in nodes for name in node.output if name}
    read = dict.fromkeys(name for node in nodes for name in ordered_reads(node))
    for name in read:
        if name not in made and not edges.supply(name):
            return None
    if outputs is None:
        declared = _outputs(subject, nodes, made, read)
    else:
        declared = [value_info(subject, name) for name in outputs]
    return _model(subject, nodes, edges, declared) if declared else None


@dataclass
class _Edges:
    """Collects what flows into the kept nodes: inputs and initializers, in the subject's order."""

    subject: OnnxView
    constants: frozenset[str] = frozenset()
    inputs: dict[str, onnx.ValueInfoProto] = field(default_factory=dict)
    tensors: dict[str, onnx.TensorProto] = field(default_factory=dict)
    sparse: dict[str, onnx.SparseTensorProto] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)

    def supply(self, name: str) -> bool:
        """Make `name` available; False where neither its type nor its value is known."""
        subject = self.subject
        if name in subject.graph_inputs:
            self.inputs[name] = subject.graph_inputs[name]
            if name in subject.inputs:
                self.values[name] = subject.inputs[name]
        if name in subject.initializers:
            self.tensors[name] = subject.initializers[name]
        elif name in subject.sparse_initializers:
            self.sparse[name] = subject.sparse_initializers[name]
        elif name not in subject.graph_inputs:
            return self._cut(name)
        return True

    def _cut(self, name: str) -> bool:
        value = self.subject.facts.values.get(name)
        if value is None:
            return False
        is_constant = name in self.constants or name not in self.subject.dynamic
        if is_constant and not isinstance(value, list):
            self.tensors[name] = initializer(name, value)
            return True
        declared = self.subject.facts.types.get(name) or type_of(value)
        if declared is None:
            return False
        self.inputs[name] = onnx.ValueInfoProto(name=name, type=declared)
        self.values[name] = value
        return True


def _outputs(
    subject: OnnxView, nodes: Iterable[onnx.NodeProto], made: set[str], read: Mapping[str, None]
) -> list[onnx.ValueInfoProto]:
    chosen = {name: info for name, info in subject.graph_outputs.items() if name in made}
    consumed = {name for reads in subject.reads for name in reads}
    for node in nodes:
        names = [name for name in node.output if name]
        loose = [name for name in names if name not in read and name not in chosen]
        was_used = [name for name in loose if name in consumed]
        if not was_used and len(loose) == len(names):
            was_used = names[:1]  # nobody ever read it: one output keeps the node alive
        for name in was_used:
            chosen[name] = value_info(subject, name)
    return list(chosen.values())


def value_info(subject: OnnxView, name: str) -> onnx.ValueInfoProto:
    """The declaration of a tensor, typed where its type is known."""
    if name in subject.graph_outputs:
        return subject.graph_outputs[name]
    facts = subject.facts
    declared = facts.specified.get(name) or facts.types.get(name) or type_of(facts.values.get(name))
    return onnx.ValueInfoProto(name=name, type=declared)


def _model(
    subject: S, nodes: Sequence[onnx.NodeProto], edges: _Edges, outputs: list[onnx.ValueInfoProto]
) -> S:
    old = subject.model
    if old.ir_version < 4:  # there an initializer is an input as well
        for name in [name for name in edges.tensors if name not in edges.inputs]:
            edges.inputs[name] = declaration(edges.tensors[name])
    model = onnx.ModelProto(
        ir_version=old.ir_version,
        producer_name=old.producer_name,
        producer_version=old.producer_version,
        domain=old.domain,
        model_version=old.model_version,
        functions=_functions(old, nodes),
    )
    domains = _domains([*nodes, *(node for function in model.functions for node in function.node)])
    versions = {item.domain: item for item in old.opset_import if item.domain in domains}
    model.opset_import.extend(versions.values())
    graph = model.graph
    graph.name = old.graph.name
    graph.node.extend(nodes)
    graph.input.extend(_in_order(old.graph.input, edges.inputs))
    graph.initializer.extend(edges.tensors.values())
    graph.sparse_initializer.extend(edges.sparse.values())
    graph.output.extend(outputs)
    graph.value_info.extend(_kept_value_info(old.graph, nodes, outputs))
    inputs = {info.name: edges.values[info.name] for info in graph.input if info.name in edges.values}
    _type_outputs(model)
    return replace(subject, model=model, inputs=inputs)


def _type_outputs(model: onnx.ModelProto) -> None:
    """Give outputs without a type the one that inference finds: onnx's strict checker wants one."""
    untyped = [info for info in model.graph.output if info.type.WhichOneof("value") is None]
    types = inferred_types(model) if untyped else {}
    for info in untyped:
        if info.name in types:
            info.type.CopyFrom(types[info.name])


def declaration(tensor: onnx.TensorProto) -> onnx.ValueInfoProto:
    """The input that an initializer gives its default value."""
    return onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))


def _in_order(
    before: Iterable[onnx.ValueInfoProto], chosen: Mapping[str, onnx.ValueInfoProto]
) -> list[onnx.ValueInfoProto]:
    """Graph inputs in their old order, then the new ones in the order in which they are read."""
    old = [info.name for info in before if info.name in chosen]
    return [chosen[name] for name in dict.fromkeys([*old, *chosen])]


def _kept_value_info(
    graph: onnx.GraphProto, nodes: Iterable[onnx.NodeProto], outputs: Iterable[onnx.ValueInfoProto]
) -> list[onnx.ValueInfoProto]:
    if not graph.value_info:
        return []
    made = {name for node in nodes for name in node.output}.difference(info.name for info in outputs)
    return [info for info in graph.value_info if info.name in made]


def _functions(model: onnx.ModelProto, nodes: Iterable[onnx.NodeProto]) -> list[onnx.FunctionProto]:
    """The functions that the nodes call, directly or through one another, in the model's order."""
    if not model.functions:
        return []
    known = {(function.domain, function.name): function for function in model.functions}
    called: set[tuple[str, str]] = set()
    todo = list(nodes)
    while todo:
        node = todo.pop()
        key = (node.domain, node.op_type)
        if key in known and key not in called:
            called.add(key)
            todo.extend(known[key].node)
        todo.extend(inner for graph in subgraphs(node) for inner in graph.node)
    return [function for function in model.functions if (function.domain, function.name) in called]


def _domains(nodes: Sequence[onnx.NodeProto]) -> set[str]:
    """The operator domains that nodes and their bodies use; ONNX's own always, under both its names."""
    inner = (each for node in nodes for body in subgraphs(node) for each in walk_nodes(body))
    return {"", "ai.onnx", *(node.domain for node in chain(nodes, inner))}


def _links(subject: OnnxView, keep: Items) -> dict[str, str]:
    """Map each removed tensor to the tensor of a kept node that takes its place, in topological order."""
    instead: dict[str, str] = {}
    for index, node in enumerate(subject.nodes):
        if index in keep:
            continue
        targets = [(operand, instead.get(operand, operand)) for operand in subject.reads[index]]
        linked = [pair for pair in targets if subject.producer.get(pair[1], -1) in keep]
        linked.sort(key=lambda pair: subject.producer[pair[1]], reverse=True)
        for output in (name for name in node.output if name):
            wanted = subject.kind(output)
            best = next((to for operand, to in linked if wanted and subject.kind(operand) == wanted), None)
            if wanted is None and output not in subject.facts.values and not best:
                best = next((to for _, to in (*linked, *targets)), None)  # there is no type to cut it by
            if best:
                instead[output] = best
    return instead


def rename_reads(node: onnx.NodeProto, instead: Mapping[str, str]) -> onnx.NodeProto:
    """The node with what it reads renamed, in its bodies too; the same object where nothing changes."""
    if not instead or not instead.keys() & (set(node.input) | free_names(node)):
        return node
    copy = deepcopy(node)
    _rename_in_place(copy, instead)
    return copy


def _rename_in_place(node: onnx.NodeProto, instead: Mapping[str, str]) -> None:
    for position, name in enumerate(node.input):
        if name in instead:
            node.input[position] = instead[name]
    for graph in subgraphs(node):
        for inner in graph.node:
            _rename_in_place(inner, instead)
        for info in graph.output:
            if info.name in instead:
                info.name = instead[info.name]
