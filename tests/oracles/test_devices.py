"""GPUs: how they are asked for, what their errors cost, and, if there is one, that it comes to the same."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from corpus.case import Case
from corpus.errors import UserError
from corpus.target import Target
from oracles.judge import Judge
from oracles.sandbox import worker
from oracles.sandbox.executor import configs_of, without_twins
from oracles.sandbox.sandbox import Job, Sandbox
from oracles.sandbox.worker import OUT_OF_MEMORY, device_error
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
    first, *others = (str(way.settings) for way in configs_of(Target.parse(target), "onnx"))
    assert "cuda" not in first.lower()
    assert any("cuda" in way.lower() for way in others)


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
    assert bool(OUT_OF_MEMORY.search(text)) == ("out of memory" in text)


def test_a_lost_device_costs_one_worker_and_the_other_ways_run_in_a_new_one():
    with Sandbox(ODD, limits=LIMITS) as sandbox:
        before = sandbox.ask("pid")
        runs = sandbox.run(Job(f"throw {ILLEGAL}".encode(), {}, WAYS))
        assert [(run.status, run.error) for run in runs] == [(Status.EXCEPTION, "CudaIllegalAddress")] * 3
        after = sandbox.ask("pid")
        assert after != before
        runs = sandbox.run(Job(b"throw an ordinary error", {}, WAYS))
        assert {run.error for run in runs} == {"LookupError"}
        assert sandbox.ask("pid") == after


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


@pytest.mark.skipif(GPU, reason="there is a GPU here")
@pytest.mark.parametrize("target", ["ort:cuda", pytest.param("torch:cuda", marks=pytest.mark.slow)])
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
    body = {"body": [["store", "A", ["i"], ["add", ["load", "A", "i"], 1]]]}
    loop = ["for", "i", "int32", *domain, kind, *([thread] if kind == "thread" else []), body]
    params = [{"name": "A", "shape": [4], "dtype": "int32"}]
    main = {"params": params, "returns": "void", "attrs": {}, "body": [loop]}
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
