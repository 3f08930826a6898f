"""torch, inductor and torch's exporters: lowerings, torch's own operators, programs of the format `torch`."""

from collections.abc import Iterator
from functools import partial

import ml_dtypes
import numpy as np
import pytest

from corpus.case import Case
from corpus.graphs.program import Binding
from corpus.target import Target
from corpus.values import Value
from generators.strategies.fresh import COMPANIONS
from oracles.judge import Judge
from oracles.numerics.compare import Tolerance
from oracles.numerics.rewrites import left_open_by_graph
from oracles.probes.wrong_side import RUNNER, WRITTEN, is_exported, say_whose
from oracles.sandbox.sandbox import Job, Sandbox
from oracles.verdict import Config, Mark, Outcome, Phase, Run, Status, Verdict
from reducer.pass_sets import find_pass_set
from tests.helpers.models import aten_case, graph_case, graph_of, ref
from tests.helpers.models import case_of as on_any_target


def case_of(graph: str, inputs: dict[str, Value], *, opset: int = 18) -> Case:
    return on_any_target(f"g {graph}", opset=opset, target=Target("torch"), **inputs)


def some(*shape: int) -> np.ndarray:
    return (np.arange(np.prod(shape), dtype=np.float32).reshape(shape) - 5) / 3


ROW = some(2, 6)
LOWERINGS = {
    "a slice backwards": (
        "(float[2,6] x) => (y) <int64[1] a = {-1}, int64[1] e = {-9}, int64[1] t = {1}, int64[1] s = {-2}>"
        " { y = Slice(x, a, e, t, s) }",
        {"x": ROW},
    ),
    "a convolution": (
        "(float[1,2,5,5] x, float[3,2,3,3] w) => (y)"
        ' { y = Conv<auto_pad = "SAME_UPPER", strides = [2, 2]>(x, w) }',
        {"x": some(1, 2, 5, 5), "w": some(3, 2, 3, 3)},
    ),
    "a reflection": (
        '(float[4] x) => (y) <int64[2] p = {2, 2}> { y = Pad<mode = "reflect">(x, p) }',
        {"x": some(4)},
    ),
    "quotients of integers": (
        "(int32[3] a, int32[3] b) => (y, z) { y = Div(a, b) z = Mod(a, b) }",
        {"a": np.int32([-7, 7, 9]), "b": np.int32([2, -2, 4])},
    ),
    "blocks": (
        '(float[1,4,2,2] x) => (y) { y = DepthToSpace<blocksize = 2, mode = "CRD">(x) }',
        {"x": some(1, 4, 2, 2)},
    ),
    "a sum backwards": (
        "(float[4] x) => (y) <int64 a = {0}> { y = CumSum<exclusive = 1, reverse = 1>(x, a) }",
        {"x": some(4)},
    ),
    "a float that numpy lacks": ("(float[2] x) => (bfloat16[2] y) { y = Cast<to = 16>(x) }", {"x": some(2)}),
}


@pytest.mark.parametrize(("graph", "inputs"), LOWERINGS.values(), ids=LOWERINGS)
def test_a_lowering_agrees_with_onnxruntime(torch_judge, graph, inputs):
    verdict = torch_judge.verdict(case_of(graph, inputs))
    assert verdict.outcome is Outcome.PASS, verdict.title
    assert all(run.is_ok for run in verdict.runs)


def test_what_has_no_lowering_is_unsupported_and_named(torch_judge):
    verdict = torch_judge.verdict(
        case_of("(float[3] x) => (float[3] y) { y = Bernoulli(x) }", {"x": some(3)})
    )
    assert verdict.outcome is Outcome.UNSUPPORTED
    assert "Bernoulli" in verdict.title


def test_compiled_code_that_divides_by_zero_is_a_crash(inductor_judge):
    zero = {"a": np.int32([6]), "b": np.int32([0])}
    verdict = inductor_judge.verdict(
        case_of("(int32[1] a, int32[1] b) => (int32[1] y) { y = Div(a, b) }", zero)
    )
    assert verdict.outcome is Outcome.CRASH, verdict.title
    assert (verdict.symptom.kind, verdict.runs[-1].config.label) == ("SIGFPE", "inductor")


# Programs of torch's own operators: called as they are, judged on inductor, unsupported elsewhere

EAGER = (Config("eager"),)


def declaration(value: np.ndarray) -> str:
    name = "float" if value.dtype == np.float32 else value.dtype.name
    return f"{name}[{','.join(map(str, value.shape))}]"


QUOTIENT = aten_case(
    "(float[2] a, float[2] b) => (float[2] y) { y = aten.floor_divide(a, b) }",
    {"a": np.float32([1, 6]), "b": np.float32([0.1, 0.2])},
)
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    ("body", "inputs", "expected"),
    [
        ("aten.floor_divide(x, z)", {"x": np.int32([-7, 7]), "z": np.int32([2, 2])}, np.int32([-4, 3])),
        ("aten.index_select<dim = 1>(x, z)", {"x": X, "z": np.array([2, 0])}, X[:, [2, 0]]),
        ("aten.any<dim = [0, 1], keepdim = 1>(x)", {"x": X}, np.array([[True]])),
        ("aten.var<dim = [1], correction = 0>(x)", {"x": X}, X.var(1)),
        ("aten.clamp_min<min = 2.0>(x)", {"x": X}, np.maximum(X, 2)),
        ("aten.index(x, , z)", {"x": X, "z": np.array([2, 0])}, X[:, [2, 0]]),
        ("aten.index_put<accumulate = 1>(x, z, x)", {"x": X, "z": np.array([1, 0])}, X + X[::-1]),
        ("aten._to_copy<dtype = 6>(x)", {"x": X}, X.astype("int32")),
        ("aten.view<dtype = 6>(x)", {"x": X}, X.view("int32")),
    ],
)
def test_attributes_and_operands_find_their_places_in_the_schema(torch_sandbox, body, inputs, expected):
    declared = ", ".join(f"{declaration(value)} {name}" for name, value in inputs.items())
    case = aten_case(f"({declared}) => (float[] y) {{ y = {body} }}", inputs)
    (run,) = torch_sandbox.run(Job(case.program, case.inputs, EAGER))
    assert run.is_ok, run.message
    assert run.outputs["y"].dtype == expected.dtype
    np.testing.assert_array_equal(run.outputs["y"], expected)


@pytest.mark.parametrize("body", ["aten.no_such_operator(x)", "aten.flip(x)", "aten.flip<dims = [0]>(x, x)"])
def test_what_no_overload_takes_is_unsupported(inductor_judge, body):
    verdict = inductor_judge.verdict(
        aten_case(f"(float[2,3] x) => (float[2,3] y) {{ y = {body} }}", {"x": X})
    )
    assert verdict.outcome is Outcome.UNSUPPORTED


@pytest.mark.parametrize("target", ["ort", "reference", pytest.param("tvm", marks=pytest.mark.slow)])
def test_another_target_does_not_support_them(target):
    pytest.importorskip({"ort": "onnxruntime", "reference": "onnx", "tvm": "tvm_ffi"}[target])
    with Judge(Target(target)) as judge:
        assert judge.verdict(QUOTIENT).outcome is Outcome.UNSUPPORTED


def test_companions_have_a_lowering(torch_sandbox):
    for name in sorted(COMPANIONS):
        case = case_of(f"(float[2] x) => (float[2] y) {{ y = {name}(x) }}", {"x": np.float32([1, 2])})
        (run,) = torch_sandbox.run(Job(case.program, case.inputs, EAGER))
        assert run.is_ok or "has no lowering" not in run.message


def test_a_dim_that_has_a_name_is_compiled_as_a_symbol(torch_sandbox, inductor_judge):
    graph = "(float[2,n] x, float[m] z) => (float[n] y) { y = aten.sum<dim = [0]>(x) }"
    case = aten_case(graph, {"x": X, "z": X[0]})
    way = (Config("source", (("show", "source"),)),)
    (run,) = torch_sandbox.run(Job(case.program, case.inputs, way))
    assert run.outputs["dims"].tolist() == [[0, 1]]
    assert inductor_judge.verdict(case).outcome is Outcome.PASS


def test_quotients_of_exact_inputs_that_are_rounded_otherwise_are_wrong(inductor_judge):
    """What flows in is exact, so that no rounding explains another quotient."""
    verdict = inductor_judge.verdict(QUOTIENT)
    if verdict.outcome is Outcome.PASS:
        pytest.skip("the installed release does not show the bug")
    assert verdict.outcome is Outcome.MISMATCH
    assert (verdict.wrong.side, verdict.wrong.truth) == ("optimised", "eager in float64")


ROUNDED = "(float[4] x, float[4] z) => (y) { s = Sin(x) t = Mul(s, z) y = aten.floor_divide(t, s) }"
FAR = "(int8[3] x, int8[3] z) => (y) { y = aten.bitwise_left_shift(x, z) }"


@pytest.mark.parametrize(
    ("graph", "x", "z"),
    [
        (ROUNDED, np.float32([0.3, 0.7, 1.1, 2.9]), np.float32([3, 5, 7, 9])),
        (FAR, np.int8([1, -3, 7]), np.int8([8, 100, -1])),
    ],
    ids=["rounding", "the text"],
)
def test_what_rounding_or_the_text_leaves_open_is_no_bug(inductor_judge, graph, x, z):
    assert not inductor_judge.verdict(aten_case(graph, {"x": x, "z": z})).is_bug


# What of inductor a failure takes: by torch's own hooks, told by subsystem and application


@pytest.mark.slow
def test_the_lowering_that_a_failure_takes_is_named(inductor_judge):
    graph = "g (int32[2] a, int32[2] b) => (int32[2] y) { s = Neg(a) y = Div(s, b) }"
    inputs = {"a": np.int32([6, 7]), "b": np.int32([0, 2])}
    case = on_any_target(graph, target=inductor_judge.target, **inputs)
    verdict = inductor_judge.verdict(case)
    if not verdict.is_bug:
        pytest.skip("the installed torch does not show the bug")
    found = find_pass_set(inductor_judge, case, verdict)
    assert (found.level, found.minimal, found.unique) == ("inductor", ("lowerings.div",), True)
    assert {"joint_graph_passes.remove_noop_ops", "lowerings.neg"} <= set(found.fired)
    assert found.checks <= 12


# Programs of the format `torch`: writes, memory, element types, what is open

TRACED = Target.parse("inductor@backend=aot_eager")


@pytest.fixture(scope="module")
def traced_judge() -> Iterator[Judge]:
    pytest.importorskip("torch", reason="torch is not installed")
    with Judge(TRACED, format="torch") as found:
        yield found


traced_case = partial(graph_case, "torch", target=TRACED)

ONES: dict[str, Value] = {"x": np.ones((2, 3), np.float32)}


def test_a_result_written_to_later_is_what_a_caller_gets(traced_judge):
    steps = (
        Binding("y", "operator.add", (ref("x"), 1)),
        Binding("v", "Tensor.view", (ref("y"), 6)),
        Binding("z", "Tensor.mul_", (ref("v"), 3)),
    )
    case = traced_case(ONES, *steps, outputs=("y",))
    verdict = traced_judge.verdict(case)
    assert verdict.outcome is Outcome.PASS
    assert float(np.max(np.asarray(verdict.runs[0].outputs["y"]))) == 6


def test_an_input_that_is_written_to_is_compared_too(traced_judge):
    case = traced_case(ONES, Binding("y", "Tensor.add_", (ref("x"), 1)), outputs=("y",))
    for run in traced_judge.runs(case, traced_judge.configs):
        assert list(run.outputs) == ["y", "x afterwards"]
        assert float(np.min(np.asarray(run.outputs["x afterwards"]))) == 2


def test_float8_and_conjugates_come_through(traced_judge):
    inputs: dict[str, Value] = {"x": np.ones(2, ml_dtypes.float8_e5m2), "c": np.array([1 + 2j], np.complex64)}
    steps = (
        Binding("y", "Tensor.to", (ref("x"), {"dtype": "float32"})),
        Binding("z", "Tensor.to", (ref("y"), {"dtype": "float8_e4m3fn"})),
        Binding("d", "Tensor.conj", (ref("c"),)),
    )
    verdict = traced_judge.verdict(traced_case(inputs, *steps, outputs=("y", "z", "d")))
    assert verdict.outcome is Outcome.PASS
    assert np.asarray(verdict.runs[0].outputs["z"]).dtype.name == "float8_e4m3fn"
    assert np.asarray(verdict.runs[0].outputs["d"]).tolist() == [1 - 2j]


def test_inputs_lie_in_memory_as_the_program_says(traced_judge):
    step = Binding("y", "torch.as_strided", (ref("x"), [6], [1]))
    inputs: dict[str, Value] = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    case = traced_case(inputs, step, outputs=("y",), layout={"layout": [[1, 1], [0, 1]]})
    (run,) = traced_judge.runs(case, traced_judge.configs[:1])
    assert np.asarray(run.outputs["y"]).tolist() == [0, 3, 1, 4, 2, 5]


@pytest.mark.parametrize(
    ("value", "op", "word"),
    [
        (300.0, "Tensor.to", "integer"),
        (-1.0, "Tensor.byte", "integer"),
        (100.0, "Tensor.to", ""),
        (300.0, "Tensor.view", ""),
    ],
)
def test_a_float_beyond_the_integer_it_becomes_leaves_the_result_open(value, op, word):
    kind = np.dtype(np.uint8 if op == "Tensor.byte" else np.int8)
    values: dict[str, Value] = {"x": np.array([value], np.float32), "y": np.zeros(1, kind)}
    program = graph_of("torch", {"x": values["x"]}, Binding("y", op, (ref("x"),)), outputs=("y",))
    assert word in left_open_by_graph(program, {"x", "y"}, values)
    assert bool(left_open_by_graph(program, {"x", "y"}, values)) == bool(word)


@pytest.mark.slow
def test_memory_that_nobody_wrote_to_leaves_the_result_open():
    made = Binding("y", "torch.empty", (3,))
    filled = Binding("z", "Tensor.fill_", (ref("y"), 1))
    for steps, is_open in [((made,), True), ((made, filled), False)]:
        program = graph_of("torch", ONES, *steps, outputs=("y",))
        assert bool(left_open_by_graph(program, {"y"}, {})) == is_open


@pytest.mark.slow
def test_a_cache_that_the_environment_names_is_not_asked_for(monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/nowhere/that/can/be/made")
    with Sandbox("inductor") as own:
        assert own.facts["version"]


# Many programs that torch compiles as one graph give what each gives alone; no failure rests on others

TAKEN = aten_case("(float[2,3] x, int64 i) => (float y) { y = aten.take(x, i) }", {"x": X, "i": np.array(4)})
REFUSED = aten_case("(float[2,3] x) => (float[2,3] y) { y = aten.no_such_operator(x) }", {"x": X})


def sound(body: str, of: float = 1):
    return aten_case(
        f"(float[2,3] x) => (float[] y) <float[1] two = {{2}}> {{ z = Mul(x, two) y = {body} }}",
        {"x": X * of},
    )


SOUND = [
    sound("aten.flip<dims = [1]>(z)"),
    sound("aten.softmax<dim = 1>(z)", 2),
    sound("aten.var<dim = [1], correction = 0>(z)", 3),
    sound("aten.cumsum<dim = 0>(z)", 4),
]


def test_each_program_gives_what_it_gives_alone_and_a_failing_one_is_left_alone(inductor_judge):
    optioned = SOUND[3].with_passes(("config.epilogue_fusion=0",))
    cases = [SOUND[0], QUOTIENT, SOUND[1], TAKEN, REFUSED, SOUND[2], optioned]
    looks = inductor_judge.look(cases, thorough={2})
    verdicts = [inductor_judge.verdict(case) for case in cases]
    for case, look, verdict in zip(cases, looks, verdicts, strict=True):
        assert (look is not None) == (verdict.outcome is Outcome.PASS), verdict.title
        if look is not None:
            assert len(look.runs) == (4 if case is cases[2] else 2)
            for run in look.runs:
                np.testing.assert_allclose(run.outputs["y"], verdict.runs[0].outputs["y"], rtol=1e-5)
    assert sum(look is not None for look in looks) >= 4


# torch's ONNX exporters as a target: what they export gives what eager torch gives


@pytest.mark.slow
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_what_is_exported_gives_the_same(exporter):
    pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    text = "g (float[2,3] x) => (float[3,2] y) { a = Relu(x) b = Exp(a) y = Transpose(b) }"
    with Judge(Target.parse(f"torch-onnx@exporter={exporter}")) as judge:
        verdict = judge.verdict(on_any_target(text, x=np.ones((2, 3), "float32")))
    assert verdict.outcome is Outcome.PASS, verdict.title
    assert [run.config.label for run in verdict.runs] == ["eager", exporter]


def gave(label: str, value: float | None, phase: Phase = Phase.EXECUTE) -> Run:
    """A run that gives one number, or raises."""
    if value is None:
        return Run(Config(label), Status.EXCEPTION, phase, error="ValidationError", message="no such type")
    return Run(Config(label), Status.OK, phase, outputs={"y": np.float32([value])})


@pytest.mark.parametrize(
    ("failing", "independent", "said", "is_elsewhere"),
    [
        (2.0, 2.0, WRITTEN, False),
        (2.0, 1.0, RUNNER, True),
        (2.0, 3.0, "a third result", False),
        (2.0, None, "does not decide", False),
        (None, None, WRITTEN, False),
        (None, 1.0, RUNNER, True),
    ],
)
def test_an_independent_run_says_whether_the_exporter_or_the_runner_is_wrong(
    failing, independent, said, is_elsewhere
):
    outcome = Outcome.EXCEPTION if failing is None else Outcome.MISMATCH
    verdict = Verdict(outcome, Phase.EXECUTE, "t", runs=(gave("eager", 1.0), gave("dynamo", failing)))
    notes = say_whose(verdict, gave("dynamo, by ONNX's reference evaluator", independent), Tolerance())
    assert said in notes.texts[0]
    assert (Mark.ELSEWHERE in notes.marks) is is_elsewhere


def test_what_the_exporter_itself_raises_is_asked_of_nobody_else():
    raised = (gave("eager", 1.0), gave("dynamo", None, Phase.OPTIMISE))
    assert not is_exported(Verdict(Outcome.EXCEPTION, Phase.OPTIMISE, "t", runs=raised))
    refused = (gave("eager", 1.0), gave("dynamo", None))
    assert is_exported(Verdict(Outcome.EXCEPTION, Phase.EXECUTE, "t", runs=refused))
