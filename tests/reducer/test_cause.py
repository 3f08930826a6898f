"""A reduction keeps the cause: misuse of memory whichever way it ends, passes, operands that are distinct."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from corpus.case import Case
from corpus.formats.onnx import parse
from corpus.target import Target
from corpus.tir.program import to_json
from corpus.tir.tree import Bind, For, Function, Module, Stmt
from corpus.tir.values import Const, Var
from oracles.backends import backends
from oracles.judge import Judge
from oracles.probes.memory import POISONS, UNINITIALISED, misuse, with_misuse
from oracles.sandbox.processes import guard
from oracles.verdict import Mark, Outcome, Phase, Symptom, Verdict, kind_of_misuse
from reducer.api import reduce_case
from reducer.course import DoesNotFail, Options
from reducer.move import Hints
from reducer.moves import plain_moves
from reducer.pass_sets import core_at, failing_config, is_of_passes, is_within
from reducer.subject.onnx.subject import OnnxSubject
from tests.helpers.failing import model
from tests.reducer import corrupting
from tests.reducer.driving import case_of, drive, model_of, operators, subject_of

CORRUPTING = Options(target=Target(corrupting.NAME))
CHAIN = """g (float[3] x) => (float[3] y) {
    a = Neg (x) b = Sqrt (a) c = Abs (x) d = Erf (c) e = Exp (d) y = Tanh (e) }"""

needs_guard = pytest.mark.skipif(guard()[0] is None, reason=guard()[1])


@pytest.fixture
def corrupting_judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[Judge]:
    monkeypatch.setitem(backends(), corrupting.NAME, corrupting.backend())
    with Judge(CORRUPTING.target) as judge:
        yield judge


def chain() -> Case:
    return case_of(model_of(CHAIN), {"x": np.ones(3, np.float32)})


@needs_guard
def test_a_misuse_of_memory_that_ends_in_turns_is_reduced_by_what_the_guard_shows(corrupting_judge, tmp_path):
    for number in range(20):
        try:
            reduction = reduce_case(chain(), tmp_path / str(number), CORRUPTING, judge=corrupting_judge)
        except DoesNotFail:  # by chance nothing came of it
            continue
        if reduction.verdict and Mark.MEMORY in reduction.verdict.marks:
            break  # else by chance it ended in wrong values twice, which nobody takes for memory
    assert operators(parse(reduction.case.program)) == ["Erf"]
    assert reduction.is_minimal
    assert reduction.verdict.marks[Mark.MEMORY] == "memory: write beyond a block of 40 bytes"
    assert 0 < reduction.rate <= 1
    if reduction.rate < 1:  # as good as always: three of five runs show it
        assert dict(reduction.signature.components)["signal"] == "memory: write beyond"


@needs_guard
def test_the_guard_says_what_a_run_does_to_memory_and_nothing_of_one_that_is_right(corrupting_judge):
    plain, fast = corrupting_judge.configs
    assert misuse(corrupting_judge.executor, chain(), fast) == "write beyond a block of 40 bytes"
    assert misuse(corrupting_judge.executor, chain(), plain) == ""
    assert kind_of_misuse("write beyond a block of 40 bytes") == "write beyond"
    assert kind_of_misuse("freed twice: a block of 40 bytes") == "freed twice"


def test_a_result_that_hangs_on_what_fresh_memory_holds_is_said_to_read_uninitialised_memory(
    corrupting_judge: Judge,
) -> None:
    case = case_of(model_of("g (float[3] x) => (float[3] y) { y = Sign (x) }"), {"x": np.ones(3, np.float32)})
    plain, fast = corrupting_judge.configs
    executor = corrupting_judge.executor
    assert misuse(executor, case, fast) == UNINITIALISED
    assert misuse(executor, case, plain) == ""
    one, other = (executor.poisoned(case, fast, poison) for poison in POISONS)
    verdict = Verdict(
        Outcome.MISMATCH, Phase.COMPARE, "", Symptom(Outcome.MISMATCH, Phase.COMPARE, "value"), (one, other)
    )
    assert with_misuse(executor, case, verdict).marks[Mark.MEMORY] == f"memory: {UNINITIALISED}"


@pytest.mark.parametrize(
    ("kind", "message", "is_of_memory"),
    [
        ("SIGSEGV", "", True),
        ("SIGABRT", "double free or corruption (out)", True),
        ("SIGABRT", "malloc_consolidate(): unaligned fastbin chunk detected", True),
        ("SIGABRT", "Check failed: dims.size() == 2", False),
        ("SIGFPE", "", False),
    ],
)
def test_the_ways_in_which_damaged_memory_ends_a_process(kind, message, is_of_memory):
    assert Symptom(Outcome.CRASH, Phase.EXECUTE, kind, message=message).is_of_memory is is_of_memory


QUOTIENT = """g (int32[3] x, int32[3] z) => (int32[3] y) <int32[1] one = {1}> {
    q = Div (one, x) y = Mul (q, z) }"""


def test_a_pass_that_comes_to_replace_something_else_is_another_bug(judge, tmp_path, monkeypatch):
    inputs = {"x": np.array([2, 3, 4], np.int32), "z": np.array([10, 20, 30], np.int32)}
    text = QUOTIENT.replace("q = Div (one, x)", "a = Abs (x) q = Div (one, a)")
    case = replace(case_of(model_of(text), inputs), target=Target("ort"))
    found = core_at(case, failing_config(judge.verdict(case), judge), ("DivMulFusion",), judge)
    assert found
    assert is_within(found, found)
    assert not is_within(found, "-Relu")

    def core(case: Case, *_: object) -> str:
        return found if "Abs" in case.measure.ops else "-Relu"

    options = Options(target=Target("ort"))
    assert reduce_case(case, tmp_path / "as it is", options).after.nodes == 2
    for place in ("reducer.session", "reducer.engine.predicates"):
        monkeypatch.setattr(f"{place}.core_at", core)
    assert reduce_case(case, tmp_path / "another", options).after.nodes == 3


def plain(judge: Judge, name: str, case: Case, still_fails: bool = True, **hints: Any) -> OnnxSubject:
    (move,) = [each for each in plain_moves(OnnxSubject) if each.name == name]
    driven = drive(move, subject_of(judge, case), lambda model, inputs: still_fails, Hints(**hints))
    return driven.subject


def test_dims_of_1_beside_others_get_one_size_at_each_place(judge):
    text = "g (float[2,1] x, float[2,1] s) => (float[2,1] y) { y = LayerNormalization (x, s) }"
    found = plain(judge, "spread dims", case_of(model_of(text)))
    assert [np.shape(value) for value in found.inputs.values()] == [(2, 3), (2, 3)]


@pytest.mark.parametrize(("declared", "rank"), [("K,L,M", 2), ("K,L", 2)])
def test_an_output_that_nothing_infers_is_declared_with_the_rank_that_it_has(judge, declared, rank):
    text = f"g (float[2,3] x, int64[1] axes) => (float[{declared}] y) {{ y = ReduceMin (x, axes) }}"
    header = '<ir_version: 8, opset_import: ["": 20]>'
    case = case_of(model_of(text, header), {"x": np.ones((2, 3), "f4"), "axes": np.int64([1])})
    (y,) = plain(judge, "declare ranks", case).model.graph.output
    assert len(y.type.tensor_type.shape.dim) == rank


def test_what_holds_elements_is_not_emptied(judge):
    text = "g (float[3] x) => (float[K] y) <int64[1] k = {2}> { y, i = TopK (x, k) }"
    subject = subject_of(judge, case_of(model_of(text)))
    emptied = subject.with_tensors({"k": np.zeros(1, np.int64)})
    assert (subject.is_emptied, emptied.is_emptied) == (False, True)


def test_dims_stay_where_neither_the_target_nor_the_reference_runs_the_program(judge, tmp_path):
    made = model([("Min", ["x", ""], ["y"])], {"x": (1, [1])}, {"y": (1, [1])})
    case = Case("onnx", made.SerializeToString(), {"x": np.zeros(1, np.float32)}, Target("ort"))
    if judge.verdict(case).outcome is not Outcome.CRASH:
        pytest.skip("this release of onnxruntime says that an operand is missing")
    done = reduce_case(case, tmp_path / "out", Options(target=Target("ort")))
    assert [np.shape(value) for value in done.case.inputs.values()] in ([(1,)], [()], [])


def test_operands_of_equal_values_get_values_of_their_own(judge):
    text = "g (float[2] x, float[2] z) => (float[2] y) { y = Add (x, z) }"
    case = case_of(model_of(text), {name: np.zeros(2, np.float32) for name in "xz"})
    found = plain(judge, "distinguish values", case)
    assert {name: set(np.ravel(value)) for name, value in found.inputs.items()} == {"x": {0.0}, "z": {2.0}}


def test_a_gradient_of_another_shape_than_the_result_is_no_valid_program():
    relax = pytest.importorskip("tvm.relax")
    inferred = pytest.importorskip("oracles.worker.tvm.inferred")

    def module(rows: int) -> object:
        x, gradient = (
            relax.Var(name, relax.TensorType(shape, "float32"))
            for name, shape in (("x", (1, 2, 4, 4)), ("g", (1, 2, rows, 3)))
        )
        builder = relax.BlockBuilder()
        with builder.function("main", [gradient, x]):
            back = relax.op.grad.max_pool2d_backward(gradient, x, pool_size=(2, 2))
            builder.emit_func_output(builder.emit(back))
        return builder.get()

    assert inferred.misfit(module(3)) == ""
    assert inferred.misfit(module(5)).startswith("relax.grad.max_pool2d_backward takes a gradient of ")


CONDITION = """def main(x: R.Tensor((2,), "float32"), c: R.Tensor({}, "bool")) -> R.Tensor((2,), "float32"):
        if c:
            y: R.Tensor((2,), "float32") = x
        else:
            y: R.Tensor((2,), "float32") = R.negative(x)
        return y
"""
RETURNED = """def main(x: R.Tensor(({}, 1), "float32")) -> R.Tensor((3, 1), "float32"):
        return x
"""


@pytest.mark.parametrize(
    ("text", "dims", "complaint"),
    [
        (CONDITION, "()", ""),
        (CONDITION, "(5,)", "an If takes a condition of "),
        (RETURNED, "3", ""),
        (RETURNED, "4", "a function returns "),
    ],
)
def test_a_condition_is_one_truth_value_and_a_function_returns_what_it_declares(text, dims, complaint):
    tvm = pytest.importorskip("tvm")
    inferred = pytest.importorskip("oracles.worker.tvm.inferred")
    head = "@I.ir_module\nclass Module:\n    @R.function\n    "
    found = inferred.misfit(tvm.script.from_source(head + text.format(dims)))
    assert found.startswith(complaint)
    assert bool(found) is bool(complaint)


def test_loops_that_read_a_name_out_of_its_scope_are_no_valid_program_to_tvm():
    pytest.importorskip("tvm")
    run = pytest.importorskip("oracles.worker.tvm.tir.run")
    inner, outer = Bind(Var("x"), Var("i")), Bind(Var("y"), Var("x"))

    def module(inside: tuple[Stmt, ...], *after: Stmt) -> Any:
        return to_json(
            Module({"main": Function((), (For(Var("i"), Const(0), Const(8), "serial", inside), *after))})
        )

    assert run.describe(module((inner, outer))) == {}
    assert run.describe(module((inner,), outer))["error"]


@pytest.mark.parametrize("still_fails", [True, False])
def test_operands_that_were_distinct_are_so_again_unless_the_failure_needs_one_for_both(judge, still_fails):
    merged = "g (float[2] x) => (float[2] y) { a = Neg (x) y = Add (a, a) }"
    operands = {"a": ("x",), "y": ("a", "b")}
    found = plain(judge, "separate operands", case_of(model_of(merged)), still_fails, operands=operands)
    left, right = found.nodes[-1].input
    assert (left != right) is still_fails
    assert set(found.inputs) == ({"x", "x0"} if still_fails else {"x"})


def test_a_result_keeps_the_passes_of_the_original_and_its_operands_apart(judge, tmp_path):
    text = """g (int32[3] x, int32[3] z) => (int32[3] y) <int32[1] one = {1}> {
        s = Abs (x) q = Div (one, s) m = Mul (q, z) y = Neg (m) }"""
    inputs = {"x": np.array([2, 3, 4], np.int32), "z": np.array([10, 20, 30], np.int32)}
    case = case_of(model_of(text), inputs)
    reduction = reduce_case(case, tmp_path / "out", Options(), judge=judge)
    program = parse(reduction.case.program)
    assert operators(program) == ["Div", "Mul"]
    assert is_of_passes(judge, case, judge.verdict(case), reduction.passes.minimal)
    read = [name for node in program.graph.node for name in node.input]
    assert len(set(read)) == len(read)
    assert all(np.size(value) > 1 for value in reduction.case.inputs.values())
