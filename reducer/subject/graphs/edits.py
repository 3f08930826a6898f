"""Edits of a graph program: any of its bindings kept, tensors changed, dims carried along."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self, TypeAlias, TypeVar

import numpy as np
import onnx

from corpus.case import Case
from corpus.graphs.format import passed_dims, symbols
from corpus.graphs.program import CALL, REF, Binding, Graph, GraphProgram, Input, Json, tag_of
from corpus.values import Shape, Tensor, Value
from reducer.subject.base import NodeSubject, type_of

Describe: TypeAlias = Callable[[bytes, Mapping[str, Value]], Mapping[str, Any]]


@dataclass(frozen=True)
class GraphView(NodeSubject):
    """The smallest failing program so far.

    `nodes` is a view: one node a binding, with the last word of its operator as type. `describe` asks the
    framework for the types of a program, or for the `error` that makes it ill-formed. `shapes` are the dims
    that it told of the bindings, symbolic ones by their names; `numbers` the bindings that give a number.
    """

    program: GraphProgram
    describe: Describe = field(default=lambda program, inputs: {}, kw_only=True, compare=False)
    shapes: Mapping[str, Shape] = field(default_factory=dict, kw_only=True)
    numbers: frozenset[str] = field(default=frozenset(), kw_only=True)

    @cached_property
    def bindings(self) -> Mapping[str, Binding]:
        """The bindings of the main graph, by name."""
        return {binding.name: binding for binding in self.program.main.bindings}

    @cached_property
    def nodes(self) -> tuple[onnx.NodeProto, ...]:
        """The bindings as nodes."""
        return tuple(map(_view, self.program.main.bindings))

    @cached_property
    def reads(self) -> tuple[tuple[str, ...], ...]:
        """List by binding the names it reads."""
        return tuple(tuple(dict.fromkeys(name for name in node.input if name)) for node in self.nodes)

    @cached_property
    def initializers(self) -> Mapping[str, onnx.TensorProto]:
        """The constants, without their values."""
        return {name: onnx.TensorProto(name=name) for name in self.program.constants}

    @cached_property
    def graph_inputs(self) -> Mapping[str, onnx.ValueInfoProto]:
        """The inputs of the main graph, without their types."""
        return {item.name: onnx.ValueInfoProto(name=item.name) for item in self.program.main.inputs}

    @cached_property
    def graph_outputs(self) -> Mapping[str, onnx.ValueInfoProto]:
        """The outputs of the main graph, without their types."""
        return {name: onnx.ValueInfoProto(name=name) for name in self.program.main.outputs}

    @property
    def counts(self) -> frozenset[int]:
        """Return no argument: this format does not say which arguments are counts."""
        return frozenset()

    def array(self, name: str) -> Tensor | None:
        """The values of an input or constant."""
        if name in self.program.constants:
            return self.program.constants[name]
        value = self.inputs.get(name)
        return None if isinstance(value, list) else value

    def type_of(self, name: str) -> onnx.TypeProto | None:
        """A tensor's type, where its value is known."""
        known = self.array(name)
        return type_of(known if known is not None else self.facts.values.get(name))

    def case(self, like: Case) -> Case:
        """A case of this program, otherwise like another one."""
        return self.sequenced(replace(like, program=self.document, inputs=self.inputs))

    @cached_property
    def document(self) -> bytes:
        """The program as it is saved."""
        return self.program.to_bytes()

    def embedded(self) -> Self:
        """Itself: nothing of such programs lies outside of them."""
        return self

    @cached_property
    def complaint(self) -> str:
        """The framework's reason for calling the program ill-formed; empty if it is well-formed."""
        return str(self.describe(self.document, self.inputs).get("error", ""))

    @property
    def is_valid(self) -> bool:
        """Whether the framework finds the program well-formed."""
        return not self.complaint

    def number(self, name: str) -> int | float | None:
        """The number that a binding gives; None if it gives anything else."""
        value = self.facts.values.get(name) if name in self.numbers else None
        return value.item() if isinstance(value, np.ndarray) and value.size == 1 else None

    def with_program(self, program: GraphProgram, inputs: Mapping[str, Value]) -> Self:
        """This subject with another program and only the inputs that it takes."""
        taken = {item.name: inputs[item.name] for item in program.main.inputs if item.name in inputs}
        return replace(self, program=program, inputs=taken)

    def valid_with(self, program: GraphProgram) -> Self | None:
        """This subject with another program; None where the framework finds that ill-formed."""
        fresh = self.with_program(program, self.inputs)
        return None if fresh.complaint else fresh


def _view(binding: Binding) -> onnx.NodeProto:
    parts = binding.op.split(".")
    if parts[:2] == ["torch", "ops"] and len(parts) > 4:
        parts = parts[:-1]  # the overload
    return onnx.NodeProto(
        name=binding.name,
        op_type=parts[-1],
        domain=".".join(parts[:-1]),
        input=binding.reads,
        output=[binding.name],
    )


S = TypeVar("S", bound=GraphView)
CAST = "match_cast"
"""What gives the dims that it writes."""


def assemble_bindings(
    subject: S, bindings: Iterable[Binding], outputs: Sequence[str] | None = None
) -> S | None:
    """A program of these bindings, in order, that may read any tensor of the subject; the rest is cut away.

    A binding that reads what no tensor can stand for (a tuple, a shape) is cut as well; a number is written
    where it is read. Without `outputs` they are the subject's own that are still made, then what nobody reads
    any more.
    """
    edges = _Edges(subject)
    kept: dict[str, Binding] = {}
    for binding in bindings:
        numbers = {name: subject.number(name) for name in binding.reads if name not in kept}
        filled = _filled(binding, {name: value for name, value in numbers.items() if value is not None})
        if all(name in kept or edges.can_supply(name) for name in filled.reads):
            kept[binding.name] = filled
    read = dict.fromkeys(name for binding in kept.values() for name in binding.reads)
    for name in read:
        if name not in kept:
            edges.supply(name)
    edges.supply_dims(kept.values())
    if outputs is None:
        outputs = _outputs(subject, kept, read)
    chosen = [name for name in outputs if name in kept]
    if not chosen:
        return None
    return _with_known_dims(subject, _program(subject, tuple(kept.values()), edges, tuple(chosen)))


def _filled(binding: Binding, numbers: Mapping[str, float]) -> Binding:
    """The binding with these numbers written where their names stood."""
    if not numbers:
        return binding
    return binding.mapped(lambda item: numbers.get(item[REF], item) if tag_of(item) == REF else item)


def _outputs(subject: GraphView, kept: Mapping[str, Binding], read: Mapping[str, None]) -> list[str]:
    own = [name for name in subject.program.main.outputs if name in kept]
    was_read = {name for binding in subject.program.main.bindings for name in binding.reads}
    loose = [name for name in kept if name not in read and name not in own and name in was_read]
    values = subject.facts.values
    tensors = [
        name for name in loose if isinstance(values.get(name), np.ndarray) and name not in subject.numbers
    ]
    if own or tensors or not kept:
        return own + tensors
    return [list(kept)[-1]]


@dataclass
class _Edges:
    """Collects what flows into the kept bindings."""

    subject: GraphView
    inputs: dict[str, Input] = field(default_factory=dict)
    constants: dict[str, Tensor] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)

    def can_supply(self, name: str) -> bool:
        subject = self.subject
        known = name in subject.graph_inputs or name in subject.program.constants
        return known or isinstance(subject.facts.values.get(name), np.ndarray)

    def supply(self, name: str) -> None:
        """Make `name` available: an input, a constant, or a cut with the recorded value."""
        subject = self.subject
        own = next((item for item in subject.program.main.inputs if item.name == name), None)
        value = subject.facts.values.get(name)
        if own is not None:
            self.inputs[name] = own
            self.values[name] = subject.inputs[name]
        elif name in subject.program.constants:
            self.constants[name] = subject.program.constants[name]
        elif isinstance(value, np.ndarray) and name not in subject.dynamic:
            self.constants[name] = value
        elif isinstance(value, np.ndarray):
            self.inputs[name] = Input(name, value.dtype.name, value.shape)
            self.values[name] = value

    def supply_dims(self, bindings: Iterable[Binding]) -> None:
        """Keep the inputs that nobody reads but that alone give a symbolic dim which the bindings write."""
        wanted, given = set[str](), set[str]()
        for binding in bindings:
            words = symbols([_texts([*binding.args, *binding.kwargs.values()])])
            (given if binding.op == CAST else wanted).update(words)
        given.update(*map(_given, self.inputs.values()))
        for item in self.subject.program.main.inputs:
            if _given(item) & (wanted - given):
                self.supply(item.name)
                given |= _given(item)


def _given(item: Input) -> set[str]:
    """The symbols that an input's value tells: its dims, or those that it is a shape of."""
    return {dim for dim in (*item.shape, *passed_dims(item)) if isinstance(dim, str) and dim.isidentifier()}


def _texts(item: Json) -> Iterator[str]:
    """The texts in literals, names of dims among them, in bodies too."""
    if isinstance(item, str):
        yield item
    elif isinstance(item, list):
        for part in item:
            yield from _texts(part)
    elif isinstance(item, dict) and tag_of(item) not in (REF, CALL):
        yield from _texts(list(item.values()))


def _program(subject: S, bindings: tuple[Binding, ...], edges: _Edges, outputs: tuple[str, ...]) -> S:
    old = subject.program
    order = [item.name for item in old.main.inputs if item.name in edges.inputs]
    inputs = tuple(edges.inputs[name] for name in dict.fromkeys([*order, *edges.inputs]))
    main = replace(old.main, inputs=inputs, bindings=bindings, outputs=outputs)
    fresh = replace(old, main=main, constants={**old.constants, **edges.constants})
    return subject.with_program(without_unused(fresh), edges.values)


def without_unused(program: GraphProgram) -> GraphProgram:
    """Without constants, functions and opaque functions that nothing reaches."""
    called: set[str] = set()
    read: set[str] = set()
    todo = [program.main]
    while todo:
        graph = todo.pop()
        read.update(graph.outputs)
        for binding in graph.walk():
            read.update(binding.reads)
            fresh = [name for name in binding.calls if name not in called]
            called.update(fresh)
            todo += [program.functions[name] for name in fresh if name in program.functions]
    return replace(
        program,
        constants={name: value for name, value in program.constants.items() if name in read},
        functions={name: graph for name, graph in program.functions.items() if name in called},
        opaque={name: item for name, item in program.opaque.items() if name in called},
        loops={name: item for name, item in program.loops.items() if name in called},
    )


def keep_bindings(subject: S, keep: frozenset[int], link: bool) -> S | None:
    """The program of the bindings `keep` (by index); linked ones take an operand of the same type."""
    instead = _links(subject, keep) if link else {}
    bindings = subject.program.main.bindings
    return assemble_bindings(subject, [redirect(bindings[index], instead) for index in sorted(keep)])


def _with_known_dims(subject: S, found: S) -> S:
    """The cuts with the symbolic dims that they had, where that is well-formed: they can be the bug."""
    main = found.program.main
    inputs = tuple(replace(item, shape=_dims(subject, item)) for item in main.inputs)
    if inputs == main.inputs:
        return found
    symbolic = replace(found, program=replace(found.program, main=replace(main, inputs=inputs)))
    return found if symbolic.complaint else symbolic


def _dims(subject: GraphView, item: Input) -> Shape:
    if item.name in subject.graph_inputs:
        return item.shape
    known = subject.shapes.get(item.name, item.shape)
    return known if len(known) == len(item.shape) else item.shape


def _links(subject: GraphView, keep: frozenset[int]) -> dict[str, str]:
    """Map each removed result to the result of a kept binding that takes its place."""
    instead: dict[str, str] = {}
    for index, binding in enumerate(subject.program.main.bindings):
        wanted = subject.kind(binding.name)
        if index in keep or wanted is None:
            continue
        targets = [(name, instead.get(name, name)) for name in binding.reads]
        made = [(name, to) for name, to in targets if subject.producer.get(to, -1) in keep]
        linked = [to for name, to in made if subject.kind(name) == wanted]
        if linked:
            instead[binding.name] = max(linked, key=lambda to: subject.producer[to])
    return instead


def redirect(binding: Binding, instead: Mapping[str, str]) -> Binding:
    """The binding with what it reads taken from elsewhere, in its bodies too."""
    if not instead.keys() & set(binding.reads):
        return binding

    def body(graph: Graph) -> Graph:
        bindings = tuple(redirect(inner, instead) for inner in graph.bindings)
        outputs = tuple(instead.get(name, name) for name in graph.outputs)
        return replace(graph, bindings=bindings, outputs=outputs)

    def read(item: Json) -> Json:
        return {REF: instead.get(item[REF], item[REF])} if tag_of(item) == REF else item

    return binding.with_bodies(body).mapped(read)


def change_flow(
    subject: S,
    changed: Mapping[str, Tensor],
    edit: Callable[[Binding], Binding] | None = None,
    edit_function: Callable[[Graph], Graph] | None = None,
) -> S | None:
    """The subject with these values for some of its inputs and constants; None where it does not type.

    `edit` and `edit_function` are what belongs to the same change in the bindings, and in the functions.
    """
    old = subject.program
    inputs = tuple(
        _fitted(item, changed[item.name]) if item.name in changed else item for item in old.main.inputs
    )
    bindings = tuple(map(edit, old.main.bindings)) if edit else old.main.bindings
    constants = {name: changed.get(name, value) for name, value in old.constants.items()}
    functions = {
        name: edit_function(graph) if edit_function else graph for name, graph in old.functions.items()
    }
    program = replace(
        old,
        main=replace(old.main, inputs=inputs, bindings=bindings),
        constants=constants,
        functions=functions,
    )
    values = {name: changed.get(name, value) for name, value in subject.inputs.items()}
    fresh = subject.with_program(program, values)
    is_like = edit is None and all(_is_like(subject.array(name), value) for name, value in changed.items())
    return fresh if is_like or not fresh.complaint else None


def _fitted(item: Input, value: Tensor) -> Input:
    """The declaration for a value: symbolic dims stay, static ones follow."""
    if len(item.shape) != value.ndim:
        return Input(item.name, value.dtype.name, value.shape)
    dims = tuple(
        dim if isinstance(dim, str) else size for dim, size in zip(item.shape, value.shape, strict=True)
    )
    return Input(
        item.name, value.dtype.name, dims, item.declared if tag_of(item.declared) == "layout" else None
    )


def _is_like(old: Tensor | None, new: Tensor) -> bool:
    return old is not None and old.shape == new.shape and old.dtype == new.dtype


def resize(subject: S, changed: Mapping[str, Tensor], sizes: Callable[[int], int]) -> S | None:
    """The subject with resized tensors, the integers that equal an old dim carried along where that types."""

    if not changed:
        return None

    def carry(item: Json) -> Json:
        return sizes(item) if type(item) is int and item > 1 else item

    def carried_in(binding: Binding) -> Binding:
        mapped = binding.with_bodies(carried_in_graph).mapped(carry)
        return replace(mapped, kwargs=binding.kwargs) if "attrs" in binding.kwargs else mapped

    def carried_in_graph(graph: Graph) -> Graph:
        inputs = tuple(replace(item, shape=tuple(map(carry, item.shape))) for item in graph.inputs)
        return replace(graph, inputs=inputs, bindings=tuple(map(carried_in, graph.bindings)))

    carried = change_flow(subject, changed, carried_in, carried_in_graph)
    return carried if carried is not None else change_flow(subject, changed, lambda binding: binding)
