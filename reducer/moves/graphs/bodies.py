"""Fewer bindings in bodies and functions of graphs of other formats than ONNX, where the bug needs those.

A removed binding's uses go to an operand of the same type, else to a constant of ones: what flows inside was
not recorded. The framework tells the types.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np

from corpus.graphs.program import CALL, REF, Binding, Graph, GraphProgram, Json, dtype_of, tag_of
from corpus.values import Tensor
from reducer.move import Hints, Move, Search, SearchOf, one_by_one, over_sets, smaller_by
from reducer.search import Items, fewest, nothing_or
from reducer.subject.graphs.edits import redirect, without_unused
from reducer.subject.graphs.subject import GraphSubject
from reducer.subject.order import size

FEW = 4
"""Up to here, asking for each binding is cheaper than bisecting."""

Kind: TypeAlias = tuple[str, tuple[int | str, ...]]


def shrink_graph_bodies(subject: GraphSubject, hints: Hints, few: int = 0) -> Search:
    """Graph after graph, inner ones first: all of its bindings at once, then as few as will do.

    Those of no more than `few` are left out: of a reduction's single binding nothing goes that its node does
    not take along.
    """
    best: GraphSubject = subject
    every = [binding_names(graph) for graph in inner_graphs(subject.program)]
    for names in [each for each in every if len(each) > few]:
        left = [name for name in names if name in best.program.names]
        if left:
            best = yield from _shrink(best, tuple(left))
    return best


def inner_graphs(program: GraphProgram) -> Iterator[Graph]:
    """Yield the bodies and functions of a program, what is inside of one before it."""
    for graph in (program.main, *program.functions.values()):
        yield from _inside(graph)
    yield from program.functions.values()


def _inside(graph: Graph) -> Iterator[Graph]:
    for body in (body for binding in graph.bindings for body in binding.bodies):
        yield from _inside(body)
        yield body


def binding_names(graph: Graph) -> tuple[str, ...]:
    """The names of a graph's bindings, in order."""
    return tuple(binding.name for binding in graph.bindings)


def _shrink(subject: GraphSubject, names: tuple[str, ...]) -> SearchOf[GraphSubject]:
    # The types of tensors in every graph, by name
    told = subject.describe(subject.document, subject.inputs).get("types", {})
    kinds = {name: (dtype, tuple(dims)) for name, (dtype, dims) in told.items() if dtype and dims is not None}
    graphs = [subject.program.main, *subject.program.functions.values(), *inner_graphs(subject.program)]
    for item in (item for graph in graphs for item in graph.inputs if item.declared is None):
        kinds[item.name] = (item.dtype, tuple(item.shape))
    for name, value in subject.program.constants.items():
        kinds[name] = (value.dtype.name, value.shape)
    search = nothing_or(fewest(len(names), FEW))
    return (yield from over_sets(subject, search, partial(_smaller, subject, names, kinds)))


def _smaller(
    subject: GraphSubject, names: tuple[str, ...], kinds: Mapping[str, Kind], keep: Items
) -> GraphSubject | None:
    """The subject with these bindings of one graph alone; None where that is no smaller or ill-formed."""
    gone = frozenset(name for place, name in enumerate(names) if place not in keep)
    thinned = _Thinned(gone, kinds, subject.program)
    program = changed_graphs(subject.program, lambda graph: thinned.graph(graph, names))
    constants = {**program.constants, **thinned.constants}
    fresh = subject.with_program(without_unused(replace(program, constants=constants)), subject.inputs)
    return fresh if size(fresh) < size(subject) and not fresh.complaint else None


@dataclass
class _Thinned:
    """A graph without some of its bindings; collects the constants that stand for what nothing else can."""

    gone: frozenset[str]
    kinds: Mapping[str, Kind]
    program: GraphProgram

    def __post_init__(self) -> None:
        self.constants: dict[str, Tensor] = {}

    def graph(self, graph: Graph, names: tuple[str, ...]) -> Graph:
        """The graph of these names thinned; any other as it is."""
        if not set(names).issubset(binding_names(graph)):
            return graph
        instead: dict[str, str] = {}
        kept: list[Binding] = []
        for binding in graph.bindings:
            other = self.other(binding, instead) if binding.name in self.gone else ""
            if other:
                instead[binding.name] = other
            else:
                kept.append(redirect(binding, instead))
        outputs = tuple(instead.get(name, name) for name in graph.outputs)
        return replace(graph, bindings=tuple(kept), outputs=outputs)

    def other(self, binding: Binding, instead: Mapping[str, str]) -> str:
        """A name of the same type to read instead of a binding; empty if there is none."""
        kind = self.kinds.get(binding.name)
        same = [name for name in binding.reads if kind is not None and self.kinds.get(name) == kind]
        if same:
            return instead.get(same[0], same[0])
        ones = _ones(kind) if kind is not None else None
        name = f"{binding.name}_ones"
        if ones is None or name in self.program.names:
            return ""
        self.constants[name] = ones
        return name


def _ones(kind: Kind) -> Tensor | None:
    dtype, dims = kind
    known = dtype_of(dtype)
    if known is None or not all(isinstance(dim, int) for dim in dims):
        return None
    return np.ones([int(dim) for dim in dims], known)


def changed_graphs(program: GraphProgram, change: Callable[[Graph], Graph]) -> GraphProgram:
    """The program with each body and function changed, what is inside of one before it; main as it is."""

    def inside(graph: Graph) -> Graph:
        bindings = (each.with_bodies(lambda body: change(inside(body))) for each in graph.bindings)
        return replace(graph, bindings=tuple(bindings))

    functions = {name: change(inside(graph)) for name, graph in program.functions.items()}
    return replace(program, main=inside(program.main), functions=functions)


LOCAL, ALIAS = "function", "alias"
"""What a format calls a function that is a value, and another name."""
MEMBERS = ("operator.getitem", "member")
"""What takes a member of a tuple by its place, in formats where no tuple is ever made."""


@dataclass(frozen=True)
class Scope:
    """A graph to stand in place of a binding, what it reads instead of its inputs; where it comes from."""

    graph: Graph
    given: Mapping[str, str]
    made_by: str = ""


def unfold(subject: GraphSubject, hints: Hints) -> Search:
    """One If or call after the other: the first branch that still fails, the body of a function."""
    changes: list[Callable[[GraphSubject], GraphSubject | None]] = []
    for binding in subject.program.main.bindings:
        places = range(len(binding.bodies)) if binding.op != LOCAL else ()
        changes += [partial(_with_branch, binding.name, place) for place in places]
        if _callee(subject.program, binding):
            changes += [partial(_with_body, binding.name), partial(_with_open_body, binding.name)]
    return (yield from one_by_one(subject, changes))


def _with_branch(name: str, place: int, subject: GraphSubject) -> GraphSubject | None:
    binding = subject.bindings.get(name)
    if binding is None or place >= len(binding.bodies):
        return None
    graph = binding.bodies[place]
    # List the arguments of a binding's bodies, if a body does not see the names around it
    tuples = [item["tuple"] for item in binding.args if tag_of(item) == "tuple"]
    last = tuples[-1] if tuples else binding.args[-1] if binding.args else []
    items = last if isinstance(last, list) else []
    given = [item[REF] for item in items if tag_of(item) == REF]
    taken = [item.name for item in graph.inputs]
    if taken and len(given) != len(taken):
        return None
    return _replaced(subject, name, Scope(graph, dict(zip(taken, given, strict=False))))


def _with_body(name: str, subject: GraphSubject) -> GraphSubject | None:
    """Only of a function that is called once: its names must stay unique."""
    binding = subject.bindings.get(name)
    scope = _callee(subject.program, binding) if binding is not None else None
    return _replaced(subject, name, scope) if scope is not None else None


def _with_open_body(name: str, subject: GraphSubject) -> GraphSubject | None:
    """The same, and the inputs that are passed on are declared as the function's own, symbolic dims kept."""
    binding = subject.bindings.get(name)
    scope = _callee(subject.program, binding) if binding is not None else None
    if scope is None:
        return None
    told = {scope.given[item.name]: item for item in scope.graph.inputs}
    main = subject.program.main
    inputs = tuple(
        replace(item, shape=told[item.name].shape, declared=told[item.name].declared)
        if item.name in told
        else item
        for item in main.inputs
    )
    if inputs == main.inputs:
        return None
    opened = subject.with_program(replace(subject.program, main=replace(main, inputs=inputs)), subject.inputs)
    return _replaced(opened, name, scope)


def _callee(program: GraphProgram, binding: Binding) -> Scope | None:
    """The function that a binding calls, the program's own or a local one, where nothing else does."""
    if binding.op != "call" or not binding.args:
        return None
    tag = tag_of(binding.args[0])
    name = str(dict(binding.args[0])[tag]) if tag in (CALL, REF) else ""
    graph = _own(program, name) if tag == CALL else _local(program, name)
    given = [item[REF] for item in binding.args[1:] if tag_of(item) == REF]
    if graph is None or len(given) != len(graph.inputs):
        return None
    taken = [item.name for item in graph.inputs]
    return Scope(graph, dict(zip(taken, given, strict=True)), name)


def _own(program: GraphProgram, name: str) -> Graph | None:
    graphs = (program.main, *program.functions.values())
    called = [each for graph in graphs for binding in graph.walk() for each in binding.calls]
    return program.functions.get(name) if called.count(name) == 1 else None


def _local(program: GraphProgram, name: str) -> Graph | None:
    """The function that a binding of the main graph makes, where one other reads it."""
    bindings = program.main.bindings
    maker = next((each for each in bindings if each.name == name and each.op == LOCAL), None)
    readers = [each for each in bindings if name in each.reads]
    is_result = name in program.main.outputs
    return maker.bodies[0] if maker is not None and len(readers) == 1 and not is_result else None


def _replaced(subject: GraphSubject, name: str, scope: Scope) -> GraphSubject | None:
    """The subject with a graph in place of one binding; of several results it makes a tuple."""
    graph, main = scope.graph, subject.program.main
    made = [scope.given.get(output, output) for output in graph.outputs]
    members = {each.name: each.args[1] for each in main.bindings if _takes_member(each, name)}
    if members and not graph.facts.get("single"):
        return _with_members(subject, name, scope, made, members)
    result = made[0]
    if len(made) > 1 or graph.facts.get("tuple"):
        tupled = Binding(name, ALIAS, ({"tuple": [{REF: each} for each in made]},))
        graph, result = replace(graph, bindings=(*graph.bindings, tupled)), name
    bindings = tuple(_spliced(main, name, replace(scope, graph=graph), {name: result}))
    outputs = tuple(result if output == name else output for output in main.outputs)
    return _with_main(subject, bindings, outputs)


def _with_main(
    subject: GraphSubject, bindings: tuple[Binding, ...], outputs: tuple[str, ...]
) -> GraphSubject | None:
    """The subject with another main graph and what that reaches; None where it is empty or ill-formed."""
    main = replace(subject.program.main, bindings=bindings, outputs=outputs)
    return subject.valid_with(without_unused(replace(subject.program, main=main))) if bindings else None


def _takes_member(binding: Binding, name: str) -> bool:
    """Whether a binding takes one member of another one's tuple, as torch and StableHLO write it."""
    is_whole = len(binding.args) == 2 and type(binding.args[1]) is int
    return binding.op in MEMBERS and is_whole and binding.args[0] == {REF: name}


def _with_members(
    subject: GraphSubject, name: str, scope: Scope, made: list[str], members: dict[str, int]
) -> GraphSubject | None:
    """The subject with a graph in place of one binding and of those that take the members of its tuple."""
    main = subject.program.main
    if not all(at in range(len(made)) for at in members.values()):
        return None
    instead = {each: made[at] for each, at in members.items()}
    kept = replace(main, bindings=tuple(each for each in main.bindings if each.name not in members))
    bindings = tuple(_spliced(kept, name, scope, instead))
    outputs = tuple(instead.get(output, output) for output in main.outputs)
    if name in outputs or any(name in binding.reads for binding in bindings):
        return None
    return _with_main(subject, bindings, outputs)


def _spliced(main: Graph, name: str, scope: Scope, instead: dict[str, str]) -> Iterator[Binding]:
    for binding in main.bindings:
        if binding.name == name:
            yield from (redirect(inner, scope.given) for inner in scope.graph.bindings)
        elif binding.name != scope.made_by:
            yield redirect(binding, instead)


SEEN_THROUGH = ("getitem", "member")


def see_through_tuples(subject: GraphSubject, hints: Hints) -> Search:
    """A member of a tuple that is made in sight is read as it is; so is what has but another name."""
    seen = [each for each in subject.program.main.bindings if each.op in (*SEEN_THROUGH, ALIAS)]
    return (yield from smaller_by(subject, [partial(_seen_through, each.name) for each in seen]))


def _seen_through(name: str, subject: GraphSubject) -> GraphSubject | None:
    binding = subject.bindings.get(name)
    source = _source(subject, binding.args) if binding is not None else ""
    main = subject.program.main
    if not source or (name in main.outputs and source in main.outputs):
        return None
    bindings = tuple(redirect(each, {name: source}) for each in main.bindings if each.name != name)
    outputs = tuple(source if output == name else output for output in main.outputs)
    made = {each.name for each in bindings}
    return _with_main(subject, bindings, outputs) if made.issuperset(outputs) else None


def _source(subject: GraphSubject, args: tuple[Json, ...]) -> str:
    """The name, or the member of a tuple, that a name stands for; empty for anything else."""
    if tag_of(args[0]) != REF:
        return ""
    source = str(dict(args[0])[REF])
    if len(args) == 1:
        return source
    maker = subject.bindings.get(source)
    first = maker.args[0] if maker is not None and maker.op == ALIAS else None
    members = dict(first)["tuple"] if first is not None and tag_of(first) == "tuple" else []
    member = members[args[1]] if isinstance(args[1], int) and args[1] < len(members) else None
    return str(dict(member)[REF]) if member is not None and tag_of(member) == REF else ""


MOVES = (
    Move(
        "shrink large bodies of graphs",
        195,
        partial(shrink_graph_bodies, few=FEW),
        reshapes=True,
        on=GraphSubject,
    ),
    Move("shrink graph bodies", 280, shrink_graph_bodies, reshapes=True, on=GraphSubject),
    Move("unfold scopes", 180, unfold, reshapes=True, on=GraphSubject),
    Move("see through tuples", 185, see_through_tuples, on=GraphSubject),
)
