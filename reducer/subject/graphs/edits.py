"""Edits of a graph program: any of its bindings kept, tensors changed, dims carried along."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from corpus.graphs.format import passed_dims, symbols
from corpus.graphs.program import (
    CALL,
    REF,
    Binding,
    Graph,
    GraphProgram,
    Input,
    Json,
    tag_of,
)
from corpus.values import Shape, Tensor, Value
from reducer.subject.graphs.view import GraphView

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
            (given if binding.op == CAST else wanted).update(_words(binding))
        given.update(*map(_given, self.inputs.values()))
        for item in self.subject.program.main.inputs:
            if _given(item) & (wanted - given):
                self.supply(item.name)
                given |= _given(item)


def _given(item: Input) -> set[str]:
    """The symbols that an input's value tells: its dims, or those that it is a shape of."""
    return {dim for dim in (*item.shape, *passed_dims(item)) if isinstance(dim, str) and dim.isidentifier()}


def _words(binding: Binding) -> tuple[str, ...]:
    """The names in a binding's literals, those of dims among them, in its bodies too."""
    return symbols([_texts([*binding.args, *binding.kwargs.values()])])


def _texts(item: Json) -> Iterator[str]:
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
        linked = [to for name, to in targets if _is_kept(subject, to, keep) and subject.kind(name) == wanted]
        if linked:
            instead[binding.name] = max(linked, key=lambda to: subject.producer[to])
    return instead


def _is_kept(subject: GraphView, name: str, keep: frozenset[int]) -> bool:
    return subject.producer.get(name, -1) in keep


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
