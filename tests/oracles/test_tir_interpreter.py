"""The interpreter of TVM's loop IR: what each operator gives, what nothing defines, and that TVM agrees."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from corpus.case import Case
from corpus.tir.forms import pointer_to
from corpus.tir.program import from_json, make_inputs, to_bytes
from corpus.tir.scopes import problems
from corpus.tir.tree import Alloc, Attr, Axis, Block, Evaluate, For, Function, If, Module, Stmt, Store
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
    Select,
    Shuffle,
    Unary,
    Var,
    literal,
    type_of,
)
from oracles.probes.tir_context import by_identities
from oracles.tir.interpreter import Interpretation, interpret
from oracles.tir.scalars import Noise, noisy
from oracles.verdict import Outcome

INF, NAN = math.inf, math.nan


def of_expr(expr: Expr, **params: Any) -> Interpretation:
    """What an expression over scalar parameters gives, as the first element of a buffer."""
    out = Buffer("out", (Const(1),), type_of(expr))
    scalars = tuple(Var(name, value.dtype.name) for name, value in params.items())
    module = Module({"main": Function((out, *scalars), (Store("out", (Const(0),), expr),))})
    return interpret(module, {"out": np.zeros(1, out.dtype), **params})


def binary(op: str, dtype: str, a: float, b: float) -> Any:
    """The result of an operator, None for undefined, or the reason for which all is."""
    kind = np.dtype(dtype).type
    found = of_expr(Binary(op, Var("a", dtype), Var("b", dtype)), a=np.array(kind(a)), b=np.array(kind(b)))
    if found.reason:
        return found.reason
    return found.outputs["out"][0] if found.defined["out"][0] else None


TABLE = [
    ("add", "int8", 100, 27, 127),
    ("add", "int8", 100, 28, None),
    ("add", "uint8", 200, 100, 44),
    ("sub", "uint32", 0, 1, 2**32 - 1),
    ("mul", "int64", 2**40, 2**40, None),
    ("mul", "int32", -3, 5, -15),
    ("div", "int32", -7, 2, -3),
    ("mod", "int32", -7, 2, -1),
    ("floordiv", "int32", -7, 2, -4),
    ("floormod", "int32", -7, 2, 1),
    ("floordiv", "int32", 1, 0, "an integer is divided by zero"),
    ("div", "int32", -(2**31), -1, "the least integer is divided by -1"),
    ("shl", "int32", 3, 4, 48),
    ("shl", "int32", 1, 32, None),
    ("shl", "int32", 1, -1, None),
    ("shl", "int32", 1, 31, None),
    ("shl", "uint32", 3, 31, 2**31),
    ("shr", "int32", -8, 1, -4),
    ("bitxor", "int8", -1, 5, -6),
    ("div", "float32", 1, 0, INF),
    ("div", "float32", -1, 0, -INF),
    ("div", "float32", 1, -0.0, -INF),
    ("div", "float32", 0, 0, NAN),
    ("add", "float32", 2**24, 1, 2**24),
    ("mul", "float32", 1e30, 1e30, INF),
    ("add", "float16", 2048, 1, 2048),
    ("max", "float32", 1, NAN, None),
    ("lt", "float32", 1, NAN, None),
    ("ne", "float32", NAN, NAN, True),
    ("floormod", "float32", -1, 3, 2),
    ("min", "int32", -1, 3, -1),
]


@pytest.mark.parametrize(("op", "dtype", "a", "b", "wanted"), TABLE)
def test_an_operator_gives(op, dtype, a, b, wanted):
    found = binary(op, dtype, a, b)
    if isinstance(wanted, float) and math.isnan(wanted):
        assert math.isnan(found)
    else:
        assert found == wanted


CASTS = [
    ("int32", 300, "int8", 44),
    ("int32", -1, "uint8", 255),
    ("float32", 3.99, "int32", 3),
    ("float32", -3.99, "int32", -3),
    ("float32", 1e10, "int32", None),
    ("float32", NAN, "int32", None),
    ("float32", 256.0, "uint8", None),
    ("float64", 1e300, "float32", INF),
    ("int64", 2**24 + 1, "float32", 2**24),
    ("float32", 0.5, "bool", True),
]


@pytest.mark.parametrize(("before", "value", "after", "wanted"), CASTS)
def test_a_cast_gives(before, value, after, wanted):
    found = of_expr(Cast(after, Var("x", before)), x=np.array(value, before))
    got = found.outputs["out"][0] if found.defined["out"][0] else None
    assert got == wanted


CALLS = [
    (Call("round", (Const(2.75, "float32"),), "float32"), 3.0),
    (Call("nearbyint", (Const(2.5, "float32"),), "float32"), 2.0),
    (Call("clz", (Const(1),), "int32"), 31),
    (Call("popcount", (Const(-1),), "int32"), 32),
    (Call("reinterpret", (Const(1.0, "float32"),), "int32"), 0x3F800000),
    (Unary("bitnot", Const(5)), -6),
    (Unary("not", Const(True, "bool")), False),
    (Select(Const(True, "bool"), Const(1), Const(2)), 1),
    (Shuffle((literal(3, "int32x2"), Const(7)), (Const(2),)), 7),
]


@pytest.mark.parametrize(("expr", "wanted"), CALLS)
def test_an_expression_gives(expr, wanted):
    assert of_expr(expr).outputs["out"][0] == wanted


@pytest.mark.parametrize("callee", ["copysign", "reinterpret"])
def test_the_sign_of_a_negative_zero_is_open(callee):
    sign = Var("x", "float32")
    call = Call("reinterpret", (sign,), "int32") if callee == "reinterpret" else None
    expr = call or Call("copysign", (Const(1.0, "float32"), sign), "float32")
    defined = [of_expr(expr, x=np.array(x, "float32")).defined["out"][0] for x in (-0.0, 0.0, -1.0)]
    assert defined == [False, True, True]


def test_rough_results_have_slack_and_exact_ones_none():
    x = np.array(1.5, "float32")
    rough = of_expr(Call("exp", (Var("x", "float32"),), "float32"), x=x)
    exact = of_expr(Binary("mul", Var("x", "float32"), Var("x", "float32")), x=x)
    assert 0 < rough.slack["out"][0] < 1e-3
    assert exact.slack["out"][0] == 0


A = Buffer("A", (Const(8),), "int32")
I, N = Var("i"), Var("n")  # noqa: E741


def run(*body: Stmt) -> Interpretation:
    """What a body does to the buffer `A` of zeros, with `n` = 3."""
    module = Module({"main": Function((A, N), body)})
    return interpret(module, {"A": np.zeros(8, np.int32), "n": np.array(3, np.int32)})


def loop(kind: str, *body: Stmt) -> For:
    return For(I, Const(0), Const(8), kind, body)


def at(index: Expr) -> Load:
    return Load("A", (index,), "int32")


PLUS = Binary("add", at(I), Const(1))
NEXT = Binary("add", I, Const(1))
INSIDE = Binary("lt", NEXT, Const(8))

UNDEFINED = {
    "A is accessed at 8": loop("serial", Store("A", (NEXT,), I)),
    "a vectorized loop depend": loop("vectorized", If(INSIDE, (Store("A", (NEXT,), at(I)),))),
    "a parallel loop depend": loop("parallel", Store("A", (Const(0),), I)),
    "lanes of a store meet": Store("A", (Broadcast(N, 4),), literal(1, "int32x4")),
    "block b writes A where": Block(
        "b", (), (), (Region("A", (Range(N, Const(1)),)),), (Store("A", (I,), I),)
    ),
    "block b does not say that it uses A": Block(
        "b",
        (),
        (),
        (Region("B", (Range(N, Const(1)),)),),
        (If(Const(False, "bool"), (Store("A", (N,), N),)),),
    ),
    "block b says that it uses B, and does not": Block(
        "b", (), (), (Region("B", (Range(N, Const(1)),)),), (Evaluate(N),)
    ),
    "an assumption does not hold": Evaluate(Call("assume", (Binary("lt", N, Const(1)),), "bool")),
}


@pytest.mark.parametrize("reason", UNDEFINED)
def test_nothing_of_such_a_program_is_defined(reason):
    stmt = UNDEFINED[reason]
    found = run(loop("serial", stmt) if isinstance(stmt, Block) else stmt)
    assert reason in found.reason
    assert found.is_modelled


def test_fresh_memory_is_undefined_and_what_hangs_on_it():
    fresh = Alloc(Buffer("C", (Const(8),), "int32"))
    found = run(fresh, Store("A", (N,), Load("C", (N,), "int32")))
    assert found.defined["A"].tolist() == [place != 3 for place in range(8)]
    assert not found.is_defined


@pytest.mark.parametrize("by", [Const(0), Const(-1), Load("Y", (Const(0),), "int32")])
def test_a_division_of_what_nothing_defines_may_end_the_process(by):
    y = Buffer("Y", (Const(1),), "int32")
    unset = Load("Y", (Const(0),), "int32")
    body = (Alloc(y), Evaluate(Binary("floormod", unset, by)))
    assert not interpret(Module({"main": Function((), body)}), {}).is_defined
    harmless = (Alloc(y), Evaluate(Binary("floormod", unset, Const(3))))
    assert interpret(Module({"main": Function((), harmless)}), {}).is_defined


def test_vectors_are_stored_lane_by_lane():
    found = run(Store("A", (Ramp(Const(1), Const(2), 3),), Ramp(N, Const(10), 3)))
    assert found.outputs["A"].tolist() == [0, 3, 0, 13, 0, 23, 0, 0]


def test_iterations_that_do_not_meet_may_run_at_once():
    assert run(loop("parallel", Store("A", (I,), PLUS))).outputs["A"].tolist() == [1] * 8


def test_what_is_not_known_is_not_modelled():
    found = run(Evaluate(Call("tvm_warp_activemask", (), "int32")))
    assert not found.is_modelled
    assert "tvm_warp_activemask" in found.reason


samples = pytest.importorskip("tests.oracles.tir_samples")


NOT_RUN = {"Attributed", "External", "Symbolic", "Threads", "Launched", "Intrinsics", "Named"}


@pytest.mark.parametrize("name", sorted(set(samples.SAMPLES) - NOT_RUN))
def test_every_way_of_tvm_gives_what_the_interpreter_gives(name, tir_judge):
    from oracles.worker.tvm.tir.read import read_module

    module = from_json(json.loads(json.dumps(read_module(samples.SAMPLES[name]))))
    inputs = {
        **make_inputs(module, 1),
        **({"n": np.array(4, "int32")} if "n" in make_inputs(module, 1) else {}),
    }
    verdict = tir_judge.verdict(Case("tir", to_bytes(module), inputs, tir_judge.target))
    assert verdict.outcome is Outcome.PASS, verdict.title
    assert not interpret(module, inputs).reason


def test_rounding_is_as_large_as_the_numbers_that_a_small_result_comes_from():
    moved = [noisy(0.01, "float16", Noise(seed), "atanh") for seed in range(20)]
    assert max(abs(value - 0.01) for value in moved) > 2.0**-10
    moved = [noisy(0.01, "float16", Noise(seed), "sin") for seed in range(20)]
    assert max(abs(value - 0.01) for value in moved) < 2.0**-15


@pytest.mark.parametrize("x", [-1.539, 1.539, -1.602, 1.602])
def test_what_a_step_of_rounding_makes_infinite_is_open(x):
    sine = Call("sin", (Var("x", "float16"),), "float16")
    assert not of_expr(Call("atanh", (sine,), "float16"), x=np.array(x, "float16")).defined["out"][0]


@pytest.mark.parametrize("expr", [lambda x: Call("exp10", (x,), x.dtype), lambda x: Binary("mul", x, x)])
def test_what_eight_bits_do_not_hold_is_open_where_they_are_computed_with(expr):
    found = of_expr(
        Cast("float32", expr(Cast("float8_e4m3fn", Var("x", "float32")))), x=np.array(448, "float32")
    )
    assert not found.defined["out"][0]


def test_an_axis_beyond_its_domain_defines_nothing():
    axis = Axis(Var("v"), Range(Const(0), Const(2)), "spatial", Var("i"))
    block = Block("b", (axis,), (), (), (Store("out", (Var("v"),), Const(1)),))
    out = Buffer("out", (Const(3),), "int32")
    for extent, reason in ((2, ""), (3, "an axis of block b is bound beyond its domain")):
        loop = For(Var("i"), Const(0), Const(extent), "serial", (block,))
        module = Module({"main": Function((out,), (loop,))})
        assert interpret(module, {"out": np.zeros(3, "int32")}).reason == reason


def test_a_block_that_writes_less_than_it_says_is_no_subject_of_schedules():
    region = Region("A", (Range(Const(0), Const(8)),))
    for condition, reason in ((Const(True, "bool"), ""), (INSIDE, "block b does not write all that it says")):
        block = Block("b", (), (), (region,), (If(condition, (Store("A", (I,), I),)),))
        module = Module({"main": Function((A,), (loop("serial", block),))})
        inputs = {"A": np.zeros(8, np.int32)}
        assert interpret(module, inputs).is_defined
        assert interpret(module, inputs, in_full=True).reason.startswith(reason)
        assert bool(reason) == bool(interpret(module, inputs, in_full=True).reason)


FIRST, SECOND = (Load("X", (Const(place),), "float16") for place in range(2))


def of_floats(value: Expr, dtype: str = "float16") -> tuple[Module, dict[str, Any]]:
    """A store of a value of `FIRST` = 2048 and `SECOND` = 0.5."""
    x, out = Buffer("X", (Const(2),), "float16"), Buffer("out", (Const(1),), dtype)
    module = Module({"main": Function((x, out), (Store("out", (Const(0),), value),))})
    return module, {"X": np.array([2048, 0.5], "float16"), "out": np.zeros(1, dtype)}


SUM = Binary("add", FIRST, SECOND)
ZERO = Const(0.0, "float16")
IDENTITIES = [
    (Binary("sub", SUM, FIRST), SECOND),
    (Binary("sub", SUM, SECOND), FIRST),
    (Binary("sub", FIRST, SUM), Binary("sub", ZERO, SECOND)),
    (Binary("sub", FIRST, FIRST), ZERO),
    (Binary("mul", ZERO, SUM), ZERO),
    (Binary("div", ZERO, FIRST), ZERO),
    (Binary("sub", SUM, ZERO), Binary("sub", SUM, ZERO)),
]


@pytest.mark.parametrize(("expr", "wanted"), IDENTITIES)
def test_identities_of_numbers_hold_for_floats_by_design(expr, wanted):
    assert by_identities(of_floats(expr)[0]) == of_floats(wanted)[0]


def test_what_follows_from_such_an_identity_is_left_open(tir_judge):
    """TVM's analyser gives 0.5 for `2048 + 0.5 - 2048`, and that is no mistake of its optimiser."""
    module, inputs = of_floats(Binary("sub", SUM, FIRST))
    assert interpret(module, inputs).outputs["out"][0] == 0
    assert tir_judge.verdict(Case("tir", to_bytes(module), inputs, tir_judge.target)).outcome is Outcome.PASS


def test_a_program_that_gives_what_nothing_wrote_is_invalid_and_no_fault_of_memory(tir_judge):
    """Its results hang on fresh memory by themselves."""
    fresh = Buffer("C", (Const(1),), "int32")
    out = Buffer("out", (Const(1),), "int32")
    store = Store("out", (Const(0),), Load("C", (Const(0),), "int32"))
    module = Module({"main": Function((out,), (Alloc(fresh), store))})
    case = Case("tir", to_bytes(module), {"out": np.zeros(1, "int32")}, tir_judge.target)
    assert not tir_judge.verdict(case).is_bug


def test_a_block_with_axes_uses_no_loop_around_it():
    axis = Axis(Var("v"), Range(Const(0), Const(8)), "spatial", I)
    for index, wrong in (("v", []), ("i", ["function main: block b uses the loop i around it"])):
        block = Block("b", (axis,), (), (), (Store("A", (Var(index),), Const(1)),))
        assert problems(Module({"main": Function((A,), (loop("serial", block),))})) == wrong


@pytest.mark.parametrize(
    ("reading", "orders", "is_defined"),
    [
        (I, [0, 1], True),  # what the first stage of the same round has written
        (Binary("bitxor", I, Const(1)), [0, 1], False),  # and what that of the next round writes
        (I, [1, 0], True),
    ],
)
def test_stages_of_a_pipeline_may_not_depend_on_a_later_one(reading, orders, is_defined):
    b = Buffer("B", (Const(8),), "int32")
    first = Block("first", (), (), (), (Store("B", (I,), PLUS),))
    second = Block("second", (), (), (), (Store("A", (I,), Load("B", (reading,), "int32")),))
    notes = {"software_pipeline_stage": [0, 1], "software_pipeline_order": orders}
    whole = Block("whole", (), (), (), (first, second))
    module = Module({"main": Function((A, b), (replace(loop("serial", whole), annotations=notes),))})
    found = interpret(module, {name: np.zeros(8, np.int32) for name in "AB"})
    assert found.reason == ("" if is_defined else "stages of a pipeline depend on each other")


D = Buffer("D", (Const(1),), "int32")
ZERO = Const(0)
FILL, USE = Store("D", (ZERO,), I), Store("A", (I,), Load("D", (ZERO,), "int32"))
DATA = Call("buffer_data", (BufferRef("D"),), pointer_to("int32"))


def doubled(*filling: Stmt) -> Attr:
    return Attr(DATA, "double_buffer_scope", Const(1), filling)


DOUBLED = {
    "filled and then used": ((doubled(FILL), USE), ""),
    "filled where a condition holds": ((If(INSIDE, (doubled(FILL),)), USE), "filled or used elsewhere"),
    "filled by what the round before gives": (
        (doubled(Store("D", (ZERO,), at(Binary("max", Binary("sub", I, Const(1)), ZERO)))), USE),
        "filled or used elsewhere",
    ),
    "filled beside another buffer": ((doubled(FILL, Store("A", (I,), I)), USE), "filled or used elsewhere"),
    "used before it is filled": ((USE, doubled(FILL)), "filled or used elsewhere"),
    "stored to where it is used": ((doubled(FILL), USE, FILL), "filled or used elsewhere"),
    "not filled in each round": ((doubled(If(Binary("lt", I, Const(4)), (FILL,))), USE), None),
}


@pytest.mark.parametrize("how", DOUBLED)
def test_a_double_buffer_is_filled_for_the_next_round_before_the_rest_of_a_round(how):
    body, reason = DOUBLED[how]
    found = run(Alloc(D), loop("serial", *body))
    assert found.is_defined == (reason == "")
    assert (reason or "") in found.reason


@pytest.mark.parametrize(
    ("shape", "strides", "is_modelled"),
    [
        ((), (), True),
        ((2, 3), (6, 2), True),
        ((2, 1), (7, 0), True),
        ((2, 3), (1, 2), False),
        ((1, 1), (0, 0), False),
    ],
)
def test_the_rows_of_fresh_memory_follow_each_other(shape, strides, is_modelled):
    fresh = Buffer("F", tuple(map(Const, shape)), "int32", strides=tuple(map(Const, strides)))
    assert run(Alloc(fresh), Store("F", (ZERO,) * len(shape), N)).is_modelled == is_modelled


def test_nothing_leaves_a_loop_that_is_annotated():
    left = loop("serial", If(INSIDE, (Evaluate(Call("break_loop", (), "void")),)))
    assert not run(left).reason
    assert "is left early" in run(replace(left, annotations={"pragma_auto_unroll_max_step": 4})).reason
