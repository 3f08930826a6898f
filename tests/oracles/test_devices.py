"""GPUs: how they are asked for, what their errors cost; and, where there is one, that it comes to the same.

Without a GPU, `cpu:0` stands for the device of torch; that it was used is seen from outside.
"""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from corpus.case import Case
from corpus.errors import UserError
from corpus.target import Target
from oracles.backends import find_backend
from oracles.judge import Judge
from oracles.sandbox import worker
from oracles.sandbox.executor import configs_of, without_twins
from oracles.sandbox.sandbox import Job, Sandbox
from oracles.sandbox.worker import DEVICE_ERRORS, OUT_OF_MEMORY, device_error
from oracles.verdict import Config, Limits, Outcome, Status
from tests.helpers.models import model_of

GPU = os.path.exists("/dev/nvidiactl")
ODD = str(Path(__file__).parent / "sandboxed" / "odd.py")
LIMITS = Limits(cpu_seconds=2.0, wall_seconds=10.0, memory_bytes=256 << 20)
WAYS = tuple(Config(name) for name in ("first", "second", "third"))
ILLEGAL = "CUDA error: an illegal memory access was encountered"
TARGETS = ["ort:cuda", "torch:cuda", "inductor:cuda", "tvm:cuda"]


def model() -> bytes:
    """Two operators and a weight, so that something has to be moved to the device."""
    text = "g (float[2,3] x) => (float[2,3] y) <float[3] w = {1, 2, 3}> { s = Add (x, w) y = Exp (s) }"
    return model_of(text).SerializeToString()


INPUTS = {"x": np.arange(6, dtype=np.float32).reshape(2, 3) / 6}


@pytest.mark.parametrize("target", TARGETS)
def test_what_runs_on_a_gpu_is_compared_with_the_cpu(target):
    first, *others = configs_of(Target.parse(target), "onnx")
    assert first.get("device") in (None, "cpu")
    assert first.get("providers") in (None, ("CPUExecutionProvider",))
    on_gpu = [
        each
        for each in others
        if each.get("device") == "cuda" or "CUDAExecutionProvider" in (each.get("providers") or ())
    ]
    assert on_gpu
    with pytest.raises(UserError, match="runs on cpu and cuda"):
        find_backend("torch").configs(Target.parse("torch:tpu"))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (ILLEGAL, "CudaIllegalAddress"),
        ("CUDA failure 700: an illegal memory access was encountered ; GPU=0", "CudaIllegalAddress"),
        ("CUDAError: cuModuleUnload failed with error: CUDA_ERROR_ILLEGAL_ADDRESS", "CudaIllegalAddress"),
        ("CUDA error: unspecified launch failure", "CudaLaunchFailure"),
        ("CUDA error: device-side assert triggered", "CudaAssert"),
        ("CUDA error: misaligned address", "CudaMisalignedAddress"),
        ("CUDA error: no kernel image is available for execution on the device", ""),
        ("CUDA out of memory. Tried to allocate 20.00 GiB", ""),
        ("misaligned address", ""),
    ],
)
def test_errors_after_which_a_device_is_lost_have_names(text, name):
    assert device_error(text) == name
    assert name in ("", *(each for each, _ in DEVICE_ERRORS))


@pytest.mark.parametrize(
    "text", ["CUDA out of memory. Tried to allocate 2 GiB", "CUDA_ERROR_OUT_OF_MEMORY: out"]
)
def test_a_device_without_memory_is_out_of_memory(text):
    assert OUT_OF_MEMORY.search(text)


def test_a_lost_device_costs_one_worker_and_the_other_ways_run_in_a_new_one():
    with Sandbox(ODD, limits=LIMITS) as sandbox:
        before = sandbox.ask("pid")
        runs = sandbox.run(Job(f"throw {ILLEGAL}".encode(), {}, WAYS))
        assert [run.error for run in runs] == ["CudaIllegalAddress"] * 3
        assert {run.status for run in runs} == {Status.EXCEPTION}
        after = sandbox.ask("pid")
        assert after != before
        (fine,) = sandbox.run(Job(b"echo", {"x": np.ones(1)}, WAYS[:1]))
        assert fine.is_ok
        runs = sandbox.run(Job(b"throw an ordinary error", {}, WAYS))
        assert {run.error for run in runs} == {"LookupError"}
        assert sandbox.ask("pid") == after


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # of torch's own imports
@pytest.mark.parametrize("name", ["torch", "inductor"])
def test_a_graph_built_on_the_cpu_is_moved_to_the_device_with_its_weights_and_inputs(name, monkeypatch):
    torch = pytest.importorskip("torch")
    from oracles.worker.torch import data

    moved: list[Any] = []
    real = torch.nn.Module.to
    monkeypatch.setitem(data.NAMES, "cuda", "cpu:0")
    monkeypatch.setattr(torch.nn.Module, "to", lambda self, where: moved.append(where) or real(self, where))
    made_on: list[Any] = []
    device = lambda where: made_on.append(where) or torch.device(where)  # noqa: E731
    seen = SimpleNamespace(**{**vars(torch), "device": device})
    monkeypatch.setattr(data, "torch", seen)
    settings = {"device": "cuda", "backend": "eager"}
    found = find_worker_half(name).run(model(), dict(INPUTS), settings, None, lambda phase: None)
    assert (moved, made_on) == (["cpu:0"], ["cpu:0"])
    np.testing.assert_allclose(found["y"], np.exp(INPUTS["x"] + np.float32([1, 2, 3])), rtol=1e-6)
    moved.clear()
    find_worker_half(name).run(model(), dict(INPUTS), {"backend": "eager"}, None, lambda phase: None)
    assert moved == []


@pytest.mark.slow
def test_tvm_runs_a_graph_on_the_device_that_it_was_built_for(monkeypatch):
    """The CPU under the name of the GPU: each argument goes to the device, and the machine is made for it."""
    tvm = pytest.importorskip("tvm")
    backend = find_worker_half("tvm")
    asked: list[str] = []
    monkeypatch.setattr(tvm, "cuda", lambda: asked.append("cuda") or tvm.cpu())
    built_for = backend._target
    monkeypatch.setattr(backend, "_target", lambda settings: asked.append("built") or built_for({}))
    given: list[Any] = []
    real = backend._to_tvm
    monkeypatch.setattr(backend, "_to_tvm", lambda *words: given.append(words[2]) or real(*words))
    assert built_for({"device": "cuda"}).kind.name == "cuda"
    settings = {"device": "cuda", "format": "onnx"}
    found = backend.run(model(), dict(INPUTS), settings, None, lambda phase: None)
    assert asked == ["built", "cuda"]
    assert [str(each) for each in given] == [str(tvm.cpu())]
    np.testing.assert_allclose(found["y"], np.exp(INPUTS["x"] + np.float32([1, 2, 3])), rtol=1e-6)


def test_onnxruntime_is_asked_for_the_provider_of_the_device(monkeypatch):
    """The CPU's provider under the name of the GPU's: all of a run but the kernels."""
    pytest.importorskip("onnxruntime")
    from oracles.worker.ort import sessions

    real, started = sessions.core, list[Any]()

    class Session:
        def __init__(self, *words: Any) -> None:
            self.session = real.InferenceSession(*words)

        def initialize_session(self, providers: list[str], *words: Any) -> None:
            started.append(tuple(providers))
            self.session.initialize_session(["CPUExecutionProvider"], [{}], *words[1:])

        def __getattr__(self, name: str) -> Any:
            return getattr(self.session, name)

    there = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    faked = SimpleNamespace(
        InferenceSession=Session,
        get_available_providers=lambda: there,
        OrtValue=real.OrtValue,
        SparseTensor=real.SparseTensor,
    )
    monkeypatch.setattr(sessions, "core", faked)
    monkeypatch.setattr(sessions, "session_options", lambda *_: real.SessionOptions())
    on_gpu = configs_of(Target.parse("ort:cuda"), "onnx")[-1]
    settings = dict(on_gpu.settings)
    found = find_worker_half("ort").run(model(), dict(INPUTS), settings, None, lambda phase: None)
    assert started == [tuple(there)]
    np.testing.assert_allclose(found["y"], np.exp(INPUTS["x"] + np.float32([1, 2, 3])), rtol=1e-6)


def test_a_zygote_that_has_opened_the_gpu_forks_no_worker(monkeypatch):
    monkeypatch.setattr(os, "listdir", lambda path: ["7"])
    monkeypatch.setattr(os, "readlink", lambda path: "/dev/null")
    worker.must_be_forkable()
    monkeypatch.setattr(os, "readlink", lambda path: "/dev/nvidia0")
    with pytest.raises(RuntimeError, match="opened the GPU"):
        worker.must_be_forkable()


def test_a_process_that_has_started_the_gpu_is_never_forked(monkeypatch):
    torch = pytest.importorskip("torch")
    from oracles.worker.lowered import module

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("it was forked"))
    assert not module.survives(lambda *operands: None, [torch.ones(1, dtype=torch.int64)])


def find_worker_half(name: str) -> Any:
    from importlib import import_module

    return import_module(f"oracles.backends.{name}")


@pytest.mark.slow
@pytest.mark.skipif(GPU, reason="there is a GPU here")
@pytest.mark.parametrize("target", ["ort:cuda", "torch:cuda"])
def test_a_device_that_is_not_there_is_no_verdict_but_the_users_to_mend(target):
    chosen = Target.parse(target)
    case = Case("onnx", model(), INPUTS, chosen)
    with Judge(chosen) as judge, pytest.raises(UserError, match="choose another target"):
        judge.verdict(case)


@pytest.mark.gpu
@pytest.mark.skipif(not GPU, reason="there is no GPU here")
@pytest.mark.parametrize("target", TARGETS)
def test_a_gpu_comes_to_what_the_cpu_comes_to(target):
    chosen = Target.parse(target)
    with Judge(chosen) as judge:
        verdict = judge.verdict(Case("onnx", model(), INPUTS, chosen))
    if verdict.outcome is Outcome.UNSUPPORTED:
        pytest.skip(verdict.title)
    assert verdict.outcome is Outcome.PASS, verdict.title


def loops(kind: str) -> Case:
    """A loop that adds one to each element, each of its turns a thread, or none of them."""
    domain = [0, 4]
    thread = {"thread": {"name": "t", "dtype": "int32", "kind": 1, "tag": "threadIdx.x", "domain": domain}}
    told = [thread] if kind == "thread" else []
    body = {"body": [["store", "A", ["i"], ["add", ["load", "A", "i"], 1]]]}
    main: dict[str, Any] = {
        "params": [{"name": "A", "shape": [4], "dtype": "int32"}],
        "returns": "void",
        "attrs": {},
    }
    main["body"] = [["for", "i", "int32", *domain, kind, *told, body]]
    program = json.dumps({"format": "tir", "version": 1, "functions": {"main": main}}).encode()
    return Case("tir", program, {"A": np.arange(4, dtype=np.int32)}, Target.parse("tvm:cuda"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["thread", "serial"])
def test_loops_are_compiled_for_a_device_that_is_not_there(kind):
    pytest.importorskip("tvm_ffi", reason="TVM is not installed")
    with Judge(Target.parse("tvm:cuda@run=off"), format="tir") as judge:
        verdict = judge.verdict(loops(kind))
    assert verdict.outcome is Outcome.PASS, verdict.title
    assert not verdict.runs[-1].outputs


@pytest.mark.gpu
@pytest.mark.skipif(not GPU, reason="there is no GPU here")
def test_a_gpu_runs_loops_of_threads_as_the_interpreter_does():
    with Judge(Target.parse("tvm:cuda"), format="tir") as judge:
        verdict = judge.verdict(loops("thread"))
    assert verdict.outcome is Outcome.PASS, verdict.title
    assert any(run.outputs for run in verdict.runs if run.config.get("device") == "cuda")


def test_each_way_of_loops_has_a_name_of_its_own_and_a_program_without_passes_runs_none_twice():
    ways = configs_of(Target("tvm"), "tir")
    assert len({way.label for way in ways}) == len(ways)
    assert without_twins(ways, ("tirx.UnrollLoop",)) == ways
    assert [way.label for way in without_twins(ways, ())] == ["least -O0", "default -O3", "default -O0"]
