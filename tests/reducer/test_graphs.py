"""Graphs of other formats: any set of bindings is a program, and real bugs of torch and TVM reduce to one."""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from corpus.case import Case
from corpus.formats.relax import FORMAT
from corpus.graphs.program import GRAPH, REF, Binding, Graph, GraphProgram, Input, check_names, graph_to_json
from corpus.load import open_case
from corpus.target import Target
from corpus.values import Value
from oracles.sandbox.scripts import open_foreign
from oracles.verdict import Limits
from reducer.api import reduce_case
from reducer.course import Options
from reducer.move import Hints, Search
from reducer.moves import all_moves
from reducer.moves.graphs.bodies import see_through_tuples, shrink_graph_bodies, unfold
from reducer.moves.graphs.forms import (
    drop_parameters,
    plain_dtypes,
    plain_types,
    return_alone,
    return_earlier,
    static_dims,
)
from reducer.subject.base import Facts, Subject
from reducer.subject.graphs.edits import change_flow, keep_bindings, resize
from reducer.subject.graphs.subject import GraphSubject
from reducer.subject.onnx.subject import OnnxSubject
from reducer.subject.order import size
from tests.helpers.commands import needs
from tests.helpers.models import graph_of, ref
from tests.reducer.driving import ended

BINDINGS = (
    Binding("a", "relax.reshape", (ref("x"), {"shape": ["n * 2", 2]})),
    Binding("b", "relax.add", (ref("a"), ref("w"))),
    Binding("c", "relax.nn.relu", (ref("b"),)),
    Binding("pair", "relax.split", (ref("c"),), {"attrs": {"sections": 2}}),
    Binding("d", "getitem", (ref("pair"), 0)),
    Binding("k", "relax.exp", (ref("w"),)),
    Binding("e", "call", ({"function": "f"}, ref("d"))),
    Binding("g", "relax.multiply", (ref("c"), ref("k"))),
)
MAIN = Graph((Input("x", "float32", ("n", 4)),), BINDINGS, ("e", "g"))
HELPER = Graph((Input("p", "float32", (4, 1)),), (Binding("q", "relax.nn.relu", (ref("p"),)),), ("q",))
PROGRAM = GraphProgram("relax", MAIN, {"w": np.full(2, 3.0, np.float32)}, {"f": HELPER}, {}, {"main": "main"})
VALUES = {name: np.ones((4, 2), np.float32) for name in "abcg"}
VALUES |= {"d": np.ones((4, 1), np.float32), "e": np.ones((4, 1), np.float32), "k": np.ones(2, np.float32)}
SHAPES: dict[str, tuple[int | str, ...]] = dict.fromkeys("abcg", ("n * 2", 2))


def complain_of_unknown_symbols(program: bytes, inputs: Mapping[str, Value]) -> Mapping[str, Any]:
    """As TVM does: a symbol must be a dim of its own somewhere."""
    text = program.decode()
    return {"error": "n is not known"} if '["n * 2"' in text and '"n"' not in text else {}


def subject() -> GraphSubject:
    case = Case("relax", PROGRAM.to_bytes(), {"x": np.ones((2, 4), np.float32)}, Target("tvm"))
    made = GraphSubject.of(case, PROGRAM, complain_of_unknown_symbols)
    return replace(made, facts=Facts(values=VALUES), shapes=SHAPES)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("link", [False, True])
def test_every_set_of_bindings_is_a_program_with_its_inputs(seed, link):
    draw = random.Random(seed)
    keep = frozenset(index for index in range(len(BINDINGS)) if draw.random() < 0.5)
    found = keep_bindings(subject(), keep, link)
    if found is None:
        assert not keep or keep <= {3}
        return
    check_names(found.program)
    assert [item.name for item in found.program.main.inputs] == list(found.inputs)
    assert {binding.name for binding in found.program.main.bindings} <= {BINDINGS[at].name for at in keep}
    assert size(found) < size(subject()) or len(keep) == len(BINDINGS)
    assert ("f" in found.program.functions) == any(b.calls for b in found.program.main.bindings)


def test_a_cut_becomes_an_input_only_where_an_input_had_a_part_in_it():
    found = keep_bindings(subject(), frozenset([7]), False)
    assert [item.name for item in found.program.main.inputs] == ["c"]
    assert list(found.program.constants) == ["k"]


def test_a_link_takes_an_operand_of_the_same_type():
    found = keep_bindings(subject(), frozenset([0, 7]), True)
    assert found.program.main.bindings[1].reads == ("a", "k")
    same = subject().keep_nodes(frozenset([0, 7]), link=True)
    assert isinstance(same, GraphSubject)
    assert same.document == found.document


def test_an_input_that_alone_gives_a_dim_stays_with_what_writes_the_dim():
    bindings = (
        Binding("dead", "relax.exp", (ref("y"),)),
        Binding("eye", "relax.eye", ({"prim": ["int32", "n"]},), {"attributes": {"dtype": "float32"}}),
        Binding("end", "relax.cos", (ref("eye"),)),
    )
    inputs = tuple(Input(name, "float32", dims) for name, dims in (("x", ("n", 1)), ("y", ("m",))))
    program = GraphProgram("relax", Graph(inputs, bindings, ("end",)))
    values = {"x": np.ones((2, 1), np.float32), "y": np.ones(3, np.float32)}
    case = Case("relax", program.to_bytes(), values, Target("tvm"))
    whole = GraphSubject.of(case, program, lambda program, inputs: {})
    for kept, names in (({1, 2}, ["x"]), ({0}, ["y"]), ({0, 1}, ["x", "y"])):
        found = keep_bindings(whole, frozenset(kept), False)
        assert sorted(found.inputs) == sorted(each.name for each in found.program.main.inputs) == names


def test_symbolic_dims_stay_at_a_cut_where_the_symbol_is_still_known():
    both = keep_bindings(subject(), frozenset([0, 2]), False)
    alone = keep_bindings(subject(), frozenset([2]), False)
    assert both.program.main.inputs[1].shape == ("n * 2", 2)
    assert alone.program.main.inputs[0].shape == (4, 2)


def test_resized_tensors_carry_the_integers_of_arguments_along():
    bindings = (Binding("v", "Tensor.view", (ref("x"), 3, {"tuple": [5, 3]})),)
    program = GraphProgram("torch", Graph((Input("x", "float32", (5, 3)),), bindings, ("v",)))
    case = Case("torch", program.to_bytes(), {"x": np.ones((5, 3), np.float32)})
    found = resize(
        GraphSubject.of(case, program, lambda program, inputs: {}),
        {"x": np.ones((2, 3), np.float32)},
        lambda dim: 2 if dim == 5 else dim,
    )
    assert found.program.main.bindings[0].args == ({REF: "x"}, 3, {"tuple": [2, 3]})
    assert found.program.main.inputs[0].shape == (2, 3)


def test_what_the_framework_finds_ill_formed_is_no_candidate():
    grown = {"w": np.ones(3, np.float32)}
    refusing = replace(subject(), describe=lambda program, inputs: {"error": "no"})
    assert change_flow(refusing, grown) is None
    assert change_flow(subject(), grown) is not None


def test_only_moves_for_graphs_are_made_on_graphs():
    names = [move.name for move in all_moves(GraphSubject)]
    assert {"bisect nodes by cut", "drop outputs", "shrink dims", "simplify values", "plain names"} <= set(
        names
    )
    assert not {"canonical names", "inline functions"} & set(names)
    assert "plain names" not in [move.name for move in all_moves(OnnxSubject)]


FLOOR_DIVISION = """
import torch
def model(x, a, b):
    y = torch.softmax(x, -1)
    q = a // b
    z = torch.nn.functional.layer_norm(y + q[:, :4], (4,))
    return torch.cat([z, y], 1), q
inputs = (torch.randn(4, 4), torch.tensor([[1.0, 0.5, 6.0, 1.0]]).repeat(4, 1), torch.full((4, 4), 0.1))
"""


@pytest.mark.slow
@needs("torch")
def test_a_real_bug_reduces_to_one_operator(tmp_path):
    path, target = tmp_path / "script.py", Target("inductor")
    path.write_text(FLOOR_DIVISION)
    limits = Limits(100.0, 300.0, 8 << 30)
    case = open_case(path, trust=True, importer=partial(open_foreign, target, limits), target=target)
    done = reduce_case(case, tmp_path / "out", Options(target=target, limits=limits))
    assert done.case.measure.ops == ("operator.floordiv",)
    assert done.checks <= 25
    assert all(np.size(value) <= 2 for value in done.case.inputs.values())  # dims of 1 are spread


def test_a_branch_takes_the_place_of_its_if_and_a_function_that_of_its_call():
    branch = Graph((), (Binding("t", "relax.exp", (ref("e"),)),), ("t",))
    other = Graph((), (), ("e",))
    choice = Binding("r", "if", (ref("x"), {GRAPH: graph_to_json(branch)}, {GRAPH: graph_to_json(other)}))
    main = replace(MAIN, bindings=(*BINDINGS, choice), outputs=("r",))
    start = replace(subject(), program=replace(PROGRAM, main=main))
    found = searched(unfold(start, Hints()))
    assert found.program.functions == {}
    assert found.program.main.outputs == ("t",)
    assert [found.bindings[name].reads for name in "tq"] == [("q",), ("d",)]


def torch_subject(inputs: dict[str, Value], *bindings: Binding, layout: bool = False) -> GraphSubject:
    program = graph_of("torch", inputs, *bindings, layout={"layout": [[0, 2]]} if layout else None)
    case = Case("torch", program.to_bytes(), inputs, Target("inductor"))
    return GraphSubject.of(case, program, lambda program, inputs: {})


def test_plainer_element_types_stand_in_tensors_arguments_and_names_alike():
    start = torch_subject(
        {"x": np.ones(2, np.float64), "n": np.array([7, 250], np.uint8)},
        Binding("a", "Tensor.double", (ref("n"),)),
        Binding("b", "torch.zeros", (2,), {"dtype": {"dtype": "float64"}}),
        Binding("c", "torch.stack", ([ref("x"), ref("a"), ref("b")],)),
    )
    found = searched(plain_dtypes(start, Hints()))
    assert [str(value.dtype) for value in found.inputs.values() if isinstance(value, np.ndarray)] == [
        "float32",
        "int32",
    ]
    assert found.program.main.bindings[0].op == "Tensor.float"
    assert found.bindings["b"].kwargs == {"dtype": {"dtype": "float32"}}


def test_an_element_type_that_matters_in_one_place_becomes_plain_in_the_others():
    start = torch_subject(
        {"x": np.ones(2, np.float64), "y": np.ones(2, np.float64)},
        Binding("a", "operator.add", (ref("x"), ref("y"))),
    )
    found = searched(
        plain_dtypes(start, Hints()),
        lambda each: each.inputs["x"].dtype == np.float64,  # type: ignore[union-attr]
    )
    assert [str(value.dtype) for value in found.inputs.values() if isinstance(value, np.ndarray)] == [
        "float64",
        "float32",
    ]


def test_a_number_that_is_cut_is_written_where_it_was_read():
    start = torch_subject(
        {"x": np.ones((4, 3), np.float32)},
        Binding("n", "torch.ops.aten.sym_size.int", (ref("x"), 0)),
        Binding("v", "Tensor.view", (ref("x"), 3, ref("n"))),
    )
    known = replace(start, facts=Facts(values={"n": np.array(4)}), numbers=frozenset({"n"}))
    found = keep_bindings(known, frozenset([1]), False)
    assert found.program.main.bindings[0].args == (ref("x"), 3, 4)


def test_a_branch_with_several_results_takes_the_place_of_its_members():
    taken = (Input("p", "float32", (2,)),)
    branch = Graph(taken, (Binding("q", "torch.exp", (ref("p"),)),), ("q", "p"))
    start = torch_subject(
        {"c": np.array(True), "x": np.ones(2, np.float32)},
        Binding(
            "r",
            "torch.ops.higher_order.cond",
            (ref("c"), {GRAPH: graph_to_json(branch)}, {"tuple": [ref("x")]}),
        ),
        Binding("a", "operator.getitem", (ref("r"), 0)),
        Binding("b", "operator.getitem", (ref("r"), 1)),
        Binding("s", "operator.add", (ref("a"), ref("b"))),
    )
    found = searched(unfold(start, Hints()))
    assert [(binding.op, binding.reads) for binding in found.program.main.bindings] == [
        ("torch.exp", ("x",)),
        ("operator.add", ("q", "x")),
    ]


def test_an_input_lies_in_memory_as_usual_where_that_does_not_matter():
    start = torch_subject({"x": np.ones(2, np.float32)}, Binding("y", "torch.exp", (ref("x"),)), layout=True)
    found = searched(plain_types(start, Hints()))
    assert found.program.main.inputs[0].declared is None
    assert size(found) < size(start)


# Scopes of graphs: local functions, tuples, bodies and functions that the bug needs; types left open


X = Input("x", "float32", (4, 2))


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
    return as_graph(
        ended(search, lambda proposal: (found := proposal()) is not None and is_interesting(as_graph(found)))
    )


def as_graph(found: Subject) -> GraphSubject:
    assert isinstance(found, GraphSubject)
    check_names(found.program)
    return found


P = Input("p", "float32", (4, 2))


def test_a_function_of_symbolic_dims_stands_where_it_is_called_with_these_left_open():
    """Where the bug is in code for any size."""
    helper = Graph((Input("p", "float32", ("n", 2)),), (relu("a", "p"),), ("a",))
    start = subject_of(Binding("y", "call", ({"function": "h"}, ref("x"))), functions={"h": helper})

    def is_symbolic(each: GraphSubject) -> bool:
        graphs = (each.program.main, *each.program.functions.values())
        return any("n" in item.shape for graph in graphs for item in graph.inputs)

    found = searched(unfold(start, Hints()), is_symbolic)
    assert found.program.main.inputs == (Input("x", "float32", ("n", 2)),)
    assert [(each.op, each.reads) for each in found.program.main.bindings] == [("relax.nn.relu", ("x",))]
    assert searched(unfold(start, Hints())).program.main.inputs == (X,)


def test_a_function_that_is_called_twice_takes_and_gives_only_what_the_bug_needs():
    helper = Graph(
        (P, Input("p2", "float32", (4, 2))), (relu("a", "p2"), relu("b", "a"), relu("c", "b")), ("c",)
    )
    calls = [Binding(name, "call", ({"function": "h"}, ref("x"), ref("z"))) for name in ("y", "w")]
    inputs = (X, Input("z", "float32", (4, 2)))
    start = subject_of(*calls, inputs=inputs, outputs=("y", "w"), functions={"h": helper})
    shorter = searched(return_earlier(start, Hints()), lambda each: "b" in each.program.names)
    assert shorter.program.functions["h"].outputs == ("b",)
    found = searched(drop_parameters(shorter, Hints()))
    assert [item.name for item in found.program.functions["h"].inputs] == ["p2"]
    assert [each.reads for each in found.program.main.bindings] == [("z",), ("z",)]
    assert list(found.inputs) == ["z"]


def test_a_local_function_stands_where_it_is_called():
    local = Binding("f", "function", (body(relu("a", "p"), inputs=(P,)),))
    found = searched(unfold(subject_of(local, Binding("y", "call", (ref("f"), ref("x")))), Hints()))
    assert [(each.op, each.reads) for each in found.program.main.bindings] == [("relax.nn.relu", ("x",))]


def test_a_function_of_two_results_that_is_called_twice_gives_the_one_that_is_read():
    helper = Graph((P,), (relu("a", "p"), relu("b", "a")), ("a", "b"))
    calls = [Binding(name, "call", ({"function": "h"}, ref("x"))) for name in ("s", "t")]
    members = [Binding("y", "getitem", (ref("s"), 1)), Binding("w", "getitem", (ref("t"), 1))]
    start = subject_of(*calls, *members, outputs=("y", "w"), functions={"h": helper})
    found = searched(return_alone(start, Hints()))
    assert found.program.functions["h"].outputs == ("b",)
    assert [each.op for each in found.program.main.bindings] == ["call", "call"]
    assert found.program.main.outputs == ("s", "t")


def test_a_function_of_two_results_leaves_a_tuple_that_is_seen_through():
    helper = Graph((P,), (relu("a", "p"), relu("b", "a")), ("a", "b"))
    call = Binding("t", "call", ({"function": "h"}, ref("x")))
    start = subject_of(call, Binding("y", "getitem", (ref("t"), 1)), relu("z", "y"), functions={"h": helper})
    unfolded = searched(unfold(start, Hints()))
    assert [each.op for each in unfolded.program.main.bindings][-3:] == ["alias", "getitem", "relax.nn.relu"]
    found = searched(see_through_tuples(unfolded, Hints()))
    assert [each.op for each in found.program.main.bindings][-2:] != ["getitem", "relax.nn.relu"]
    assert found.bindings["z"].reads == ("b",)


@pytest.mark.parametrize("op", ["relax.tanh", "relax.exp"])
def test_a_function_that_stays_keeps_only_what_the_bug_needs(op):
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


def test_a_branch_that_stays_may_be_empty():
    branches = (body(relu("a", "x"), relu("b", "a")), body(relu("c", "x")))
    start = subject_of(Binding("y", "if", (ref("x"), *branches)))
    found = searched(shrink_graph_bodies(start, Hints()), lambda each: each.bindings["y"].op == "if")
    assert [len(each.bindings) for each in found.bindings["y"].bodies] == [0, 0]


def test_functions_and_bodies_are_resized_with_what_they_are_given():
    inner = Binding("r", "relax.reshape", (ref("p"), {"shape": [2, 4]}))
    helper = Graph((P,), (Binding("i", "if", (ref("p"), body(inner), body(relu("q", "p")))),), ("i",))
    start = subject_of(Binding("y", "call", ({"function": "h"}, ref("x"))), functions={"h": helper})
    found = resize(start, {"x": np.ones((1, 2), np.float32)}, lambda dim: 1 if dim == 4 else dim)
    function = found.program.functions["h"]
    assert function.inputs[0].shape == (1, 2)
    assert function.bindings[0].bodies[0].bindings[0].args[1] == {"shape": [2, 1]}


SHAPE = Input("s", "int64", (2,), {"shape_type": [["n", "k * 2"], 2]})
ANY = Input("x", "float32", ("n", 2), {"tensor": ["float32", None, 2]})


def test_a_shape_that_is_passed_is_made_of_the_sizes_of_its_dims():
    program = subject_of(relu("y", "x"), inputs=(Input("x", "float32", ("n", 2)), SHAPE)).program
    made = FORMAT.make_inputs(FORMAT.parse(program.to_bytes()), seed=3)
    dims = made["s"]
    assert isinstance(dims, np.ndarray)
    assert dims[0] == np.shape(made["x"])[0]
    assert dims[1] % 2 == 0


def test_a_type_left_open_and_dims_that_are_passed_become_plain():
    start = replace(
        subject_of(relu("y", "x"), inputs=(ANY, SHAPE)),
        inputs={"x": np.ones((3, 2), np.float32), "s": np.array([3, 4])},
    )
    typed = searched(plain_types(start, Hints()))
    assert [item.declared is None for item in typed.program.main.inputs] == [True, False]
    found = searched(static_dims(typed, Hints()))
    assert found.program.main.inputs[0].shape == (3, 2)
    assert found.program.main.inputs[1].declared == {"shape_type": [[3, "k * 2"], 2]}
