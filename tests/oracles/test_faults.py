"""The fault matrix: a real library function, called by a real kernel, is made to fail in every way."""

import platform
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from oracles.sandbox.processes import Zygote, crash_handler
from oracles.sandbox.sandbox import Job, Sandbox
from oracles.verdict import Config, Limits, Phase, Run, Status
from tests.helpers.models import model_of

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the faults are x86-64 code")

BACKEND = str(Path(__file__).with_name("sandboxed") / "faulty.py")
LIMITS = Limits(cpu_seconds=0.3, wall_seconds=2.0, memory_bytes=512 << 20)
SOUND = Config("sound", (("level", "all"),))

MATRIX = [
    ("sigsegv", Status.CRASH, signal.SIGSEGV),
    ("sigfpe", Status.CRASH, signal.SIGFPE),
    ("sigill", Status.CRASH, signal.SIGILL),
    ("abort", Status.CRASH, signal.SIGABRT),
    ("exit", Status.CRASH, 0),
    ("_exit", Status.CRASH, 0),
    ("loop", Status.TIMEOUT, 0),
    ("sleep", Status.TIMEOUT, 0),
    ("overflow", Status.CRASH, signal.SIGSEGV),
    ("bad_alloc", Status.OUT_OF_MEMORY, None),
]


def sinh() -> bytes:
    return model_of("g (float[4] x) => (float[4] y) { y = Sinh (x) }", 18, 9).SerializeToString()


def job(*configs: Config) -> Job:
    return Job(sinh(), {"x": np.ones(4, np.float32)}, configs)


def broken(fault: str) -> Config:
    return Config(fault, (("level", "all"), ("fault", fault)))


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(BACKEND, limits=LIMITS) as found:
        yield found


def is_sound(run: Run) -> bool:
    return run.is_ok and bool(np.allclose(np.asarray(run.outputs["y"]), np.sinh(1.0)))


@pytest.mark.parametrize("fresh", [False, True], ids=["persistent", "fresh"])
@pytest.mark.parametrize(("fault", "status", "number"), MATRIX, ids=[row[0] for row in MATRIX])
def test_each_fault_gets_its_own_verdict(sandbox, fault, status, number, fresh):
    before = sandbox.ask("reached")
    assert is_sound(sandbox.run(job(SOUND))[0])
    assert sandbox.ask("reached") == before

    (run,) = sandbox.run(job(broken(fault)), fresh=fresh)

    assert (run.status, run.phase) == (status, Phase.EXECUTE), run.trace
    assert number is None or run.signal == number
    assert sandbox.ask("reached") > before
    assert is_sound(sandbox.run(job(SOUND), fresh=fresh)[0])


@pytest.mark.parametrize("fault", ["sigsegv", "sigfpe", "sigill", "overflow", "loop"])
@pytest.mark.skipif(crash_handler()[0] is None, reason=crash_handler()[1])
def test_the_innermost_frame_is_the_faulty_function(sandbox, fault):
    (run,) = sandbox.run(job(broken(fault)), fresh=True)

    assert (run.frames[0].function, run.frames[0].library.split(".")[0]) == ("sinhf", "libm")


@pytest.mark.skipif(crash_handler()[0] is None, reason=crash_handler()[1])
def test_the_frames_lead_from_the_fault_to_the_framework(sandbox):
    (run,) = sandbox.run(job(broken("bare sigill")), fresh=True)

    assert run.frames[0].function == "sinhf"
    assert any("onnxruntime" in frame.library for frame in run.frames[1:])


@pytest.mark.parametrize(("fault", "code"), [("exit", 3), ("_exit", 0)])
def test_an_exit_says_its_code(sandbox, fault, code):
    (run,) = sandbox.run(job(broken(fault)))

    assert run.message.splitlines()[0] == f"the process exited with code {code}"


@pytest.mark.parametrize("fault", ["sigsegv", "exit", "loop"])
def test_the_next_test_takes_a_fork_and_no_new_import(sandbox, fault, monkeypatch):
    forks: list[Zygote] = []
    fork = Zygote.fork
    monkeypatch.setattr(Zygote, "fork", lambda zygote: (forks.append(zygote), fork(zygote))[1])
    sandbox.run(job(SOUND))
    forks.clear()
    runs = sandbox.run(job(broken(fault), SOUND))
    assert [is_sound(run) for run in runs] == [False, True]
    assert forks == [sandbox._zygote]


def test_without_a_c_handler_python_tells_of_the_crash(monkeypatch):
    monkeypatch.setattr("oracles.sandbox.processes.crash_handler", lambda: (None, "no C compiler"))
    with Sandbox(BACKEND, limits=LIMITS) as plain:
        crash, loop, sound = plain.run(job(broken("sigsegv"), broken("loop"), SOUND))

        assert plain.facts["crash_handler"] == "no C compiler"
        assert (crash.status, crash.signal, crash.frames) == (Status.CRASH, signal.SIGSEGV, ())
        assert "Fatal Python error: Segmentation fault" in crash.trace
        assert (loop.status, sound.status) == (Status.TIMEOUT, Status.OK)
