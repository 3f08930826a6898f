"""Signatures: one bug has one, two bugs have two; texts alone can be signed too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest

from corpus.case import Case
from corpus.formats.onnx import parse
from corpus.onnx.measure import measure
from corpus.target import Target
from corpus.tir.document import to_bytes
from corpus.tir.tree import Function, Module
from oracles.naming.components import importer_site, signature, signature_of_text
from oracles.naming.signature import Signature, symptom_of_difference, symptom_of_run
from oracles.numerics.mismatch_kind import kind_of_values
from oracles.run import Config, Frame, Phase, Run, Status
from oracles.verdict import Outcome, Verdict

F = np.float32
FUSE = (
    "[ONNXRuntimeError] : {code} : Exception during initialization: "
    "{root}/core/optimizer/relu_clip_fusion.cc:{line} "
    "virtual onnxruntime::common::Status onnxruntime::FuseReluClip::Apply(onnxruntime::Graph&) const "
    "Unexpected data type for Clip 'min' input of {kind}"
)
OLD = FUSE.format(code="6 : RUNTIME_EXCEPTION", root="/build/onnxruntime", line=77, kind=11)
NEW = FUSE.format(code="1 : FAIL", root="/onnxruntime_src/onnxruntime", line=83, kind=6)


def case(graph: str) -> Case:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {graph}')
    return Case("onnx", model.SerializeToString(), {}, Target("ort"))


CLIP = case("g (double[3] x) => (double[3] y) { r = Relu(x) y = Clip(r) }")
OTHER_CLIP = case("g (double[1,7] a) => (double[1,7] b) { c = Relu(a) b = Clip(c) }")
POOL = case("g (float[1,1,4,4] x) => (float y) { y = MaxPool<kernel_shape = [2, 2]>(x) }")


def thrown(message: str, error: str = "Fail") -> Verdict:
    run = Run(Config("all"), Status.EXCEPTION, Phase.OPTIMISE, error=error, message=message)
    symptom = symptom_of_run(Outcome.EXCEPTION, run, side="optimised")
    return Verdict(Outcome.EXCEPTION, Phase.OPTIMISE, "", symptom, (run, run))


def died(function: str, number: int = 8) -> Verdict:
    frames = (Frame("onnxruntime.so", 1, function),)
    run = Run(Config("none"), Status.CRASH, Phase.EXECUTE, signal=number, frames=frames)
    return Verdict(Outcome.CRASH, Phase.EXECUTE, "", symptom_of_run(Outcome.CRASH, run), (run,))


def differed(expected: np.ndarray, actual: np.ndarray) -> Verdict:
    runs = tuple(Run(Config("c"), Status.OK, Phase.EXECUTE, {"y": value}) for value in (expected, actual))
    symptom = symptom_of_difference("value", "optimised")
    return Verdict(Outcome.MISMATCH, Phase.COMPARE, "", symptom, runs)


def sign(verdict: Verdict, on: Case, passes: tuple[str, ...] = ()) -> Signature:
    return signature(verdict, measure(parse(on.program)), on, passes)


def test_an_exception_is_signed_alike_in_every_release() -> None:
    assert sign(thrown(OLD, "RuntimeException"), CLIP) == sign(thrown(NEW, "Fail"), OTHER_CLIP)
    assert ("site", "relu_clip_fusion.cc FuseReluClip::Apply") in sign(thrown(NEW), CLIP).components


def test_a_text_about_the_whole_graph_is_signed_with_what_was_rewritten() -> None:
    message = (
        "Invalid model. Node input 'v4' is not a graph input, initializer, or output of a previous node."
    )
    assert sign(thrown(message), CLIP) != sign(thrown(message), POOL)
    assert sign(thrown(message), CLIP, ("A",)) == sign(thrown(message), POOL, ("A",))


def test_an_error_that_names_a_pass_is_signed_alike_on_every_program() -> None:
    verdict = thrown("tirx.Some changes the module that it is given", "InputChanged")
    assert sign(verdict, CLIP) == sign(verdict, POOL)


def test_a_crash_in_a_stripped_library_is_known_by_its_operators() -> None:
    assert sign(died("fn_1200"), CLIP) == sign(died("fn_7700"), CLIP)
    assert sign(died("fn_1200"), CLIP) != sign(died("fn_1200"), POOL)
    assert sign(died("mod_kernel"), CLIP) != sign(died("div_kernel"), CLIP)
    assert sign(died("fn_1200", 8), CLIP) != sign(died("fn_1200", 11), CLIP)


def test_a_wrong_result_is_known_by_passes_pattern_and_kind() -> None:
    one, two = np.array([1, 2, 3], F), np.array([5, 6, 9], F)
    signed = sign(differed(one, two), CLIP, ("B", "A"))
    assert signed == sign(differed(two, one + 9), OTHER_CLIP, ("A", "B"))
    assert ("passes", "A B") in signed.components
    assert ("ops", "Relu:float64 Clip:float64") in signed.components
    assert signed != sign(differed(one, one * 0), CLIP, ("A", "B"))


def test_what_a_rewrite_may_take_for_constants_and_is_none_tells_wrong_results_apart() -> None:
    body = "{ p = Pow(x, c) s = Add(p, c) r = Sqrt(s) y = Div(x, r) }"
    fixed = case(f"g (float[2] x) => (float[2] y) <float c = {{2}}> {body}")
    given = case(f"g (float[2] x, float c) => (float[2] y) {body}")
    wrong = differed(np.array([1, 2], F), np.array([9, 9], F))
    told = ("computed", "exponent epsilon")
    assert told in sign(wrong, given, ("LayerNormFusion",)).components
    assert "computed" not in dict(sign(wrong, fixed, ("LayerNormFusion",)).components)
    assert "computed" not in dict(sign(wrong, given).components)


def test_what_serves_several_passes_is_no_site_and_the_pass_tells() -> None:
    fused = symptom_of_run(Outcome.EXCEPTION, thrown("boom").runs[0], side="optimised")
    verdict = replace(
        thrown("boom"), symptom=replace(fused, site="fuse_ops.cc OperatorFusor::GetGroupFromVar")
    )
    assert ("rewritten", "FuseOps") in sign(verdict, CLIP, ("FuseOps",)).components
    assert sign(verdict, CLIP, ("FuseOps",)) != sign(verdict, CLIP, ("MergeCompositeFunctions",))


def test_a_pass_has_no_signature() -> None:
    with pytest.raises(ValueError, match="passes"):
        signature(Verdict(Outcome.PASS, Phase.COMPARE, ""), None, None)


def test_a_signature_is_short_and_printable() -> None:
    signed = sign(thrown(NEW), CLIP)
    assert len(signed.digest) == 12
    assert str(signed).startswith("backend: ort | outcome: exception | phase: optimise | side: optimised")


@pytest.mark.parametrize(
    ("expected", "actual", "kind"),
    [
        (np.array([1, 2]), np.array([2, 1]), "off by one"),
        (np.array([5, 7], np.int8), np.array([127, -128], np.int8), "saturation"),
        (np.array([5, 7]), np.array([0, 0]), "zeros"),
        (np.array([5.0, 7.0], F), np.array([0.0, 0.0], F), "zeros"),
        (np.array([5.0, 7.0], F), np.array([-5.0, -7.0], F), "sign"),
        (np.array([5.0, 7.0], F), np.array([5.0, np.inf], F), "inf"),
        (np.array([5.0, 7.0], F), np.array([6.0, 9.0], F), "value"),
        (np.array([True]), np.array([False]), "value"),
        (np.array(["a"]), np.array(["b"]), "value"),
    ],
)
def test_values_differ_in_kinds(expected: np.ndarray, actual: np.ndarray, kind: str) -> None:
    assert kind_of_values(expected, actual, np.asarray(expected != actual)) == kind


TRACE = """Traceback (most recent call last):
  File "/home/{user}/run.py", line {line}, in <module>
    session.run(None, feeds)
  File "/opt/{user}/site-packages/onnxruntime/capi/collection.py", line 220, in run
    return self._sess.run(output_names, input_feed, run_options)
onnxruntime.capi.onnxruntime_pybind11_state.{error}
[exit 1]
"""


def trace(error: str, user: str = "a", line: int = 3) -> str:
    return TRACE.format(error=error, user=user, line=line)


def test_texts_of_one_failure_are_signed_alike() -> None:
    one = signature_of_text(trace(f"RuntimeException: {OLD}"))
    other = signature_of_text(trace(f"Fail: {NEW}", "bob", 99))
    assert one == other
    assert ("package", "onnxruntime") in one.components


def test_texts_of_two_failures_are_not() -> None:
    texts = [
        trace(f"Fail: {NEW}"),
        trace("InvalidArgument: Got invalid dimensions for input: x"),
        "Fatal Python error: Floating point exception\n\nCurrent thread 0x7f (most recent call first):\n",
        "\n[exit 139]\n",
        "[exit 124]\n",
        'Traceback (most recent call last):\n  File "/p/src/op.cc", line 1, in tvm::relax::InferX(int)\n'
        "ValueError: bad\n",
    ]
    assert len({signature_of_text(text).digest for text in texts}) == len(texts)


def test_an_exit_code_stands_for_its_signal() -> None:
    assert ("signal", "SIGSEGV") in signature_of_text("[exit 139]").components
    assert ("outcome", "timeout") in signature_of_text("[exit 124]").components


def refused(operator: str, function: str, message: str) -> Verdict:
    frame = 'File "/x/onnx_frontend.py", line {}, in {}\n    raise it'
    calls = "\n  ".join([frame.format(10, "_construct_nodes"), frame.format(20, function)])
    trace = f"Error converting operator {operator}\nTraceback (most recent call last):\n  {calls}\n{message}"
    run = Run(Config("O3"), Status.EXCEPTION, Phase.IMPORT, error="ValueError", message=message, trace=trace)
    symptom = symptom_of_run(Outcome.EXCEPTION, run, side="optimised")
    return Verdict(Outcome.EXCEPTION, Phase.IMPORT, "", symptom, (run, run))


def test_what_an_importers_helper_refuses_is_one_bug_whichever_operator_called_it() -> None:
    one, two = (sign(refused(op, "_broadcast_dims", "not so"), CLIP) for op in ("Max", "Sum"))
    assert one == two
    assert dict(one.components)["site"] == "onnx_frontend.py _broadcast_dims"


def test_what_an_operators_converter_refuses_is_told_apart_by_the_operator_not_by_its_neighbours() -> None:
    selu, elu = (sign(refused(op, "_impl_v1", "not so"), CLIP) for op in ("Selu", "Elu"))
    assert selu != elu
    assert dict(selu.components)["op"] == "Selu"
    assert selu == sign(refused("Selu", "_impl_v1", "not so"), POOL)


LOWERING = """Traceback (most recent call last):
  File "/x/site-packages/tvm/relax/block_builder.py", line 364, in call_te
  File "/x/site-packages/tvm/topi/math.py", line 70, in {}
  File "/x/site-packages/tvm/topi/math.py", line 70, in <lambda>
  File "/project/include/tvm/ir/prim/op.h", line 575, in tvm::PrimExpr tvm::prim::MakeConstScalar(int)
tvm.error.InternalError: Check failed: (value >= 0) is false: cannot make uint from negative value -1
"""


def test_a_text_names_the_operator_that_was_lowered_where_a_helper_of_any_operator_raised() -> None:
    signs, negative = (
        dict(signature_of_text(LOWERING.format(name)).components) for name in ("sign", "negative")
    )
    assert (signs["op"], negative["op"]) == ("sign", "negative")
    assert "site" not in signs


def test_a_library_that_the_importer_calls_is_no_place() -> None:
    packages = 'File "/x/site-packages/{}", line 1, in {}\n    it'
    converter, library = (
        packages.format("tvm/onnx.py", "_impl_v1"),
        packages.format("numpy/t.py", "broadcast_to"),
    )
    assert not importer_site(f"  {converter}\n  {library}\nValueError: not so")
    helper = packages.format("tvm/onnx.py", "_dims")
    assert importer_site(f"  {converter}\n  {helper}\n  {library}\nValueError: not so") == "onnx.py _dims"


def refused_plainly(site: str, words: str) -> Verdict:
    """An exception of the un-optimised run alone: the optimised one stands behind it and is well."""
    failed = Run(
        Config("least"), Status.EXCEPTION, Phase.CODEGEN, error="InternalError", message=f"{site} {words}"
    )
    passed = Run(Config("default"), Status.OK, Phase.EXECUTE)
    symptom = symptom_of_run(Outcome.EXCEPTION, failed, side="un-optimised")
    return Verdict(Outcome.EXCEPTION, Phase.CODEGEN, "", symptom, (failed, passed))


def test_loops_that_fail_in_one_place_are_one_bug_before_a_pipeline_and_within_it():
    loops = Case("tir", to_bytes(Module({"main": Function((), ())})), {}, Target("tvm"))
    failed = refused_plainly("", "Check failed: pb->value != 0 (0 vs. 0) : Divide by zero")

    def signed(site: str, side: str) -> Signature:
        symptom = replace(failed.symptom, site=site, side=side)
        return signature(replace(failed, symptom=symptom), None, loops)

    folding, verifying = "const_fold.h TryConstFold", "codegen_llvm.cc CodeGenLLVM::Verify"
    assert signed(folding, "un-optimised") == signed(folding, "optimised") == signed(folding, "")
    assert signed(verifying, "un-optimised") != signed(verifying, "optimised")


def test_what_only_the_un_optimised_run_says_stands_in_the_signature():
    parallel = (
        "Check failed: (!in_parallel_loop) is false: Nested parallel loop is not supported by threadpool"
    )
    dominance = "LLVM module verification failed: Instruction does not dominate all uses!"
    one = sign(
        refused_plainly("codegen_cpu.cc:9: void tvm::codegen::CodeGenCPU::Dispatch_()", parallel), CLIP
    )
    two = sign(
        refused_plainly("codegen_llvm.cc:7: void tvm::codegen::CodeGenLLVM::Verify()", dominance), CLIP
    )
    assert dict(one.components)["message"].endswith("is not supported by threadpool")
    assert "does not dominate" in dict(two.components)["message"]
