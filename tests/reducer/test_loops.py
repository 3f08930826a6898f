"""Modules of loops become smaller: each move by a table, and whole reductions of failures of TVM."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from corpus.case import Case
from corpus.formats.relax import FORMAT
from corpus.graphs.program import REF, Binding, Graph, GraphProgram, Input, PrimFunc
from corpus.target import Target
from corpus.tir.forms import pointer_to
from corpus.tir.program import make_inputs, to_bytes
from corpus.tir.scopes import is_well_formed
from corpus.tir.tree import (
    Alloc,
    Axis,
    Bind,
    Block,
    Declare,
    Evaluate,
    For,
    Function,
    If,
    Match,
    Module,
    Stmt,
    Store,
)
from corpus.tir.values import (
    Binary,
    Broadcast,
    Buffer,
    BufferRef,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Ramp,
    Range,
    Region,
    Var,
    literal,
)
from corpus.tir.walk import statements
from oracles.backends import backends
from oracles.judge import Judge
from oracles.verdict import Outcome
from reducer.api import reduce_case
from reducer.course import Options
from reducer.move import Hints, Move
from reducer.moves import all_moves
from reducer.subject.graphs.subject import GraphSubject
from reducer.subject.order import size
from reducer.subject.tir_subject import TirSubject
from tests.bench import planted as wrong_tvm
from tests.helpers.planted_loops import planted_case
from tests.reducer.driving import ended

A, B, C = (Buffer(name, (Const(8),), "float32") for name in "ABC")
I, N = Var("i"), Var("n")  # noqa: E741
ONE = Const(1.0, "float32")


def load(name: str, index: Expr = I) -> Load:
    return Load(name, (index,), "float32")


def store(name: str, value: Expr, index: Expr = I) -> Store:
    return Store(name, (index,), value)


def loop(*body: Stmt, kind: str = "serial", extent: int = 8) -> For:
    return For(I, Const(0), Const(extent), kind, body)


def subject_of(*body: Stmt) -> TirSubject:
    module = Module({"main": Function((A, B, C, N), body, attrs={"global_symbol": "main", "x": 1})})
    assert is_well_formed(module)
    return TirSubject.of(Case("tir", to_bytes(module), make_inputs(module, 1)), module)


def found_by(name: str, subject: TirSubject, still_fails: Callable[[TirSubject | None], bool]) -> TirSubject:
    """What a move makes of a subject where this says which candidates still fail."""
    move: Move = next(each for each in all_moves(TirSubject) if each.name == name)
    result = ended(move.search(subject, Hints()), lambda proposal: still_fails(proposal()))
    assert result.is_valid
    return result


def holds(text: str) -> Callable[[TirSubject | GraphSubject | None], bool]:
    return lambda subject: subject is not None and text in subject.document.decode()


SUM = Binary("add", load("A"), ONE)
AXIS = Axis(Var("v"), Range(Const(0), Const(8)), "spatial", I)
BLOCK = Block(
    "b",
    (AXIS,),
    (Region("A", (Range(Var("v"), Const(1)),)),),
    (Region("B", (Range(Var("v"), Const(1)),)),),
    (store("B", Call("exp", (load("A", Var("v")),), "float32"), Var("v")),),
)
PART = Region("B", (Range(Var("v"), Const(1)),))
MATCHING = replace(
    BLOCK,
    matches=(Match(Buffer("M", (Const(1),), "float32", offset_factor=1), PART),),
    body=(store("M", Call("exp", (load("A", Var("v")),), "float32"), Const(0)),),
)
LANES = Load("A", (Ramp(Const(0), Const(1), 4),), "float32x4")
VIEW = Buffer("V", (Const(4),), "float32", strides=(Const(2),))
DATA = Call("buffer_data", (BufferRef("A"),), pointer_to("float32"))
FRESH = Buffer("F", (Const(8),), "float32", scope="local")

MOVES: list[tuple[str, tuple[Stmt, ...], str, str]] = [
    (
        "drop statements",
        (loop(store("A", ONE), store("B", Call("exp", (SUM,), "float32")), store("C", ONE)),),
        "exp",
        '["for", "i", "int32", 0, 8, "serial", {\n      "body": [\n        ["store", "B"',
    ),
    (
        "drop statements",
        (loop(Bind(Var("x", "float32"), SUM), store("A", ONE), store("B", Var("x", "float32"))),),
        '"store", "B"',
        '["bind", "x"',
    ),
    ("unwrap", (loop(store("B", SUM)),), '"add"', '["store", "B", [0], ["add", ["load", "A", 0]'),
    ("unwrap", (loop(BLOCK),), '"exp"', '["store", "B", [0], ["exp", ["load", "A", 0]]]'),
    (
        "unwrap",
        (If(Binary("lt", N, Const(90)), (store("B", ONE, N),), (store("C", ONE, N),)),),
        '"store", "C"',
        '["store", "C", ["n"], 1.0]',
    ),
    ("shorten loops", (loop(store("B", SUM)),), '"for"', '"i", "int32", 0, 1, "serial"'),
    ("plain loops", (loop(store("B", SUM), kind="unrolled"),), '"for"', '8, "serial"'),
    (
        "inline names",
        (loop(Bind(Var("x", "float32"), SUM), store("B", Var("x", "float32"))),),
        '"add"',
        '["store", "B", ["i"], ["add"',
    ),
    (
        "plain expressions",
        (loop(store("B", Call("exp", (Binary("mul", SUM, SUM),), "float32"))),),
        '"exp"',
        '["store", "B", [0], ["exp", 0.0]]',
    ),
    (
        "narrow values",
        (loop(store("B", Binary("mul", SUM, Cast("float32", Binary("floordiv", I, Const(7)))))),),
        '"floordiv"',
        '["store", "B", ["i"], ["cast", "float32", ["floordiv", "i", 7]]]',
    ),
    (
        "plain buffers",
        (Alloc(FRESH), loop(store("F", ONE))),
        '"F"',
        '{"name": "F", "shape": [8], "dtype": "float32"}',
    ),
    ("shorten buffers", (store("B", ONE, Const(0)),), '"B"', '{"name": "B", "shape": [1]'),
    (
        "lower ranks",
        (Alloc(Buffer("G", (Const(8), Const(1)), "float32")), loop(Store("G", (I, Const(0)), ONE))),
        '"store", "G"',
        '"shape": [8], "dtype": "float32"}',
    ),
    (
        "plain types",
        (Alloc(Buffer("G", (Const(8),), "float64")), loop(Store("G", (I,), Const(1.0, "float64")))),
        '"store", "G"',
        '{"name": "G", "shape": [8], "dtype": "float32"}',
    ),
    ("drop matched buffers", (loop(MATCHING),), '"exp"', '["store", "B", [["add", "v", 0]]'),
    (
        "fewer lanes",
        (Store("B", (Ramp(Const(1), Const(2), 4),), Binary("add", LANES, Broadcast(ONE, 4))),),
        '"add"',
        '["store", "B", [1], ["add", ["load", "A", 0], 1.0]]',
    ),
    (
        "drop views",
        (Declare(VIEW, DATA), store("B", load("V", Const(1)), Const(0))),
        '"load"',
        '["store", "B", [0], ["load", "A", 1]]',
    ),
    (
        "unwrap",
        (loop(If(Binary("lt", I, Const(3)), (Evaluate(Call("break_loop", (), "void")),))),),
        "break_loop",
        '["evaluate", ["call", "break_loop", "void"]]',
    ),
    (
        "plain names of loops",
        (For(Var("iteration"), Const(0), Const(8), "serial", (store("B", ONE, Var("iteration")),)),),
        '"store"',
        '["for", "i", "int32", 0, 8',
    ),
    (
        "drop parameters",
        (store("B", ONE, Const(0)),),
        '"store"',
        '"params": [\n    {"name": "B", "shape": [8], "dtype": "float32"}]',
    ),
    ("drop attributes", (store("B", ONE, Const(0)),), '"store"', '"attrs": {"global_symbol": "main"}'),
]


@pytest.mark.parametrize(("name", "body", "needed", "wanted"), MOVES, ids=[row[0] for row in MOVES])
def test_a_move(name, body, needed, wanted):
    subject = subject_of(*body)
    found = found_by(name, subject, holds(needed))
    assert wanted in found.document.decode()
    assert size(found) < size(subject)


def test_no_candidate_leaves_what_is_defined():
    inside = If(
        Binary("lt", Binary("add", I, Const(1)), Const(8)), (store("B", ONE, Binary("add", I, Const(1))),)
    )
    found = found_by("unwrap", subject_of(loop(inside)), holds('"for"'))
    assert [*statements(found.main.body)][1] == inside


def test_no_candidate_leaves_open_what_a_result_is_where_the_original_does_not():
    wraps = Cast("uint8", Cast("int32", Const(-2.0, "float32")))
    memory = Buffer("U", (Const(1),), "uint8")
    module = Module({"main": Function((memory,), (Store("U", (Const(0),), wraps),))})
    subject = TirSubject.of(Case("tir", to_bytes(module), make_inputs(module, 1)), module)
    assert found_by("narrow values", subject, holds("-2")) == subject


def calling(dtype: str) -> TirSubject:
    """A function of an address, a number that it does not name, and one that is always the same."""
    buffer, view = Buffer("A", (Const(4),), dtype), Buffer("V", (Const(4),), dtype)
    address = Call("buffer_data", (BufferRef("A"),), pointer_to(dtype))
    params = (Var("p", pointer_to(dtype)), Var("m"), Var("n"))
    fill = Store("V", (params[2],), literal(1, dtype))
    functions = {
        "main": Function((buffer,), (loop(Evaluate(Call("@f", (address, I, Const(3)), "void"))),)),
        "f": Function(params, (Declare(view, params[0]), fill)),
    }
    module = Module(functions)
    return TirSubject.of(Case("tir", to_bytes(module), make_inputs(module, 1)), module)


def test_a_called_function_is_given_what_it_needs():
    found = found_by("drop parameters", calling("float32"), holds('"V"'))
    assert [each.name for each in found.module.functions["f"].params] == ["p"]
    assert '"call", "@f", "void", ["call", "buffer_data"' in found.document.decode()


def test_what_points_at_elements_changes_its_type_with_them():
    found = found_by("plain types", calling("float64"), holds('"V"'))
    assert "float64" not in found.document.decode()


def test_sizes_count_statements_first():
    one = subject_of(store("B", Binary("add", load("A", N), ONE), N))
    two = subject_of(store("B", ONE, N), store("C", ONE, N))
    assert size(one) < size(two)
    assert isinstance(one.inputs["A"], np.ndarray)


# PrimFuncs within Relax programs become smaller, and the graph around them follows


J = Var("j")
EXP2 = Call("exp2", (load("A", J),), "float32")
BODY = (
    Alloc(Buffer("T", (Const(8),), "float32")),
    loop(store("T", Binary("add", load("A"), load("B")))),
    For(J, Const(0), Const(8), "serial", (store("C", Binary("mul", load("T", J), EXP2), J),)),
)


def subject() -> GraphSubject:
    call = Binding(
        "r",
        "relax.call_tir",
        ({"function": "f"}, {"tuple": [{REF: "x"}, {REF: "p"}]}),
        {"types": [{"tensor": ["float32", [8], 1]}]},
    )
    inputs = tuple(Input(name, "float32", (8,)) for name in "xy")
    main = Graph(inputs, (Binding("p", "relax.nn.relu", ({REF: "y"},)), call), ("r",))
    loops = {"f": PrimFunc(Function((A, B, C), BODY, attrs={"s_tir": True}))}
    program = GraphProgram("relax", main, loops=loops, facts={"main": "main"})
    return GraphSubject(program, inputs={name: np.ones(8, np.float32) for name in "xy"})


def smallest(start: GraphSubject, wanted: str) -> GraphSubject:
    """What rounds of the moves on PrimFuncs leave where the document must hold a text."""
    moves = [move for move in all_moves(GraphSubject) if move.name.endswith("in PrimFuncs")]
    best, before = start, None
    while before is not best:
        before = best
        for move in moves:
            found = ended(move.search(best, Hints()), lambda proposal: holds(wanted)(proposal()))
            best = found if size(found) < size(best) else best
    return best


def test_a_primfunc_shrinks_and_its_call_with_it():
    found = smallest(subject(), "exp2").program
    (function,) = (each.function for each in found.loops.values())
    assert [type(stmt).__name__ for stmt in function.body] == ["Store"]
    assert len(function.params) == 1  # what is read no more is not passed
    call = next(each for each in found.main.bindings if each.op == "relax.call_tir")
    assert call.args[1] == {"tuple": []}
    assert call.kwargs["types"] == [{"tensor": ["float32", [1], 1]}]


def test_what_is_given_back_is_still_written_in_full():
    found = smallest(subject(), "call_tir").program  # anything will do
    (function,) = (each.function for each in found.loops.values())
    assert [stmt.buffer for stmt in function.body if isinstance(stmt, Store)] == [function.params[-1].name]


@pytest.mark.parametrize(("callee", "complains"), [("system", True), ("sqrtf", False)])
def test_what_a_primfunc_calls_needs_trust(callee, complains):
    text = subject().program.to_bytes().decode()
    extern = f'["call", "call_extern", "float32", ["text", "{callee}"], '
    hostile = text.replace('["exp2", ', extern)
    assert hostile != text
    assert bool(FORMAT.calls_outside(hostile.encode())) is complains


# Wrong passes of our own over TVM's loops: the statement and the passes that it takes are what is left


@pytest.fixture(scope="module")
def planted() -> Iterator[Judge]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRUX_SANDBOX_SHOWS", str(Path(__file__).parents[2]))  # where the backend stands
        patch.setitem(backends(), wrong_tvm.NAME, wrong_tvm.backend())
        with Judge(Target(wrong_tvm.NAME), format="tir") as judge:
            yield judge


@pytest.mark.parametrize("dtype", ["bool", "float32"])
def test_what_a_pass_lets_write_beside_a_buffer_is_seen_where_no_value_shows_it(planted, dtype):
    written = Store("A", (I,), Const(True, "bool") if dtype == "bool" else literal(1, dtype))
    body = (loop(written, extent=4),)
    module = Module({"main": Function((Buffer("A", (Const(4),), dtype),), body)})
    case = Case("tir", to_bytes(module), make_inputs(module, 1), planted.target)
    assert planted.verdict(case).outcome is Outcome.PASS
    verdict = planted.verdict(case.with_passes(("tirx.RunsOver",)))
    together = planted.look([case, case.with_passes(("tirx.RunsOver",))])
    assert verdict.outcome is Outcome.EXCEPTION
    assert "memory: writes beyond the buffer A" in verdict.title
    assert [look is not None for look in together] == [True, False]


@pytest.mark.slow
@pytest.mark.usefixtures("planted")
def test_a_wrong_pass_that_needs_another_is_found_with_its_statement(tmp_path):
    case = planted_case("AfterAnother", "cos", rounds=10)
    result = reduce_case(case, tmp_path / "out", Options(target=case.target))
    assert result.is_minimal
    assert len([*statements(result.case.parsed.main.body)]) <= 3
    assert result.case.passes == (f"tirx.{wrong_tvm.MARKING}", "tirx.AfterAnother")
    assert result.checks <= 60
