"""A failure is read out of its text, in whatever form a debugger, a shell or a release gives it."""

from __future__ import annotations

import pytest

from oracles.text.failure_text import read_failure

POOL = "onnxruntime::NchwcTransformerImpl::TransformPool"
GDB = f"""Thread 12 "python" received signal SIGSEGV, Segmentation fault.
#0  0x00007fb284de31be in memcpy () from /lib/x86_64-linux-gnu/libc.so.6
#1  0x00007fb284de6111 in {POOL} (this=0x55d0, node=...) from /opt/lib/libonnxruntime.so.1.20.1
#2  0x00007fb284da86fa in onnxruntime::GraphTransformer::Apply (this=0x1) at /src/graph_transformer.cc:33
"""
SANITIZER = f"""==63002==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x748e0e5fe848 at pc 0x7
READ of size 4 at 0x748e0e5fe848 thread T12
    #0 0x748e3fefa47b in __interceptor_memcpy ../../libsanitizer/sanitizer_common.inc:115
    #1 0x748e3f498884 in {POOL}(onnxruntime::Node&) const /src/onnxruntime/core/nchwc_transformer.cc:410:9
SUMMARY: AddressSanitizer: heap-buffer-overflow /src/onnxruntime/core/nchwc_transformer.cc:410
"""
GLOG = f"""*** SIGSEGV received at time=1726412230 on cpu 3 ***
PC: @     0x7f8a7c996e1a  (unknown)  {POOL}()
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
