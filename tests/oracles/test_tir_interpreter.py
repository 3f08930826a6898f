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
    Range,
    Region,
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
    ("mul", "int64", 2**40, 2**40, None),
    ("div", "int32", -7, 2, -3),
    ("mod", "int32", -7, 2, -1),
    ("floordiv", "int32", -7, 2, -4),
    ("floormod", "int32", -7, 2, 1),
    ("floordiv", "int32", 1, 0, "an integer is divided by zero"),
    ("div", "int32", -(2**31), -1, "the least integer is divided by -1"),
    ("shl", "int32", 1, 32, None),
    ("shl", "int32", 1, -1, None),
    ("shl", "int32", 1, 31, None),
    ("shr", "int32", -8, 1, -4),
    ("div", "float32", 1, 0, INF),
    ("div", "float32", 1, -0.0, -INF),
    ("div", "float32", 0, 0, NAN),
    ("add", "float16", 2048, 1, 2048),
    ("max", "float32", 1, NAN, None),
    ("lt", "float32", 1, NAN, None),
    ("ne", "float32", NAN, NAN, True),
]


@pytest.mark.parametrize(("op", "dtype", "a", "b", "wanted"), TABLE)
def test_an_operator_gives(op, dtype, a, b, wanted):
    found = binary(op, dtype, a, b)
    if isinstance(wanted, float) and math.isnan(wanted):
        assert math.isnan(found)
    else:
        assert found == wanted


CASTS = [
    ("int32", -1, "uint8", 255),
    ("float32", -3.99, "int32", -3),
    ("float32", 1e10, "int32", None),
    ("float32", 256.0, "uint8", None),
    ("float64", 1e300, "float32", INF),
    ("float32", 0.5, "bool", True),
]


@pytest.mark.parametrize(("before", "value", "after", "wanted"), CASTS)
def test_a_cast_gives(before, value, after, wanted):
    found = of_expr(Cast(after, Var("x", before)), x=np.array(value, before))
    got = found.outputs["out"][0] if found.defined["out"][0] else None
    assert got == wanted


CALLS = [
    (Call("round", (Const(2.75, "float32"),), "float32"), 3.0),
    (Call("popcount", (Const(-1),), "int32"), 32),
    (Call("reinterpret", (Const(1.0, "float32"),), "int32"), 0x3F800000),
    (Unary("not", Const(True, "bool")), False),
    (Shuffle((literal(3, "int32x2"), Const(7)), (Const(2),)), 7),
]


@pytest.mark.parametrize(("expr", "wanted"), CALLS)
def test_an_expression_gives(expr, wanted):
    assert of_expr(expr).outputs["out"][0] == wanted


HALF, SINGLE = Var("x", "float16"), Var("x", "float32")
EIGHT_BITS = Cast("float8_e4m3fn", SINGLE)
ATANH_OF_SINE = Call("atanh", (Call("sin", (HALF,), "float16"),), "float16")
OPEN = [
    (Call("copysign", (Const(1.0, "float32"), SINGLE), "float32"), -0.0),
    (Call("reinterpret", (SINGLE,), "int32"), -0.0),
    *((ATANH_OF_SINE, x) for x in (-1.539, 1.602)),
    (Cast("float32", Call("exp10", (EIGHT_BITS,), "float8_e4m3fn")), 448),
    (Cast("float32", Binary("mul", EIGHT_BITS, EIGHT_BITS)), 448),
]


@pytest.mark.parametrize(("expr", "x"), OPEN)
def test_signs_of_zeros_and_what_rounding_or_the_type_makes_infinite_are_open(expr, x):
    dtype = "float16" if expr is ATANH_OF_SINE else "float32"
    found = [of_expr(expr, x=np.array(each, dtype)).defined["out"][0] for each in (x, 0.5)]
    assert found == [False, True]


def test_rough_results_have_slack_and_exact_ones_none():
    rough, exact = Call("exp", (SINGLE,), "float32"), Binary("mul", SINGLE, SINGLE)
    slack = [of_expr(expr, x=np.array(1.5, "float32")).slack["out"][0] for expr in (rough, exact)]
    assert 0 < slack[0] < 1e-3
    assert slack[1] == 0


A = Buffer("A", (Const(8),), "int32")
I, N = Var("i"), Var("n")  # noqa: E741


def run(*body: Stmt, **options: bool) -> Interpretation:
    """What a body does to the buffer `A` of zeros, with `n` = 3."""
    module = Module({"main": Function((A, N), body)})
    return interpret(module, {"A": np.zeros(8, np.int32), "n": np.array(3, np.int32)}, **options)


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


UNSET = Load("Y", (Const(0),), "int32")


@pytest.mark.parametrize(
    ("by", "is_defined"), [(Const(0), False), (Const(-1), False), (UNSET, False), (Const(3), True)]
)
def test_a_division_of_what_nothing_defines_may_end_the_process(by, is_defined):
    body = (Alloc(Buffer("Y", (Const(1),), "int32")), Evaluate(Binary("floormod", UNSET, by)))
    assert interpret(Module({"main": Function((), body)}), {}).is_defined == is_defined


def test_what_is_not_known_is_not_modelled():
    found = run(Evaluate(Call("tvm_warp_activemask", (), "int32")))
    assert not found.is_modelled
    assert "tvm_warp_activemask" in found.reason


samples = pytest.importorskip("tests.oracles.tir_samples")


NOT_RUN = {"attributed", "external", "symbolic", "threads", "launched", "intrinsics", "named"}


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


@pytest.mark.parametrize(("name", "least", "most"), [("atanh", 2.0**-10, 1), ("sin", 0, 2.0**-15)])
def test_rounding_is_as_large_as_the_numbers_that_a_small_result_comes_from(name, least, most):
    moved = [noisy(0.01, "float16", Noise(seed), name) for seed in range(20)]
    assert least < max(abs(value - 0.01) for value in moved) < most


@pytest.mark.parametrize(
    ("extent", "reason"), [(2, ""), (3, "an axis of block b is bound beyond its domain")]
)
def test_an_axis_beyond_its_domain_defines_nothing(extent, reason):
    axis = Axis(Var("v"), Range(Const(0), Const(2)), "spatial", I)
    block = Block("b", (axis,), (), (), (Store("A", (Var("v"),), Const(1)),))
    assert run(For(I, Const(0), Const(extent), "serial", (block,))).reason == reason


@pytest.mark.parametrize(
    ("condition", "reason"), [(Const(True, "bool"), ""), (INSIDE, "block b does not write all that it says")]
)
def test_a_block_that_writes_less_than_it_says_is_no_subject_of_schedules(condition, reason):
    region = Region("A", (Range(Const(0), Const(8)),))
    block = Block("b", (), (), (region,), (If(condition, (Store("A", (I,), I),)),))
    assert run(loop("serial", block)).is_defined
    found = run(loop("serial", block), in_full=True).reason
    assert found.startswith(reason)
    assert bool(found) == bool(reason)


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
    body = (
        Alloc(Buffer("C", (Const(1),), "int32")),
        Store("A", (Const(0),), Load("C", (Const(0),), "int32")),
    )
    module = Module({"main": Function((A,), body)})
    assert not tir_judge.verdict(Case("tir", to_bytes(module), {"A": np.zeros(8, "int32")})).is_bug


def test_a_block_with_axes_uses_no_loop_around_it():
    axis = Axis(Var("v"), Range(Const(0), Const(8)), "spatial", I)
    block = Block("b", (axis,), (), (), (Store("A", (I,), Const(1)),))
    found = problems(Module({"main": Function((A,), (loop("serial", block),))}))
    assert found == ["function main: block b uses the loop i around it"]


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
