"""Scopes of graphs: local functions, tuples, bodies and functions that the bug needs; types left open."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from corpus.case import Case
from corpus.formats.relax import FORMAT
from corpus.graphs.program import GRAPH, REF, Binding, Graph, GraphProgram, Input, check_names, graph_to_json
from corpus.target import Target
from corpus.values import Value
from reducer.move import Hints, Search
from reducer.moves.graphs.bodies import see_through_tuples, shrink_graph_bodies, unfold
from reducer.moves.graphs.forms import plain_types, static_dims
from reducer.subject.base import Subject
from reducer.subject.graphs.edits import keep_bindings, resize
from reducer.subject.graphs.subject import GraphSubject
from reducer.subject.order import size

X = Input("x", "float32", (4, 2))


def ref(name: str) -> dict[str, str]:
    return {REF: name}


def body(*bindings: Binding, inputs: tuple[Input, ...] = (), outputs: tuple[str, ...] = ()) -> dict[str, Any]:
    return {GRAPH: graph_to_json(Graph(inputs, bindings, outputs or (bindings[-1].name,)))}


def relu(name: str, of: str) -> Binding:
    return Binding(name, "relax.nn.relu", (ref(of),))


def subject_of(
    *bindings: Binding, inputs: tuple[Input, ...] = (X,), outputs: tuple[str, ...] = (), **parts: Any
) -> GraphSubject:
    """A subject in which every tensor is of one type, as its framework tells it."""
    main = Graph(inputs, bindings, outputs or (bindings[-1].name,))
    program = GraphProgram("relax", main, facts={"main": "main"}, **parts)
    check_names(program)
    values = {
        item.name: np.ones([dim for dim in item.shape if isinstance(dim, int)], item.dtype) for item in inputs
    }

    def describe(document: bytes, fed: Mapping[str, Value]) -> Mapping[str, Any]:
        names = FORMAT.parse(document).names
        return {"types": {name: ["float32", [4, 2]] for name in names if not name.startswith(("p", "x"))}}

    return GraphSubject.of(Case("relax", program.to_bytes(), values, Target("tvm")), program, describe)


def searched(search: Search, is_interesting: Callable[[GraphSubject], bool] = lambda _: True) -> GraphSubject:
    """What a search ends with, and that each of its programs has its names in order."""
    answer: bool | None = None
    try:
        while True:
            found = (next(search) if answer is None else search.send(answer))()
            answer = found is not None and is_interesting(as_graph(found))
    except StopIteration as end:
        return as_graph(end.value)


def as_graph(found: Subject) -> GraphSubject:
    assert isinstance(found, GraphSubject)
    check_names(found.program)
    return found


P = Input("p", "float32", (4, 2))


def test_a_local_function_stands_where_it_is_called() -> None:
    local = Binding("f", "function", (body(relu("a", "p"), inputs=(P,)),))
    found = searched(unfold(subject_of(local, Binding("y", "call", (ref("f"), ref("x")))), Hints()))
    assert [(each.op, each.reads) for each in found.program.main.bindings] == [("relax.nn.relu", ("x",))]


def test_a_function_of_two_results_leaves_a_tuple_that_is_seen_through() -> None:
    helper = Graph((P,), (relu("a", "p"), relu("b", "a")), ("a", "b"))
    call = Binding("t", "call", ({"function": "h"}, ref("x")))
    start = subject_of(call, Binding("y", "getitem", (ref("t"), 1)), relu("z", "y"), functions={"h": helper})
    unfolded = searched(unfold(start, Hints()))
    assert [each.op for each in unfolded.program.main.bindings][-3:] == ["alias", "getitem", "relax.nn.relu"]
    found = searched(see_through_tuples(unfolded, Hints()))
    assert [each.op for each in found.program.main.bindings][-2:] != ["getitem", "relax.nn.relu"]
    assert found.bindings["z"].reads == ("b",)


@pytest.mark.parametrize("op", ["relax.tanh", "relax.exp"])
def test_a_function_that_stays_keeps_only_what_the_bug_needs(op: str) -> None:
    """The uses of the others go to what has the same type."""
    bindings = (relu("a", "p"), Binding("k", op, (ref("a"),)), relu("b", "k"), relu("c", "b"), relu("d", "c"))
    helper = Graph((P,), bindings, ("d",))
    start = subject_of(Binding("y", "call", ({"function": "h"}, ref("x"))), functions={"h": helper})
    found = searched(
        shrink_graph_bodies(start, Hints()),
        lambda each: op in [inner.op for graph in each.program.functions.values() for inner in graph.walk()],
    )
    assert [each.op for each in found.program.functions["h"].bindings] == [op]
    assert size(found) < size(start)


def test_a_branch_that_stays_may_be_empty() -> None:
    branches = (body(relu("a", "x"), relu("b", "a")), body(relu("c", "x")))
    start = subject_of(Binding("y", "if", (ref("x"), *branches)))
    found = searched(shrink_graph_bodies(start, Hints()), lambda each: each.bindings["y"].op == "if")
    assert [len(each.bindings) for each in found.bindings["y"].bodies] == [0, 0]


def test_constants_of_functions_stay_while_bindings_of_main_go() -> None:
    helper = Graph((P,), (Binding("a", "relax.add", (ref("p"), ref("w"))),), ("a",))
    call = Binding("y", "call", ({"function": "h"}, ref("x")))
    constants = {"w": np.ones(2, np.float32), "v": np.ones(2, np.float32)}
    start = subject_of(call, relu("z", "y"), functions={"h": helper}, constants=constants)
    found = keep_bindings(start, frozenset([0]), False)
    assert found is not None
    check_names(found.program)
    assert list(found.program.constants) == ["w"]


def test_functions_and_bodies_are_resized_with_what_they_are_given() -> None:
    inner = Binding("r", "relax.reshape", (ref("p"), {"shape": [2, 4]}))
    helper = Graph((P,), (Binding("i", "if", (ref("p"), body(inner), body(relu("q", "p")))),), ("i",))
    start = subject_of(Binding("y", "call", ({"function": "h"}, ref("x"))), functions={"h": helper})
    found = resize(start, {"x": np.ones((1, 2), np.float32)}, lambda dim: 1 if dim == 4 else dim)
    assert found is not None
    function = found.program.functions["h"]
    assert function.inputs[0].shape == (1, 2)
    assert function.bindings[0].bodies[0].bindings[0].args[1] == {"shape": [2, 1]}


SHAPE = Input("s", "int64", (2,), {"shape_type": [["n", "k * 2"], 2]})
ANY = Input("x", "float32", ("n", 2), {"tensor": ["float32", None, 2]})


def test_a_shape_that_is_passed_is_made_of_the_sizes_of_its_dims() -> None:
    program = subject_of(relu("y", "x"), inputs=(Input("x", "float32", ("n", 2)), SHAPE)).program
    made = FORMAT.make_inputs(FORMAT.parse(program.to_bytes()), seed=3)
    dims = made["s"]
    assert isinstance(dims, np.ndarray)
    assert dims[0] == np.shape(made["x"])[0]
    assert dims[1] % 2 == 0


def test_a_type_left_open_and_dims_that_are_passed_become_plain() -> None:
    start = replace(
        subject_of(relu("y", "x"), inputs=(ANY, SHAPE)),
        inputs={"x": np.ones((3, 2), np.float32), "s": np.array([3, 4])},
    )
    typed = searched(plain_types(start, Hints()))
    assert [item.declared is None for item in typed.program.main.inputs] == [True, False]
    found = searched(static_dims(typed, Hints()))
    assert found.program.main.inputs[0].shape == (3, 2)
    assert found.program.main.inputs[1].declared == {"shape_type": [[3, "k * 2"], 2]}
