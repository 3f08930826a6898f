"""Signatures: one bug has one, two bugs have two; texts alone can be signed too."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from onnx import parser

from corpus.case import Case
from corpus.formats.onnx import parse
from corpus.onnx.canonical import measure
from corpus.target import Target
from corpus.tir.program import to_bytes
from corpus.tir.tree import Function, Module
from oracles.failure_text import as_written, read_failure
from oracles.naming import (
    Signature,
    importer_site,
    signature,
    signature_of_text,
    symptom_of_difference,
    symptom_of_run,
)
from oracles.normalise import parse_message, template
from oracles.verdict import Config, Frame, Outcome, Phase, Run, Status, Verdict
from tests.helpers.models import case_of
from triage.titles import operators_of

F = np.float32
FUSE = (
    "[ONNXRuntimeError] : {code} : Exception during initialization: "
    "{root}/core/optimizer/relu_clip_fusion.cc:{line} "
    "virtual onnxruntime::common::Status onnxruntime::FuseReluClip::Apply(onnxruntime::Graph&) const "
    "Unexpected data type for Clip 'min' input of {kind}"
)
OLD = FUSE.format(code="6 : RUNTIME_EXCEPTION", root="/build/onnxruntime", line=77, kind=11)
NEW = FUSE.format(code="1 : FAIL", root="/onnxruntime_src/onnxruntime", line=83, kind=6)


case = partial(case_of, target=Target("ort"))


CLIP = case("g (double[3] x) => (double[3] y) { r = Relu(x) y = Clip(r) }")
OTHER_CLIP = case("g (double[1,7] a) => (double[1,7] b) { c = Relu(a) b = Clip(c) }")
POOL = case("g (float[1,1,4,4] x) => (float y) { y = MaxPool<kernel_shape = [2, 2]>(x) }")


def thrown(message: str, error: str = "Fail") -> Verdict:
    run = Run(Config("all"), Status.EXCEPTION, Phase.OPTIMISE, error=error, message=message)
    symptom = symptom_of_run(Outcome.EXCEPTION, run, side="optimised")
    return Verdict(Outcome.EXCEPTION, Phase.OPTIMISE, "", symptom, (run, run))


DYNAMOS_ADVICE = "\n\nSet TORCHDYNAMO_VERBOSE=1 for the internal stack trace (please do this, too). For\n"


def test_what_dynamo_advises_and_quotes_is_no_part_of_a_message_and_the_operator_is_named():
    where = "While executing %{n} : [num_users=1] = call_function[target=torch.lerp](args = (%x,))\n"
    where += 'Original traceback:\nFile "/tmp/{n}.py", line 7, in forward\n'
    for name in ("lerp", "y_2"):
        raised = "backend='inductor' raised:\nRuntimeError: no bools here\n\n" + where.format(n=name)
        symptom = thrown(raised + DYNAMOS_ADVICE).symptom
        assert symptom.message == "torch.lerp: RuntimeError: no bools here"
    assert template("KeyError: tuple" + DYNAMOS_ADVICE) == "KeyError: tuple"


def test_an_exception_without_words_is_told_by_the_function_that_raised_it():
    def raised(function: str, message: str = "AssertionError: ") -> str:
        trace = f"""Traceback (most recent call last):
  File "/torch/_inductor/graph.py", line 3, in run
  File "/torch/_inductor/codegen/cpp.py", line 11, in {function}
AssertionError

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/torch/_inductor/compile_fx.py", line 5, in compile
InductorError: {message}
"""
        run = Run(Config("all"), Status.EXCEPTION, Phase.CODEGEN, error="InductorError", trace=trace,
                  message=message + DYNAMOS_ADVICE)  # fmt: skip
        return symptom_of_run(Outcome.EXCEPTION, run).site

    assert raised("reduction_combine") == "cpp.py reduction_combine"
    assert raised("load") == "cpp.py load"
    assert raised("load", "IndexError: tuple index out of range") == "cpp.py load"
    assert raised("load", "AssertionError: x is no index") == ""


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


def test_an_exception_is_signed_alike_in_every_release():
    assert sign(thrown(OLD, "RuntimeException"), CLIP) == sign(thrown(NEW, "Fail"), OTHER_CLIP)
    assert ("site", "relu_clip_fusion.cc FuseReluClip::Apply") in sign(thrown(NEW), CLIP).components


def test_a_text_about_the_whole_graph_is_signed_with_what_was_rewritten():
    message = (
        "Invalid model. Node input 'v4' is not a graph input, initializer, or output of a previous node."
    )
    assert sign(thrown(message), CLIP) != sign(thrown(message), POOL)
    assert sign(thrown(message), CLIP, ("A",)) == sign(thrown(message), POOL, ("A",))


def test_an_error_that_names_a_pass_is_signed_alike_on_every_program():
    verdict = thrown("tirx.Some changes the module that it is given", "InputChanged")
    assert sign(verdict, CLIP) == sign(verdict, POOL)


def calling(name: str) -> Case:
    """A model of one call; the name is its author's."""
    model = parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 20, "own": 1]> g (float[1] x) => (float[1] y)'
        f" {{ y = own.{name}(x) }}"
        f'<domain: "own", opset_import: ["": 20]> {name} (a) => (b) {{ b = Relu(a) }}'
    )
    return Case("onnx", model.SerializeToString(), {}, Target("ort"))


def test_what_a_model_calls_its_functions_tells_no_bugs_apart():
    def refused(name: str) -> Signature:
        said = f"Type Error: Type 'tensor(bool)' of input parameter (x) of operator ({name}) is invalid."
        return sign(thrown(said), calling(name))

    wrong = differed(np.zeros(1, np.float32), np.ones(1, np.float32))
    assert refused("wrapper") == refused("closure")
    assert ("op", "function") in refused("wrapper").components
    assert sign(wrong, calling("wrapper")) == sign(wrong, calling("closure"))
    assert operators_of(calling("wrapper")) == ("Relu in a function",)


def test_a_crash_in_a_stripped_library_is_known_by_its_operators():
    assert sign(died("fn_1200"), CLIP) == sign(died("fn_7700"), CLIP)
    assert sign(died("fn_1200"), CLIP) != sign(died("fn_1200"), POOL)
    assert sign(died("mod_kernel"), CLIP) != sign(died("div_kernel"), CLIP)
    assert sign(died("fn_1200", 8), CLIP) != sign(died("fn_1200", 11), CLIP)


def test_a_wrong_result_is_known_by_passes_pattern_and_kind():
    one, two = np.array([1, 2, 3], F), np.array([5, 6, 9], F)
    signed = sign(differed(one, two), CLIP, ("B", "A"))
    assert signed == sign(differed(two, one + 9), OTHER_CLIP, ("A", "B"))
    assert ("passes", "A B") in signed.components
    assert ("ops", "Relu:float64 Clip:float64") in signed.components
    assert signed != sign(differed(one, one * 0), CLIP, ("A", "B"))


def test_what_a_rewrite_may_take_for_constants_and_is_none_tells_wrong_results_apart():
    body = "{ p = Pow(x, c) s = Add(p, c) r = Sqrt(s) y = Div(x, r) }"
    fixed = case(f"g (float[2] x) => (float[2] y) <float c = {{2}}> {body}")
    given = case(f"g (float[2] x, float c) => (float[2] y) {body}")
    wrong = differed(np.array([1, 2], F), np.array([9, 9], F))
    told = ("computed", "exponent epsilon")
    assert told in sign(wrong, given, ("LayerNormFusion",)).components
    assert "computed" not in dict(sign(wrong, fixed, ("LayerNormFusion",)).components)
    assert "computed" not in dict(sign(wrong, given).components)


def test_what_serves_several_passes_is_no_site_and_the_pass_tells():
    fused = symptom_of_run(Outcome.EXCEPTION, thrown("boom").runs[0], side="optimised")
    verdict = replace(
        thrown("boom"), symptom=replace(fused, site="fuse_ops.cc OperatorFusor::GetGroupFromVar")
    )
    assert ("rewritten", "FuseOps") in sign(verdict, CLIP, ("FuseOps",)).components
    assert sign(verdict, CLIP, ("FuseOps",)) != sign(verdict, CLIP, ("MergeCompositeFunctions",))


def test_an_exit_code_stands_for_its_signal():
    assert ("signal", "SIGSEGV") in signature_of_text("[exit 139]").components
    assert ("outcome", "timeout") in signature_of_text("[exit 124]").components


def refused(operator: str, function: str, message: str) -> Verdict:
    frame = 'File "/x/onnx_frontend.py", line {}, in {}\n    raise it'
    calls = "\n  ".join([frame.format(10, "_construct_nodes"), frame.format(20, function)])
    trace = f"Error converting operator {operator}\nTraceback (most recent call last):\n  {calls}\n{message}"
    run = Run(Config("O3"), Status.EXCEPTION, Phase.IMPORT, error="ValueError", message=message, trace=trace)
    symptom = symptom_of_run(Outcome.EXCEPTION, run, side="optimised")
    return Verdict(Outcome.EXCEPTION, Phase.IMPORT, "", symptom, (run, run))


def test_what_an_importers_helper_refuses_is_one_bug_whichever_operator_called_it():
    one, two = (sign(refused(op, "_broadcast_dims", "not so"), CLIP) for op in ("Max", "Sum"))
    assert one == two
    assert dict(one.components)["site"] == "onnx_frontend.py _broadcast_dims"


def test_what_an_operators_converter_refuses_is_told_apart_by_the_operator_not_by_its_neighbours():
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


def test_a_text_names_the_operator_that_was_lowered_where_a_helper_of_any_operator_raised():
    signs, negative = (
        dict(signature_of_text(LOWERING.format(name)).components) for name in ("sign", "negative")
    )
    assert (signs["op"], negative["op"]) == ("sign", "negative")
    assert "site" not in signs


def test_a_library_that_the_importer_calls_is_no_place():
    packages = 'File "/x/site-packages/{}", line 1, in {}\n    it'
    converter, library = (
        packages.format("tvm/onnx.py", "_impl_v1"),
        packages.format("numpy/t.py", "broadcast_to"),
    )
    assert not importer_site(f"  {converter}\n  {library}\nValueError: not so")
    helper = packages.format("tvm/onnx.py", "_dims")
    assert importer_site(f"  {converter}\n  {helper}\n  {library}\nValueError: not so") == "onnx.py _dims"
    ours = 'File "/any/oracles/backends/ort.py", line 72, in run\n    it'
    assert not importer_site(f"  {ours}\nFail: not so"), "a file of ours names no bug, and may be renamed"


def test_what_only_the_un_optimised_run_says_stands_in_the_signature():
    """The optimised run stands behind it and is well."""
    said = "codegen_llvm.cc:7: void tvm::codegen::CodeGenLLVM::Verify() LLVM module verification failed"
    failed = thrown(said).runs[0]
    symptom = symptom_of_run(Outcome.EXCEPTION, failed, side="un-optimised")
    passed = Run(Config("default"), Status.OK, Phase.EXECUTE)
    verdict = replace(thrown(said), symptom=symptom, runs=(failed, passed))
    assert "LLVM module verification failed" in dict(sign(verdict, CLIP).components)["message"]


def test_loops_that_fail_in_one_place_are_one_bug_before_a_pipeline_and_within_it():
    loops = Case("tir", to_bytes(Module({"main": Function((), ())})), {}, Target("tvm"))
    failed = thrown("Check failed: pb->value != 0 (0 vs. 0) : Divide by zero")

    def signed(site: str, side: str) -> Signature:
        symptom = replace(failed.symptom, site=site, side=side)
        return signature(replace(failed, symptom=symptom), None, loops)

    folding, verifying = "const_fold.h TryConstFold", "codegen_llvm.cc CodeGenLLVM::Verify"
    assert signed(folding, "un-optimised") == signed(folding, "optimised") == signed(folding, "")
    assert signed(verifying, "un-optimised") != signed(verifying, "optimised")


# Symptoms of runs: what of a crash or an exception the reducer holds on to


def test_the_innermost_frame_without_its_offset_is_the_site():
    symptom = died("fn_1200").symptom
    assert (symptom.kind, symptom.site) == ("SIGFPE", "onnxruntime fn_1200")


@pytest.mark.parametrize(("number", "said"), [(6, "std::length_error thrown"), (11, "")])
def test_only_an_abort_keeps_its_last_words(number, said):
    run = replace(died("f", number).runs[0], message="std::length_error thrown")
    assert symptom_of_run(Outcome.CRASH, run).message == said


def test_the_models_names_do_not_count():
    symptoms = [
        symptom_of_run(Outcome.EXCEPTION, thrown(f"edge {one} to {two} is bad").runs[0], {one, two})
        for one, two in (("out_a", "in_b"), ("enc/x", "dec/y"))
    ]
    assert symptoms[0] == symptoms[1]


# A failure is read out of its text, in whatever form a debugger, a shell or a release gives it


def told(name: str) -> str:
    """The text of a failure, as somebody quoted it."""
    return (Path(__file__).parent / "failures" / f"{name}.txt").read_text().rstrip("\n")


@pytest.mark.parametrize(
    ("name", "kind", "site", "package"),
    [
        ("gdb", "SIGSEGV", "NchwcTransformerImpl::TransformPool", "onnxruntime"),
        ("sanitizer", "heap-buffer-overflow", "NchwcTransformerImpl::TransformPool", "onnxruntime"),
        ("glog", "SIGSEGV", "NchwcTransformerImpl::TransformPool", "onnxruntime"),
        ("handler", "SIGSEGV", "FindLiveVars", "tvm"),
        ("llvm", "SIGSEGV", "X86TargetLowering::LowerBUILD_VECTOR", ""),
        (
            "older_tvm",
            "InternalError",
            "static_plan_block_memory.cc StorageAllocatorInit::CreateToken",
            "tvm",
        ),
    ],
)
def test_the_innermost_function_that_is_no_glue_is_where_it_failed(name, kind, site, package):
    found = read_failure(told(name))
    assert (found.kind, found.site, found.package) == (kind, site, package)
    assert found.is_crash == (name != "older_tvm")


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("uncaught", "Exception", "Non-zero status code"),
        ("raised_again", "LoweringException", "TypeError: no"),
        ("cpp_compiler", "CppCompileError", "no such thing"),
        ("triton", "CompilationError", "invalid"),
        ("fake_tensors", "TorchRuntimeError", "shape is invalid"),
        ("no_words", "AssertionError", ""),
    ],
)
def test_an_exception_is_what_failed_and_not_what_passed_it_on(name, kind, message):
    found = read_failure(told(name))
    assert (found.kind, found.message, found.is_crash) == (kind, message, False)


# Messages without what changes, and the C++ sites in them


@pytest.mark.parametrize(
    ("message", "site", "op", "start"),
    [
        (told("fusion"), "relu_clip_fusion.cc FuseReluClip::Apply", "", "Unexpected data type"),
        (told("pool"), "pool_attributes.h PoolAttributes::PoolAttributes", "", "pads[dim] <"),
        (told("nested"), "reshape_helper.h ReshapeHelper::ReshapeHelper", "Reshape", "input_shape_size =="),
        (told("modulo"), "element_wise_ops.cc operator()", "Mod", "Integer modulo by zero"),
        ("Node (a) Op (Gemm) [ShapeInferenceError] bad", "", "Gemm", "Node (a)"),
        ("Could not find an implementation for Erf(13) node with name ''", "", "Erf", "Could not"),
        ("cannot reshape array of size 4 into shape (2,3)", "", "", "cannot reshape"),
    ],
)
def test_a_message_gives_its_site_and_its_innermost_operator(message, site, op, start):
    parsed = parse_message(message)
    assert (parsed.site, parsed.op) == (site, op)
    assert parsed.rest.startswith(start) or start in parsed.rest[:200]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Node input 'v4' is not a graph input", "Node input '/enc/x.1' is not a graph input"),
        ("indices out of bounds, idx=17 in [-3,2]", "indices out of bounds, idx=-9 in [0,12]"),
        ("Input shape:{3,4}, requested {5,7}", "Input shape:{2}, requested {1,1,1}"),
        ("no output: v7.", "no output: layer/out_3."),
        ("at 0x7f3a00 in /tmp/abc/model.onnx", "at 0x55aa in /home/me/other/model.onnx"),
        ("/build_a/core/x.cc:12 failed", "/onnxruntime_src/core/x.cc:99 failed"),
        ("\x1b[1;31mbroken\x1b[m", "broken"),
        ("2026-11-20 18:43:31.32 [E:onnxruntime:, s.cc:5 Run] broken", "broken"),
        ("[ONNXRuntimeError] : 1 : FAIL : broken", "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : broken"),
        ("4 by 5", "13 by 2"),
        ("The LHS x has", "The LHS y2 has"),
    ],
)
def test_what_changes_from_run_to_run_is_dropped(one, other):
    assert template(one) == template(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Type 'tensor(int8)' is invalid", "Type 'tensor(double)' is invalid"),
        ("does not match INT8", "does not match UINT8"),
        ("Pad should be smaller than kernel", "Pad should be smaller than input"),
        ("it doesn't match the result's 'x'", "it doesn't fit the result's 'x'"),
    ],
)
def test_what_tells_bugs_apart_stays(one, other):
    assert template(one) != template(other)


def test_a_template_is_a_fixed_point():
    for message in map(told, ("fusion", "pool", "nested", "modulo")):
        once = template(parse_message(message).rest)
        assert template(once) == once


def test_rendered_operators_and_code_leave_their_names():
    text = (
        'ir.Op(span=None, ty=ir.Type(span=None), name="relax.sqrt", description="x", arguments=(), '
        "num_inputs=1, support_level=10) requires a float, but R.add(lv2, R.const(0, dtype)) is not\n"
        "  %10 = fcmp oeq i1 %6, %9, !dbg !42\n"
    )
    assert template(text) == "relax.sqrt requires a float, but R.add(*) is not"


def test_a_node_without_a_name_says_the_same():
    named, nameless = "Node Size_v12 cannot handle ShapeExpr inputs.", "Node  cannot handle ShapeExpr inputs."
    assert template(named, ["Size_v12"]) == template(nameless)


# A failure is read the same out of whatever log or quotation it stands in


TEXT = told("served")
LINES = TEXT.splitlines()
FORMS = {
    "container": "\n".join(f"2026-11-22T16:04:01.12Z stderr F {line}" for line in LINES),
    "journal": "\n".join(f"Nov 22 16:04:01 host serve[812]: {line}" for line in LINES),
    "compose": "\n".join(f"server-1  | {line}" for line in LINES),
    "quoted": "\n".join(f"> {line}" for line in ["Since the update:", "```", *LINES, "```"]),
    "set in": "\n".join(["1. run it", "", *(f"        {line}" for line in LINES)]),
    "of fields": "\n".join(f'16:04:{at:02d}\tERROR\tserve\t"{line}"' for at, line in enumerate(LINES)),
    "rank": "\n".join(f"[rank0][serve]: {line}" for line in LINES),
    "windows": TEXT.replace("/", "\\").replace("\n", "\r\n"),
    "pytest": "\n".join(["    def test():", ">       run()", *(f"E   {line}" for line in LINES)]),
}


@pytest.mark.parametrize("form", sorted(FORMS))
def test_a_form_changes_nothing_of_what_is_read(form):
    assert read_failure(FORMS[form]) == read_failure(TEXT)


@pytest.mark.parametrize("text", ["", "> one quoted line\nand one that is not"])
def test_what_stands_in_no_form_stays_as_it_is(text):
    assert as_written(text) == text
