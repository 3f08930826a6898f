"""Rewrites of Relax programs that change no result: HirFuzz §3.3, on functions.

A run of main's bindings moves into a function of the module, into a closure, or into a closure that a
function of the module returns. Only tensors of known sizes cross the border.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from corpus.graphs.format import renamed
from corpus.graphs.program import GRAPH, REF, Binding, Graph, GraphProgram, Input, graph_to_json

Types: TypeAlias = Mapping[str, tuple[str, tuple[int, ...]]]
"""By name the dtype and sizes of tensors; names of anything else, or of unknown sizes, are left out."""
Rewrite: TypeAlias = Callable[[GraphProgram, Types], "GraphProgram | None"]

_LEAST, _MOST = 2, 24
_APART = 1_000_000
"""Added to the number of a dataflow block that a call has cut in two."""


class Cut:
    """A run of bindings, the tensors that it reads, and those of its own that are read later."""

    def __init__(self, program: GraphProgram, first: int, last: int) -> None:
        bindings = program.main.bindings
        self.program = program
        self.first, self.last = first, last
        self.inside = bindings[first:last]
        made = {each.name for each in self.inside}
        around = [name for each in self.inside for name in each.reads if name not in made]
        self.reads = [name for name in dict.fromkeys(around) if name not in program.constants]
        later = {name for each in bindings[last:] for name in each.reads} | {*program.main.outputs}
        self.gives = [each.name for each in self.inside if each.name in later]

    def fits(self, types: Types) -> bool:
        """Whether all that crosses the border has a type, and no symbol is named within."""
        crossing = [*self.reads, *self.gives]
        text = str([(each.args, dict(each.kwargs)) for each in self.inside])
        return bool(self.gives) and all(name in types for name in crossing) and not _names_symbol(text)


def _names_symbol(text: str) -> bool:
    """Whether a shape, a type or a number within may hold a symbol: such bindings stay where they are."""
    return "'graph'" in text or "shape_type" in text or "'shape': ['" in text


def longest_cut(program: GraphProgram, types: Types) -> Cut | None:
    """The longest run that can move; the first of several."""
    count = len(program.main.bindings)
    for length in range(min(count, _MOST), _LEAST - 1, -1):
        for first in range(count - length + 1):
            cut = Cut(program, first, first + length)
            if all(
                each.name in types and each.op not in ("if", "function", "match_cast") for each in cut.inside
            ) and cut.fits(types):
                return cut
    return None


def body_of(cut: Cut, types: Types, names: Callable[[str], str]) -> Graph:
    """The run as a graph with inputs of its own."""
    inputs = tuple(Input(names(name), *types[name]) for name in cut.reads)
    moved = tuple(_block(each, 2 * _APART) for each in cut.inside)
    graph = Graph(inputs, moved, tuple(cut.gives), {"pure": True})
    local = {name: names(name) for name in (*cut.reads, *(each.name for each in cut.inside))}
    holder = replace(cut.program, main=graph, functions={}, opaque={}, loops={}, constants={})
    return renamed(holder, local).main


def _block(binding: Binding, apart: int) -> Binding:
    if "block" not in binding.kwargs:
        return binding
    return replace(binding, kwargs={**binding.kwargs, "block": binding.kwargs["block"] + apart})


def joined(cut: Cut, calls: Sequence[Binding], result: str, functions: Mapping[str, Graph]) -> GraphProgram:
    """The program with these calls in place of the run; the run's names are fields of their result."""
    main = cut.program.main
    fields: Iterator[Binding] = (
        Binding(name, "getitem", ({REF: result}, place)) for place, name in enumerate(cut.gives)
    )
    if len(cut.gives) == 1:
        fields = iter([Binding(cut.gives[0], "alias", ({REF: result},))])
    after = tuple(_block(each, _APART) for each in main.bindings[cut.last :])
    bindings = (*main.bindings[: cut.first], *calls, *fields, *after)
    program = replace(cut.program, main=replace(main, bindings=bindings))
    return replace(program, functions={**cut.program.functions, **functions})


def _fresh(program: GraphProgram) -> Callable[[str], str]:
    """Names that the program does not have, one for each of its own."""

    given: dict[str, str] = {}

    def name(old: str) -> str:
        if old not in given:
            new = f"{old}_"
            while new in program.names or new in given.values():
                new += "_"
            given[old] = new
        return given[old]

    return name


def outline(program: GraphProgram, types: Types) -> GraphProgram | None:
    """The run as a function of the module, and a call of it."""
    cut = longest_cut(program, types)
    if cut is None:
        return None
    names = _fresh(program)
    function, result = names("outlined"), names("result")
    args = ({"function": function}, *({REF: name} for name in cut.reads))
    return joined(cut, [Binding(result, "call", args)], result, {function: body_of(cut, types, names)})


def enclose(program: GraphProgram, types: Types) -> GraphProgram | None:
    """Turn the run into a closure and a call of it. All operands but the first are captured."""
    cut = longest_cut(program, types)
    if cut is None or not cut.reads:
        return None
    names = _fresh(program)
    graph = body_of(cut, types, names)
    captured = {names(name): name for name in cut.reads[1:]}
    open_graph = replace(graph, inputs=graph.inputs[:1])
    holder = replace(program, main=open_graph, functions={}, opaque={}, loops={}, constants={})
    body = renamed(holder, captured).main
    closure, result = names("closure"), names("result")
    calls = [
        Binding(closure, "function", ({GRAPH: graph_to_json(body)},)),
        Binding(result, "call", ({REF: closure}, {REF: cut.reads[0]})),
    ]
    return joined(cut, calls, result, {})


def returned(program: GraphProgram, types: Types) -> GraphProgram | None:
    """The run as a closure that a function of the module returns: what it is called with is captured."""
    cut = longest_cut(program, types)
    if cut is None or not cut.reads:
        return None
    names = _fresh(program)
    graph = body_of(cut, types, names)
    maker, inner, closure, result = (names(each) for each in ("maker", "inner", "closure", "result"))
    body = replace(graph, inputs=graph.inputs[-1:])
    outer = Graph(
        graph.inputs[:-1],
        (Binding(inner, "function", ({GRAPH: graph_to_json(body)},)),),
        (inner,),
        {"pure": True},
    )
    first = tuple({REF: name} for name in cut.reads[:-1])
    calls = [
        Binding(closure, "call", ({"function": maker}, *first)),
        Binding(result, "call", ({REF: closure}, {REF: cut.reads[-1]})),
    ]
    return joined(cut, calls, result, {maker: outer})


REWRITES: Mapping[str, Rewrite] = {
    "a run as a function": outline,
    "a run as a closure": enclose,
    "a run as a closure that a function returns": returned,
}
"""By what is done."""
