"""IREE, OpenVINO, TVM and XLA as targets: models on the CPU, held against un-optimised onnxruntime."""

from collections import Counter
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest

from corpus.target import Target
from corpus.values import Value
from generators.legality import Legality
from generators.mixture import Plan, make_cases
from oracles.backends import find_backend
from oracles.backends.iree import _in_short
from oracles.judge import Judge
from oracles.numerics.mismatch_kind import exceeds
from oracles.verdict import Outcome, Phase, Verdict
from oracles.worker.xla.module import changed_by, flags_of
from tests.helpers.commands import needs
from tests.helpers.models import case_of, of_many_types
from triage.causes.consequences import find_root

F4 = np.ones(2, "float32")
PACKAGES = {"iree": "iree", "openvino": "openvino", "xla": "jax"}
openvino, xla = find_backend("openvino"), find_backend("xla")
case = partial(case_of, opset=17, ir=8)


@pytest.fixture(scope="module")
def judge(request: pytest.FixtureRequest) -> Iterator[Judge]:
    with Judge(Target(request.param)) as found:
        yield found


def on(name: str) -> pytest.MarkDecorator:
    """A test that a judge of this target is given."""
    return pytest.mark.parametrize("judge", [pytest.param(name, marks=needs(PACKAGES[name]))], indirect=True)


ON_EACH = pytest.mark.parametrize(
    "judge", [pytest.param(name, marks=needs(package)) for name, package in PACKAGES.items()], indirect=True
)


@ON_EACH
def test_every_type_comes_back_as_it_is_declared(judge):
    """OpenVINO has no float64, which a part of the program says."""
    verdict = judge.verdict(of_many_types(judge.target))
    wanted = Outcome.UNSUPPORTED if judge.target.backend == "openvino" else Outcome.PASS
    assert verdict.outcome is wanted, verdict.title


SIZES = """(float[2,3] x, int64[k] s) => (float[m,n] y) {
    one = Constant<value = int64[1] {1}>() t = Mul(s, one) y = Reshape(x, t) }"""
FACTORS = """(float[2] x) => (float[2] y) { c = Constant<value = float {1e30}>()
    t = Mul(x, c) y = Mul(t, c) }"""
PASS, LACKS, WRONG = Outcome.PASS, Outcome.UNSUPPORTED, Outcome.MISMATCH
X2, Y2 = "(float[2] x)", "(float[2] y)"
CLIP = "(uint8[1] x, uint8 m) => (uint8[1] y) { y = Clip(x, , m) }"
TWO_RESULTS = "(float[2] x, int64[3] i) => (float[2] y, int64[3] j) { y = Abs(x) j = Neg(i) }"
AXES = "(float[2,3] x) => (float[1,3] y) { y = ReduceLogSum <axes=[0]> (x) }"
NORM = f"{X2} => {Y2} {{ y = LpNormalization<p=2, axis=0>(x) }}"
LONG = "(int64[1] x) => (int64[1] y)"
DOES = {
    ("iree", "no lowering"): (f"{X2} => {Y2} {{ y = Swish(x) }}", {"x": F4}, LACKS),
    ("iree", "a crash of the importer"): (
        f"{X2} => (float[n] y) {{ y = Unique(x) }}",
        {"x": F4},
        Outcome.CRASH,
    ),
    ("iree", "a wrong value"): (CLIP, {"x": np.uint8([7]), "m": np.uint8(255)}, WRONG),
    ("openvino", "two results"): (TWO_RESULTS, {"x": F4, "i": np.int64([1, 2, 3])}, PASS),
    ("openvino", "float64"): ("(double[2] x) => (double[2] y) { y = Relu(x) }", {"x": np.ones(2)}, LACKS),
    ("openvino", "no rule"): (
        "(float[2,2] x) => (float y) { y = Det(x) }",
        {"x": np.eye(2, dtype="f4")},
        LACKS,
    ),
    ("openvino", "beyond int32"): (f"{LONG} {{ y = Mul(x, x) }}", {"x": np.int64([1 << 40])}, PASS),
    ("openvino", "least"): (f"{LONG} {{ y = Abs(x) }}", {"x": np.int64([-(2**63)])}, PASS),
    ("openvino", "clamped"): ("(uint8[1] x) => (uint8[1] y) { y = Add(x, x) }", {"x": np.uint8([200])}, PASS),
    ("openvino", "renamed input"): (f"{X2} => {Y2} {{ a = Dropout(x) y = Neg(a) }}", {"x": F4}, PASS),
    ("openvino", "axes by attribute"): (AXES, {"x": np.ones((2, 3), "f4")}, WRONG),
    ("xla", "computed sizes"): (SIZES, {"x": np.ones((2, 3), "f4"), "s": np.int64([3, -1])}, PASS),
    ("xla", "numbers below the least normal one are left open"): (
        f"{X2} => {Y2} {{ y = Ceil(x) }}",
        {"x": np.float32([1e-45, 1])},
        PASS,
    ),
    ("xla", "their squares within a sum are left open too"): (NORM, {"x": np.float32([3e-20, 4e-20])}, PASS),
    ("xla", "no lowering"): (f"{X2} => (string[2] y) {{ y = Cast<to=8>(x) }}", {"x": F4}, LACKS),
    ("xla", "constants multiplied first"): (FACTORS, {"x": np.float32([0, 1e-30])}, WRONG),
}


@pytest.mark.parametrize(
    ("judge", "what"),
    [pytest.param(name, what, marks=needs(PACKAGES[name])) for name, what in DOES],
    indirect=["judge"],
)
def test_what_it_does_with(judge, what):
    text, inputs, outcome = DOES[judge.target.backend, what]
    verdict = judge.verdict(
        case(f"g {text}", opset=24 if "Swish" in text else 17, target=judge.target, **inputs)
    )
    assert verdict.outcome is outcome, verdict.title


def test_a_diagnostic_keeps_what_is_wrong_and_the_operator_but_no_place():
    said = [
        "source.mlir:4:10: failed to legalize operation 'torch.operator' that was explicitly marked illegal: "
        '%0 = "torch.operator"(%arg0) <{name = "onnx.Det"}> : (!torch.vtensor<[2,2],f32>) -> ()',
        "source.mlir:4:10: 'tensor.cast' op is wrong\n\nsource.mlir:4:10: see current operation: %1 = cast",
    ]
    assert _in_short(said).splitlines() == [
        "failed to legalize operation 'torch.operator' that was explicitly marked illegal (onnx.Det)",
        "'tensor.cast' op is wrong",
    ]


def test_what_the_shorter_type_cannot_hold_is_left_open_but_no_bound_of_the_own_type():
    assert exceeds(np.int64([1, 1 << 31]), "int32")
    assert exceeds(np.int64([1, np.iinfo("int64").max]), "int32")
    assert not exceeds(np.int64([1, np.iinfo("int64").max]), "int32", is_position=True)
    assert not exceeds(np.uint16([65535]), "int32")


@on("openvino")
def test_nine_tests_of_ten_are_of_what_it_has(judge):
    plan = Plan("random", legality=Legality(judge.executor.vocabulary(), lacks=openvino.lacks))
    outcomes = Counter(judge.verdict(each).outcome for each in make_cases(plan, range(300, 330)))
    assert outcomes[Outcome.UNSUPPORTED] <= 3


@on("openvino")
@pytest.mark.parametrize("operator", ["Mul", "Max"])
def test_a_weight_that_is_imported_wrongly_is_the_root_whatever_takes_it(judge, operator):
    """An empty weight becomes a scalar."""
    text = f"g (float[1] x) => (float[N] y) <float[0] w = {{}}> {{ y = {operator}(w, x) }}"
    whole = case(text, x=F4[:1])
    found = find_root(whole, judge.verdict(whole), (), judge)
    assert found.root.case.measure.ops == ("Identity",)
    assert "as inputs" in found.why


def test_passes_are_disabled_by_name_and_read_from_what_xla_writes_out():
    assert flags_of({"level": 0, "disabled_passes": ("algsimp", "cse")}) == {
        "xla_allow_excess_precision": False,
        "xla_backend_optimization_level": 0,
        "xla_disable_hlo_passes": "algsimp,cse",
    }
    files = [
        "module_0000.main.0006.simplification.after_algsimp.before_sort-simplifier.txt",
        "module_0000.main.0002.simplification.after_pipeline-start.before_cse.txt",
        "module_0000.main.0004.simplification.after_cse.before_algsimp.txt",
        "module_0000.main.cpu_after_optimizations.txt",
    ]
    assert changed_by(files) == ["cse", "algsimp"]


@on("xla")
def test_it_lowers_more_than_120_operators(judge):
    assert len(judge.executor.vocabulary()) >= 120


@on("xla")
def test_the_passes_that_change_a_module_are_told(judge):
    given = case("g (float[2] x) => (float[2] y) { t = Add(x, x) y = Sub(t, x) }", x=np.ones(2, "f4"))
    (run,) = judge.runs(given, judge.configs[1:2], collect_log=True)
    passes = xla.passes
    assert run.is_ok
    assert passes.fired(run)
    assert set(passes.suspects(run)) <= set(passes.fired(run))
    (other,) = judge.runs(given, (passes.without(judge.configs[1], passes.suspects(run)),))
    assert other.is_ok, other.message


# TVM: what it is compared with, what its failures say, which refusals are no bugs


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def verdict_of(judge: Judge, graph: str, **inputs: Value) -> Verdict:
    return judge.verdict(
        case(f"g {graph}", opset=23 if "RMSN" in graph else 17, target=judge.target, **inputs)
    )


ONE, TWO, NAN_AND_ONE = floats(1), floats(1, 2), floats(np.nan, 1)
CRASH, INVALID = Outcome.CRASH, Outcome.INVALID
SEQUENCE = "(seq(float[1]) s, float[2] x) => (n, float[2] y) {{ n = {}(s) y = Relu(x) }}".format
STRINGS = '(seq(string) s) => (seq(string) t) <string w = {"w"}> { t = SequenceInsert (s, w) }'
ZERO = {"a": np.int32([6]), "b": np.int32([0])}
EMPTY = "(float[0,12,1,2] x) => (float[0,1,1,2] y) { y = ReduceLogSumExp<axes = [-3]>(x) }"
MEAN = "(int64 x) => (int64 y) { y = ReduceMean(x) }"
LEAKY = "(double[2] x) => (double[2] y) {{ y = LeakyRelu{}(x) }}".format
SCALE = "(float[1,1] x) => (float[1,1] y) <float[1,1] s = {2}> { y = RMSNormalization(x, s) }"
VERDICTS: dict[str, tuple[str, dict[str, Value], Outcome, str]] = {
    # a NaN counts where onnxruntime and the reference agree on it
    "relu": ("(float[2] x) => (float[2] y) { y = Relu(x) }", {"x": NAN_AND_ONE}, WRONG, "nan"),
    "sign": ("(float[3] x) => (float[3] y) { y = Sign(x) }", {"x": floats(np.nan, 9, -9)}, WRONG, ""),
    "sigmoid": ("(float[2] x) => (float[2] y) { y = HardSigmoid(x) }", {"x": NAN_AND_ONE}, WRONG, ""),
    "argmax": (
        "(float[5] x) => (int64 y) { y = ArgMax<keepdims=0>(x) }",
        {"x": floats(2, np.nan, 7, 4, 1)},
        WRONG,
        "",
    ),
    "maximum": ("(float[2] x) => (float y) { y = ReduceMax<keepdims=0>(x) }", {"x": NAN_AND_ONE}, WRONG, ""),
    "a division that only the baseline refuses": (
        "(int32[1] a, int32[1] b) => (int32[1] y) { y = Div(a, b) }",
        ZERO,
        CRASH,
        "SIGFPE",
    ),
    "no operator": (
        "(float[2] x) => (float[2] y) { y = Bernoulli<seed = 1.0>(x) }",
        {"x": TWO},
        LACKS,
        "Bernoulli",
    ),
    "a sequence of strings": (STRINGS, {"s": [np.array("a")]}, LACKS, ""),
    "the length of a sequence that flows in": (SEQUENCE("SequenceLength"), {"s": [ONE], "x": TWO}, LACKS, ""),
    "a part of a sequence that flows in": (SEQUENCE("SequenceErase"), {"s": [ONE], "x": TWO}, LACKS, ""),
    "what the baseline refuses": (
        "(float[2] x, float[3] y) => (float[k] z) { z = Add(x, y) }",
        {"x": TWO, "y": floats(1, 2, 3)},
        INVALID,
        "",
    ),
    "onnxruntime reduces no axis of an empty tensor": (
        EMPTY,
        {"x": np.zeros((0, 12, 1, 2), "f4")},
        LACKS,
        "",
    ),
    "onnxruntime takes the mean of an integer through a float": (
        MEAN,
        {"x": np.array(2**63 - 2)},
        PASS,
        "left open: ReduceMean",
    ),
    "how a default is rounded": (LEAKY(""), {"x": np.array([-1.0, -3.0])}, PASS, ""),
    "what is written": (LEAKY("<alpha = 0.02>"), {"x": np.array([-1.0, -3.0])}, PASS, ""),
    # dims that onnxruntime takes and ONNX does not
    "condition": (
        "(float[2] x) => (float[n] y) <bool[3] c = {1, 1, 1}> { y = Compress(x, c) }",
        {"x": -TWO},
        INVALID,
        "a condition ",
    ),
    "slope": (
        "(float[1] x) => (float[n] y) <float[2] s = {2, 3}> { y = PRelu(x, s) }",
        {"x": -ONE},
        INVALID,
        "a slope ",
    ),
    "scale": (SCALE, {"x": -np.ones((1, 1), "f4")}, INVALID, "a scale "),
}


@pytest.mark.parametrize(("graph", "inputs", "outcome", "said"), VERDICTS.values(), ids=VERDICTS)
def test_a_verdict_on(tvm_judge, graph, inputs, outcome, said):
    verdict = verdict_of(tvm_judge, graph, **inputs)
    assert verdict.outcome is outcome, verdict.title
    assert said in f"{verdict.title} {verdict.symptom} {verdict.notes}"


def test_an_error_of_the_importer_names_the_operator_and_is_tagged(tvm_judge):
    graph = "() => (int64[2] y) { y = Constant<value_ints = [1, 2]>() }"
    verdict = verdict_of(tvm_judge, graph)
    assert (verdict.outcome, verdict.phase) == (Outcome.EXCEPTION, Phase.IMPORT)
    assert verdict.symptom.message == "Constant: no value in Constant"
    assert verdict.title.endswith("no value in Constant")  # no level has a part in it
    assert "importer-limit" in verdict.notes


def test_an_error_of_the_importer_says_which_dims_were_known_of_what_led_there(tvm_judge):
    nodes = "a = Neg(x) t = Add(a, z) s = Shape(t) y = Slice(s, low, high)"
    weights = "int64[1] low = {0}, int64[1] high = {1}"
    graph = f"(float[n,2] x, float[m,2] z) => (int64[1] y) <{weights}> {{ {nodes} }}"
    two = np.ones((2, 2), np.float32)
    run = verdict_of(tvm_judge, graph, x=two, z=two).failing
    assert run.at == "y"
    assert run.dims == {"s": None, "t": None, "a": ["n", "2"]}


@pytest.mark.parametrize("text", ["tvm@run=off", pytest.param("tvm:cuda@run=off", marks=pytest.mark.slow)])
def test_a_program_that_is_only_compiled_has_nothing_to_compare(text):
    pytest.importorskip("tvm", reason="TVM is not installed")
    relu = case("g (float[2] x) => (float[2] y) { y = Relu(x) }", x=NAN_AND_ONE)
    with Judge(Target.parse(text)) as compiling:
        verdict = compiling.verdict(relu)
        assert verdict.outcome is Outcome.PASS, verdict.title
        assert not verdict.runs[-1].outputs
        assert verdict.runs[-1].phase is Phase.CODEGEN
