"""Signatures: one bug has one, two bugs have two; texts alone can be signed too."""

import html
import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from onnx import TensorProto, helper

from corpus.case import Case
from corpus.formats.onnx import parse
from corpus.onnx.canonical import measure
from corpus.target import Target
from corpus.tir.program import to_bytes
from corpus.tir.tree import Function, Module
from oracles.naming import (
    Signature,
    importer_site,
    signal_name,
    signature,
    signature_of_text,
    symptom_of_difference,
    symptom_of_run,
)
from oracles.text.failure_text import as_written, read_failure
from oracles.text.normalise import function_name, parse_message, template
from oracles.verdict import Config, Frame, Outcome, Phase, Run, Status, Verdict
from tests.helpers.models import case_of
from triage.claims.titles import operators_of

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
    inner = helper.make_node("Relu", ["a"], ["b"])
    function = helper.make_function("own", name, ["a"], ["b"], [inner], [helper.make_opsetid("", 20)])
    ends = [helper.make_tensor_value_info(end, TensorProto.FLOAT, [1]) for end in "xy"]
    graph = helper.make_graph([helper.make_node(name, ["x"], ["y"], domain="own")], "g", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    model = helper.make_model(graph, opset_imports=opsets, functions=[function], ir_version=10)
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


def test_a_signature_is_short_and_printable():
    signed = sign(thrown(NEW), CLIP)
    assert len(signed.digest) == 12
    assert str(signed).startswith("backend: ort | outcome: exception | phase: optimise | side: optimised")


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


def test_texts_of_one_failure_are_signed_alike():
    one = signature_of_text(trace(f"RuntimeException: {OLD}"))
    other = signature_of_text(trace(f"Fail: {NEW}", "bob", 99))
    assert one == other
    assert ("package", "onnxruntime") in one.components


def test_texts_of_two_failures_are_not():
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


# Symptoms of runs: what of a crash or an exception the reducer holds on to


ORT = "onnxruntime_pybind11_state.cpython-311-x86_64-linux-gnu.so"
FRAMES = (Frame(ORT, 0x1234, "fn_1200"), Frame(ORT, 0x9999, "fn_9000"))


def crash(**changes: object) -> Run:
    run = Run(Config("none"), Status.CRASH, Phase.EXECUTE, signal=8, frames=FRAMES)
    return replace(run, **changes)  # type: ignore[arg-type]


def exception(message: str, error: str = "Fail") -> Run:
    return Run(Config("all"), Status.EXCEPTION, Phase.OPTIMISE, error=error, message=message)


def test_the_innermost_frame_is_the_site():
    symptom = symptom_of_run(Outcome.CRASH, crash())
    assert (symptom.kind, symptom.site) == ("SIGFPE", "onnxruntime_pybind11_state fn_1200")
    assert symptom_of_run(Outcome.CRASH, crash(frames=())).site == ""


@pytest.mark.parametrize(("frame", "is_one"), [((0x7777, "fn_7000"), False), ((0x1250, "fn_1200"), True)])
def test_crashes_are_one_symptom_by_their_function_and_not_by_its_offset(frame, is_one):
    other = crash(frames=(Frame(ORT, *frame),))
    assert (symptom_of_run(Outcome.CRASH, crash()) == symptom_of_run(Outcome.CRASH, other)) == is_one


def test_only_an_abort_keeps_its_last_words():
    words = "terminate called after throwing 'std::length_error' at 0x7f00"
    abort, fault = crash(signal=6, message=words), crash(signal=11, message=words)
    assert "terminate called after throwing" in symptom_of_run(Outcome.CRASH, abort).message
    assert symptom_of_run(Outcome.CRASH, fault).message == ""


@pytest.mark.parametrize(("number", "name"), [(8, "SIGFPE"), (11, "SIGSEGV"), (6, "SIGABRT"), (0, "exit 0")])
def test_signals_have_names(number, name):
    assert signal_name(number) == name


def test_an_exception_keeps_class_site_operator_and_template():
    message = (
        "Non-zero status code returned while running Mod node. Name:'m_1' Status Message: e.cc:9 Run no 7"
    )
    symptom = symptom_of_run(Outcome.EXCEPTION, exception(message), side="optimised")
    assert (symptom.kind, symptom.site, symptom.message) == ("Fail", "e.cc Run", "Mod: no *")
    assert symptom.side == "optimised"


def test_the_models_names_do_not_count():
    one = symptom_of_run(Outcome.EXCEPTION, exception("edge out_a to in_b is bad"), {"out_a", "in_b"})
    other = symptom_of_run(Outcome.EXCEPTION, exception("edge enc/x to dec/y is bad"), {"enc/x", "dec/y"})
    assert one == other


def test_the_side_tells_symptoms_apart():
    run = exception("broken")
    sides = {symptom_of_run(Outcome.EXCEPTION, run, side=side) for side in ("", "optimised", "un-optimised")}
    assert len(sides) == 3


# A failure is read out of its text, in whatever form a debugger, a shell or a release gives it


WHERE = "onnxruntime::NchwcTransformerImpl::TransformPool"
GDB = f"""Thread 12 "python" received signal SIGSEGV, Segmentation fault.
#0  0x00007fb284de31be in memcpy () from /lib/x86_64-linux-gnu/libc.so.6
#1  0x00007fb284de6111 in {WHERE} (this=0x55d0, node=...) from /opt/lib/libonnxruntime.so.1.20.1
#2  0x00007fb284da86fa in onnxruntime::GraphTransformer::Apply (this=0x1) at /src/graph_transformer.cc:33
"""
SANITIZER = f"""==63002==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x748e0e5fe848 at pc 0x7
READ of size 4 at 0x748e0e5fe848 thread T12
    #0 0x748e3fefa47b in __interceptor_memcpy ../../libsanitizer/sanitizer_common.inc:115
    #1 0x748e3f498884 in {WHERE}(onnxruntime::Node&) const /src/onnxruntime/core/nchwc_transformer.cc:410:9
SUMMARY: AddressSanitizer: heap-buffer-overflow /src/onnxruntime/core/nchwc_transformer.cc:410
"""
GLOG = f"""*** SIGSEGV received at time=1726412230 on cpu 3 ***
PC: @     0x7f8a7c996e1a  (unknown)  {WHERE}()
    @     0x7f8a7c990001       1024  onnxruntime::GraphTransformer::Apply()
"""
HANDLER = """!!!!!!! Segfault encountered !!!!!!!
  File "./signal/../sysdeps/unix/sysv/linux/x86_64/libc_sigaction.c", line 0, in __restore_rt
  File "<unknown>", line 0, in tvm::runtime::(anonymous namespace)::backtrace_handler(int)
  File "<unknown>", line 0, in tvm::relax::FindLiveVars(tvm::relax::Function const&)
"""
LLVM = """Stack dump:
 #0 0x00007f0000 llvm::sys::PrintStackTrace(llvm::raw_ostream&, int) (/x/libtvm.so+0x3f)
 #1 0x00007f0001 __restore_rt (/lib/libc.so.6+0x42520)
 #2 0x00007f0002 llvm::X86TargetLowering::LowerBUILD_VECTOR(llvm::SDValue) const (/x/libtvm.so+0x99)
Segmentation fault (core dumped)
"""


@pytest.mark.parametrize(
    ("text", "signal", "function", "package"),
    [
        (GDB, "SIGSEGV", "NchwcTransformerImpl::TransformPool", "onnxruntime"),
        (SANITIZER, "heap-buffer-overflow", "NchwcTransformerImpl::TransformPool", "onnxruntime"),
        (GLOG, "SIGSEGV", "NchwcTransformerImpl::TransformPool", "onnxruntime"),
        (HANDLER, "SIGSEGV", "FindLiveVars", "tvm"),
        (LLVM, "SIGSEGV", "X86TargetLowering::LowerBUILD_VECTOR", ""),
    ],
    ids=["gdb", "sanitizer", "glog", "handler", "llvm"],
)
def test_the_innermost_function_that_is_no_glue_is_where_it_crashed(text, signal, function, package):
    found = read_failure(text)
    assert (found.kind, found.site, found.package) == (signal, function, package)
    assert found.is_crash


RAISED = 'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    f()\n'
OLD_TVM = """Traceback (most recent call last):
  File "/w/tvm/python/tvm/relax/vm_build.py", line 335, in build
tvm.error.InternalError: Traceback (most recent call last):
  2: tvm::relax::StorageAllocatorInit::VisitExpr_(tvm::relax::CallNode const*)
  1: tvm::relax::StorageAllocatorInit::CreateToken(tvm::relax::CallNode const*)
  0: tvm::runtime::detail::LogFatal::Entry::Finalize()
  File "/w/tvm/src/relax/transform/static_plan_block_memory.cc", line 597
InternalError: Check failed: (!block_stack_.empty()) is false:
"""


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            "terminate called after throwing an instance of 'Ort::Exception'\n"
            "  what():  Non-zero status code\nAborted (core dumped)\n[exit 134]",
            "Exception",
            "Non-zero status code",
        ),
        (
            f"{RAISED}torch._inductor.exc.InductorError: LoweringException: TypeError: no",
            "LoweringException",
            "TypeError: no",
        ),
        (
            f"{RAISED}CppCompileError: C++ compile error\n\nCommand:\ng++ /tmp/a.cpp\n\nOutput:\n"
            "/tmp/a.cpp: In function 'f':\n/tmp/a.cpp:14:30: error: no such thing\n",
            "CppCompileError",
            "no such thing",
        ),
        (
            f"{RAISED}triton.CompilationError: at 20:11:\n    tmp1 = tmp0 << 3\n           ^\ninvalid",
            "CompilationError",
            "invalid",
        ),
        (
            f"{RAISED}torch.TorchRuntimeError: Failed running call_method view(*(FakeTensor(), 4)):\n"
            "shape is invalid",
            "TorchRuntimeError",
            "shape is invalid",
        ),
        (f"{RAISED}AssertionError\n", "AssertionError", ""),
    ],
    ids=["uncaught in C++", "raised again", "C++ compiler", "Triton", "fake tensors", "no words"],
)
def test_an_exception_is_what_failed_and_not_what_passed_it_on(text, kind, message):
    found = read_failure(text)
    assert (found.kind, found.message, found.is_crash) == (kind, message, False)


def test_numbered_functions_of_an_older_trace_say_where_it_was_thrown():
    found = read_failure(OLD_TVM)
    assert found.site == "static_plan_block_memory.cc StorageAllocatorInit::CreateToken"
    assert found.package == "tvm"


@pytest.mark.parametrize(
    "file",
    [
        "C:\\Python311\\site-packages\\torch\\_dynamo\\x.py",
        "/usr/lib/python3/dist-packages/torch/fx/x.py",
        "/home/me/pytorch/torch/_inductor/graph.py",
    ],
)
def test_a_package_is_known_by_its_files_wherever_they_lie(file):
    text = f'Traceback (most recent call last):\n  File "{file}", line 3, in f\nValueError: no\n'
    assert read_failure(text).package == "torch"


# Messages without what changes, and the C++ sites in them


APPLY = (
    "[ONNXRuntimeError] : 1 : FAIL : Exception during initialization: "
    "/onnxruntime_src/onnxruntime/core/optimizer/relu_clip_fusion.cc:83 virtual onnxruntime::common::Status "
    "onnxruntime::FuseReluClip::Apply(onnxruntime::Graph&, onnxruntime::Node&, "
    "onnxruntime::RewriteRule::RewriteRuleEffect&, const onnxruntime::logging::Logger&) const "
    "Unexpected data type for Clip 'min' input of 11"
)
REFUSED_POOL = (
    "[ONNXRuntimeError] : 1 : FAIL : Exception during initialization: "
    "/onnxruntime_src/onnxruntime/core/providers/cpu/nn/pool_attributes.h:88 "
    "onnxruntime::PoolAttributes::PoolAttributes(const KernelInfoType&, const std::string&, int) "
    "[with KernelInfoType = onnxruntime::OpKernelInfo; std::string = std::__cxx11::basic_string<char>] "
    "pads[dim] < kernel_shape[dim] was false. Pad should be smaller than kernel."
)
NESTED = (
    "[ONNXRuntimeError] : 1 : FAIL : "
    "Non-zero status code returned while running Loop node. Name:'/blk.0/Loop' Status Message: "
    "Non-zero status code returned while running Reshape node. Name:'/blk.0/rs' Status Message: "
    "/onnxruntime_src/onnxruntime/core/providers/cpu/tensor/reshape_helper.h:91 "
    "onnxruntime::ReshapeHelper::ReshapeHelper(const onnxruntime::TensorShape&, TensorShapeVector&, bool) "
    "input_shape_size == requested_shape_size was false. Input shape:{3,5}, requested shape:{3,99}"
)
SHORT = (
    "[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running Mod node. Name:'m' Status "
    "Message: element_wise_ops.cc:2256 operator() Integer modulo by zero"
)


@pytest.mark.parametrize(
    ("message", "site", "op", "start"),
    [
        (APPLY, "relu_clip_fusion.cc FuseReluClip::Apply", "", "Unexpected data type"),
        (REFUSED_POOL, "pool_attributes.h PoolAttributes::PoolAttributes", "", "pads[dim] <"),
        (NESTED, "reshape_helper.h ReshapeHelper::ReshapeHelper", "Reshape", "input_shape_size =="),
        (SHORT, "element_wise_ops.cc operator()", "Mod", "Integer modulo by zero"),
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


def test_the_models_own_names_are_dropped_wherever_they_stand():
    assert (
        template("merge of layer_a and layer_b failed", ["layer_a", "layer_b"]) == "merge of * and * failed"
    )


def test_a_template_is_a_fixed_point():
    for message in (APPLY, REFUSED_POOL, NESTED, SHORT):
        once = template(parse_message(message).rest)
        assert template(once) == once


@pytest.mark.parametrize(
    ("signature", "name"),
    [
        ("void onnxruntime::BroadcastIterator::Init(ptrdiff_t, ptrdiff_t)", "BroadcastIterator::Init"),
        ("static ns::Vector<ns::Map<int, A>> ns::Base<T>::Make(const A&)", "Base::Make"),
        ("void* onnxruntime::BFCArena::AllocateRawInternal(size_t)", "BFCArena::AllocateRawInternal"),
        ("tvm::ffi::Optional<tvm::X> tvm::relax::CheckShape(const tvm::Call&)", "CheckShape"),
    ],
)
def test_a_function_is_known_by_its_class_and_name(signature, name):
    assert function_name(signature) == name


def test_rendered_operators_and_code_leave_their_names():
    text = (
        'ir.Op(span=None, ty=ir.Type(span=None), name="relax.sqrt", description="x", arguments=(), '
        "num_inputs=1, support_level=10) requires a float, but R.add(lv2, R.const(0, dtype)) is not\n"
        "  %10 = fcmp oeq i1 %6, %9, !dbg !42\n"
    )
    assert template(text) == "relax.sqrt requires a float, but R.add(*) is not"


def test_of_what_a_compiler_writes_its_first_complaint_is_the_message():
    message = (
        "CppCompileError: C++ compile error\n\nCommand:\ng++ /tmp/x/c1.cpp -O3 -o /tmp/x/c1.so\n\nOutput:\n"
        "/tmp/x/c1.cpp: In function 'void kernel()':\n/tmp/x/c1.cpp:22:57: error: no match for 'f(int)'\n"
        "   22 |  f(x)\n/tmp/x/c1.cpp:23:1: error: another\n"
    )
    assert parse_message(message).rest == "CppCompileError: no match for 'f(int)'"


def test_a_node_without_a_name_says_the_same():
    named, nameless = "Node Size_v12 cannot handle ShapeExpr inputs.", "Node  cannot handle ShapeExpr inputs."
    assert template(named, ["Size_v12"]) == template(nameless)


# A failure is read the same out of whatever log or quotation it stands in


TEXT = """Traceback (most recent call last):
  File "/opt/app/serve.py", line 12, in handle
    return session.run(None, feeds)
onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument: [ONNXRuntimeError] : 2 : INVALID_ARGUMENT : \
Non-zero status code returned while running FastGelu node. Name:'g' Status Message: Input 0 is too flat"""

LINES = TEXT.splitlines()
FORMS = {
    "container": "\n".join(f"2026-11-22T16:04:01.12Z stderr F {line}" for line in LINES),
    "journal": "\n".join(f"Nov 22 16:04:01 host serve[812]: {line}" for line in LINES),
    "compose": "\n".join(f"server-1  | {line}" for line in LINES),
    "quoted": "\n".join(f"> {line}" for line in ["Since the update:", "```", *LINES, "```"]),
    "structured": json.dumps({"level": "error", "error": {"stack": TEXT}}),
    "junit": f'<testcase><failure message="m">{html.escape(TEXT)}</failure></testcase>',
    "boxed": "\n".join(["╭─ Error ───╮", *(f"│ {line} │" for line in LINES), "╰───────────╯"]),
    "set in": "\n".join(["1. run it", "", *(f"        {line}" for line in LINES)]),
    "of fields": "\n".join(f'16:04:{at:02d}\tERROR\tserve\t"{line}"' for at, line in enumerate(LINES)),
    "rank": "\n".join(f"[rank0][serve]: {line}" for line in LINES),
    "windows": TEXT.replace("/", "\\").replace("\n", "\r\n"),
    "pytest": "\n".join(["    def test():", ">       run()", *(f"E   {line}" for line in LINES)]),
}


@pytest.mark.parametrize("form", sorted(FORMS))
def test_a_form_changes_nothing_of_what_is_read(form):
    assert read_failure(FORMS[form]) == read_failure(TEXT)


@pytest.mark.parametrize(
    "text", ["", "{", '{"a": 1}', "> one quoted line\nand one that is not", TEXT, "{}\n{"]
)
def test_what_stands_in_no_form_stays_as_it_is(text):
    assert as_written(text) == text
