"""TVM as a target: what it is compared with, what its failures say, which refusals are no bugs."""

from functools import partial

import numpy as np
import pytest

from corpus.case import Case
from corpus.errors import UserError
from corpus.target import Target
from corpus.values import Value
from oracles.backends import find_backend
from oracles.judge import Judge
from oracles.verdict import Config, Outcome, Phase, Run, Status, Verdict
from tests.helpers.models import case_of as on_any_target
from tests.helpers.models import model_of

tvm = find_backend("tvm")
TVM = Target("tvm")


case_of = partial(on_any_target, target=TVM)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def verdict_of(judge: Judge, graph: str, **inputs: Value) -> Verdict:
    return judge.verdict(case_of(graph, **inputs))


@pytest.mark.parametrize(
    ("graph", "inputs"),
    [
        ("g (float[2] x) => (float[2] y) { y = Exp(x) }", {"x": floats(0, 1)}),
        ("g (float[n] x) => (int64[1] s, float[n] y) { s = Shape(x) y = Neg(x) }", {"x": floats(1, 2)}),
        ("g (float[2] x_1) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x_1, w) }", {"x_1": floats(1, 2)}),
    ],
    ids=["one output", "a shape as an output", "a weight"],
)
def test_a_sound_program_passes_in_every_way(tvm_judge, graph, inputs):
    verdict = verdict_of(tvm_judge, graph, **inputs)
    assert verdict.outcome is Outcome.PASS, verdict.title
    assert [run.config.label for run in tvm_judge.runs(case_of(graph, **inputs), tvm_judge.configs)] == [
        "ort none",
        "default -O3 bytecode",
        "zero -O0 compiled",
        "target -O3 bytecode",
        "default -O0 compiled",
    ]


def test_a_division_by_zero_is_a_crash_although_the_baseline_refuses_it(tvm_judge):
    zero = {"a": np.array([6], np.int32), "b": np.array([0], np.int32)}
    verdict = verdict_of(tvm_judge, "g (int32[1] a, int32[1] b) => (int32[1] y) { y = Div(a, b) }", **zero)
    assert (verdict.outcome, verdict.phase) == (Outcome.CRASH, Phase.EXECUTE)
    assert verdict.symptom.kind == "SIGFPE"


def test_what_is_wrong_on_every_level_of_its_own_is_seen(tvm_judge):
    verdict = verdict_of(tvm_judge, "g (float[2] x) => (float[2] y) { y = Relu(x) }", x=floats(np.nan, 1))
    assert (verdict.outcome, verdict.symptom and verdict.symptom.kind) == (Outcome.MISMATCH, "nan")


@pytest.mark.parametrize(
    ("graph", "x"),
    [
        ("g (float[3] x) => (float[3] y) { y = Sign(x) }", (np.nan, 9, -9)),
        ("g (float[2] x) => (float[2] y) { y = HardSigmoid(x) }", (np.nan, 1)),
        ("g (float[5] x) => (int64 y) { y = ArgMax<keepdims=0>(x) }", (2, np.nan, 7, 4, 1)),
        ("g (float[2] x) => (float y) { y = ReduceMax<keepdims=0>(x) }", (np.nan, 1)),
    ],
)
def test_a_nan_counts_where_onnxruntime_and_the_reference_agree_on_it(tvm_judge, graph, x):
    assert verdict_of(tvm_judge, graph, x=floats(*x)).outcome is Outcome.MISMATCH


def test_an_error_of_the_code_generator_names_its_function_and_no_code(tvm_judge):
    graph = "g (bool[1] a, bool[1] b) => (bool[1] y) { y = Equal(a, b) }"
    verdict = verdict_of(tvm_judge, graph, a=np.array([True]), b=np.array([True]))
    assert (verdict.outcome, verdict.phase) == (Outcome.EXCEPTION, Phase.CODEGEN)
    assert verdict.symptom.site == "codegen_llvm.cc CodeGenLLVM::Verify"
    assert verdict.symptom.message.endswith("Invalid operand types for FCmp instruction")


def test_an_error_of_the_importer_names_the_operator_and_is_tagged(tvm_judge):
    graph = "g () => (int64[2] y) { y = Constant<value_ints = [1, 2]>() }"
    verdict = verdict_of(tvm_judge, graph)
    assert (verdict.outcome, verdict.phase) == (Outcome.EXCEPTION, Phase.IMPORT)
    assert verdict.symptom.message == "Constant: no value in Constant"
    assert verdict.title.endswith("no value in Constant")  # no level has a part in it
    assert "importer-limit" in verdict.notes


def test_an_error_of_the_importer_says_which_dims_were_known_of_what_led_there(tvm_judge):
    nodes = "a = Neg(x) t = Add(a, z) s = Shape(t) y = Slice(s, low, high)"
    weights = "int64[1] low = {0}, int64[1] high = {1}"
    graph = f"g (float[n,2] x, float[m,2] z) => (int64[1] y) <{weights}> {{ {nodes} }}"
    two = np.ones((2, 2), np.float32)
    run = verdict_of(tvm_judge, graph, x=two, z=two).failing
    assert run.at == "y"
    assert run.dims == {"s": None, "t": None, "a": ["n", "2"]}


def test_an_operator_that_it_does_not_have_is_no_bug(tvm_judge):
    graph = "g (float[2] x) => (float[2] y) { y = Bernoulli<seed = 1.0>(x) }"
    verdict = verdict_of(tvm_judge, graph, x=floats(0, 1))
    assert verdict.outcome is Outcome.UNSUPPORTED
    assert "Bernoulli" in verdict.title


def test_a_sequence_of_strings_that_flows_in_is_unsupported(tvm_judge):
    text = "g (seq(string) s) => (seq(string) t) { t = SequenceInsert (s, w) }"
    model = model_of(text, w=np.array("w", object))
    verdict = tvm_judge.verdict(Case("onnx", model.SerializeToString(), {"s": [np.array("a")]}, TVM))
    assert verdict.outcome is Outcome.UNSUPPORTED, verdict.title


@pytest.mark.parametrize("operator", ["SequenceLength", "SequenceErase"])
def test_a_node_of_the_importer_that_stumbles_over_a_sequence_that_flows_in_is_unsupported(
    tvm_judge, operator
):
    graph = f"g (seq(float[1]) s, float[2] x) => (n, float[2] y) {{ n = {operator}(s) y = Relu(x) }}"
    verdict = verdict_of(tvm_judge, graph, s=[np.zeros(1, np.float32)], x=floats(1, 2))
    assert verdict.outcome is Outcome.UNSUPPORTED, verdict.title


def test_what_the_baseline_refuses_is_not_held_against_it(tvm_judge):
    graph = "g (float[2] x, float[3] y) => (float[k] z) { z = Add(x, y) }"
    verdict = verdict_of(tvm_judge, graph, x=floats(1, 2), y=floats(1, 2, 3))
    assert verdict.outcome is Outcome.INVALID


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("tvm", ["default -O3 bytecode", "zero -O0 compiled", "target -O3 bytecode", "default -O0 compiled"]),
        ("tvm@opt-level=0", ["default -O0 bytecode"]),
        ("tvm@pipeline=zero@executor=compiled", ["zero -O3 compiled"]),
    ],
)
def test_settings_choose_the_way(text, labels):
    assert [config.label for config in tvm.configs(Target.parse(text))] == labels


@pytest.mark.parametrize("text", ["tvm@opt-level=9", "tvm@pipeline=best", "tvm@executor=graph", "tvm:tpu"])
def test_an_unknown_setting_is_one_clear_line(text):
    with pytest.raises(UserError, match="target tvm"):
        tvm.configs(Target.parse(text))


@pytest.mark.parametrize(
    ("error", "message", "kind"),
    [
        (
            "OpNotImplemented",
            "The following operators are not supported for frontend ONNX: Foo",
            "unsupported",
        ),
        ("NotImplementedError", "Operator Foo not implemented.", "unsupported"),
        ("TypeError", "Unsupported output datatype attribute for operation: 'int4", "unsupported"),
        ("InternalError", "Data type T.float8_e5m2fnuz not supported for finiteness ops.", "unsupported"),
        ("InternalError", "Check failed: dtype.bits % 8 == 0 (4 vs. 0) :", "unsupported"),
        (
            "InternalError",
            "Check failed: arr_size == nbytes (128 vs. 256) : TensorCopyFromBytes: size mismatch",
            "unsupported",
        ),
        ("ValueError", "Dynamic pads are not supported yet.", ""),
        ("ValueError", "no value in Constant", ""),
        ("InternalError", "LLVM module verification failed", ""),
    ],
)
def test_only_a_refusal_of_an_operator_or_dtype_is_unsupported(error, message, kind):
    run = Run(Config("c"), Status.EXCEPTION, Phase.IMPORT, error=error, message=message)
    assert tvm.classify(run) == kind


def test_a_baseline_that_is_wrong_itself_is_not_held_against_it_either(tvm_judge):
    """onnxruntime reduces no axis of an empty tensor; TVM does what was inferred."""
    graph = "g (float[0,12,1,2] x) => (float[0,1,1,2] y) { y = ReduceLogSumExp<axes = [-3]>(x) }"
    verdict = verdict_of(tvm_judge, graph, x=np.zeros((0, 12, 1, 2), np.float32))
    assert not verdict.is_bug, verdict.title


def test_a_mean_of_integers_that_a_float_does_not_hold_is_left_open(tvm_judge):
    """onnxruntime takes the mean of one integer through a float, and gives the next one."""
    graph = "g (int64 x) => (int64 y) { y = ReduceMean(x) }"
    verdict = verdict_of(tvm_judge, graph, x=np.array(2**63 - 2))
    assert verdict.outcome is Outcome.PASS
    assert any("left open: ReduceMean" in note for note in verdict.notes)


@pytest.mark.parametrize("alpha", ["", "<alpha = 0.02>"])
def test_how_a_default_is_rounded_is_left_open_and_what_is_written_is_not(tvm_judge, alpha):
    """ONNX's 0.01 is a float32 in its schema and a float64 to TVM."""
    graph = f"g (double[2] x) => (double[2] y) {{ y = LeakyRelu{alpha}(x) }}"
    assert not verdict_of(tvm_judge, graph, x=np.array([-1.0, -3.0])).is_bug


MISFITS = {
    "condition": "g (float[2] x) => (float[n] y) <bool[3] c = {1, 1, 1}> { y = Compress(x, c) }",
    "slope": "g (float[1] x) => (float[n] y) <float[2] s = {2, 3}> { y = PRelu(x, s) }",
    "scale": "g (float[1,1] x) => (float[1,1] y) <float[1,1] s = {2}> { y = RMSNormalization(x, s) }",
}


@pytest.mark.parametrize("what", MISFITS)
def test_dims_that_onnxruntime_takes_and_onnx_does_not_are_invalid(tvm_judge, what):
    dims = 2 if what == "condition" else (1,) if what == "slope" else (1, 1)
    case = case_of(MISFITS[what], opset=23, x=-np.ones(dims, np.float32))
    verdict = tvm_judge.verdict(case)
    assert verdict.outcome is Outcome.INVALID
    assert f"a {what} " in verdict.title


@pytest.mark.parametrize("text", ["tvm@run=off", pytest.param("tvm:cuda@run=off", marks=pytest.mark.slow)])
def test_a_program_that_is_only_compiled_has_nothing_to_compare(text):
    pytest.importorskip("tvm", reason="TVM is not installed")
    graph = "g (float[2] x) => (float[2] y) { y = Relu(x) }"
    with Judge(Target.parse(text)) as compiling:
        verdict = compiling.verdict(case_of(graph, x=floats(np.nan, 1)))
        assert verdict.outcome is Outcome.PASS, verdict.title
        assert not verdict.runs[-1].outputs
        assert verdict.runs[-1].phase is Phase.CODEGEN
