"""The sandbox: what goes in comes out, limits hold, and nothing is left behind whoever dies."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from corpus.case import ExternalFile
from corpus.errors import UserError
from corpus.values import Value
from oracles.sandbox import scratch
from oracles.sandbox.processes import Zygote, crash_handler
from oracles.sandbox.sandbox import Job, Sandbox, SandboxError
from oracles.sandbox.scratch import HALF_MADE, Scratch
from oracles.verdict import Config, Limits, Phase, Run, Status
from tests.helpers.commands import completed, is_gone, waited_for

HERE = Path(__file__).parent
ODD = str(HERE / "sandboxed" / "odd.py")
LIMITS = Limits(cpu_seconds=2.0, wall_seconds=2.0, memory_bytes=256 << 20)
PLAIN = Config("plain")


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(ODD, limits=LIMITS) as found:
        yield found


def do(sandbox: Sandbox, action: str, value: Value = None, *, fresh: bool = False) -> Run:
    return sandbox.run(Job(action.encode(), {"x": value}, (PLAIN,)), fresh=fresh)[0]


def echo(sandbox: Sandbox, value: Value) -> Value:
    run = do(sandbox, "echo", value)
    assert run.is_ok, run.trace
    return run.outputs["y"]


def descendants(pid: int) -> Iterator[int]:
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        yield int(child)
        yield from descendants(int(child))


def processes_of(own: Sandbox) -> list[int]:
    """The first process of its namespace, the zygote and the worker, as they are called outside."""
    own.ask("pid")
    return [*descendants(own.zygote()._program.process.pid)]


# Values

TYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
    *("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    *("float4_e2m1fn", "int4", "uint4"),
]


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)], ids=str)
@pytest.mark.parametrize("name", TYPES)
def test_an_array_comes_back_as_it_was(sandbox, name, shape):
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    value = np.ones(shape).astype(dtype)

    found = echo(sandbox, value)

    assert (found.dtype, found.shape, found.tobytes()) == (value.dtype, value.shape, value.tobytes())


def test_a_program_that_writes_to_its_input_does_not_spoil_the_next_config(sandbox):
    runs = sandbox.run(Job(b"scribble", {"x": np.ones(3)}, (PLAIN, PLAIN)))

    assert [np.asarray(run.outputs["y"]).tolist() for run in runs] == [[1, 1, 1]] * 2


# Failures: each is told apart, and leaves the next test alone

HAS_HANDLER = pytest.mark.skipif(crash_handler()[0] is None, reason=crash_handler()[1])
FAULTS = {
    "libc fclose 8": (Status.CRASH, signal.SIGSEGV),
    "libc raise 8": (Status.CRASH, signal.SIGFPE),
    "libc raise 4": (Status.CRASH, signal.SIGILL),
    "libc abort 0": (Status.CRASH, signal.SIGABRT),
    "libc exit 3": (Status.CRASH, 0),
    "libc _exit 0": (Status.CRASH, 0),
    "overflow": (Status.CRASH, signal.SIGSEGV),
    "spin 100": (Status.TIMEOUT, 0),
    "sleep 100": (Status.TIMEOUT, 0),
    "kill": (Status.OUT_OF_MEMORY, signal.SIGKILL),  # as the kernel does
    "starving": (Status.OUT_OF_MEMORY, 0),  # once there is an answer
    "exit 3": (Status.EXCEPTION, 0),
}


@pytest.mark.parametrize("fresh", [False, True], ids=["persistent", "fresh"])
@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_gets_its_own_verdict(sandbox, fault, fresh):
    run = do(sandbox, fault, fresh=fresh)

    assert (run.status, run.signal) == FAULTS[fault], run.trace
    assert run.phase is Phase.EXECUTE
    assert do(sandbox, "echo", fresh=fresh).is_ok


@HAS_HANDLER
def test_the_innermost_frame_is_the_faulty_function(sandbox):
    innermost = do(sandbox, "libc fclose 8").frames[0]

    assert "fclose" in innermost.function
    assert innermost.library.startswith("libc")


@pytest.mark.parametrize(("fault", "code"), [("libc exit 3", 3), ("libc _exit 0", 0)])
def test_an_exit_says_its_code(sandbox, fault, code):
    assert do(sandbox, fault).message.splitlines()[0] == f"the process exited with code {code}"


@pytest.mark.parametrize("fault", ["libc fclose 8", "libc exit 3", "sleep 100"])
def test_the_next_test_takes_a_fork_and_no_new_import(sandbox, fault, monkeypatch):
    forks: list[Zygote] = []
    fork = Zygote.fork
    monkeypatch.setattr(Zygote, "fork", lambda zygote: (forks.append(zygote), fork(zygote))[1])
    do(sandbox, "echo")
    forks.clear()
    assert not do(sandbox, fault).is_ok
    assert do(sandbox, "echo").is_ok
    assert forks == [sandbox.zygote()]


def test_without_a_c_handler_python_tells_of_the_crash(monkeypatch):
    monkeypatch.setattr("oracles.sandbox.processes.crash_handler", lambda: (None, "no C compiler"))
    with Sandbox(ODD, limits=LIMITS) as plain:
        crash = do(plain, "libc fclose 8")

        assert plain.facts["crash_handler"] == "no C compiler"
        assert (crash.status, crash.signal, crash.frames) == (Status.CRASH, signal.SIGSEGV, ())
        assert "Fatal Python error: Segmentation fault" in crash.trace
        assert do(plain, "spin 100").status is Status.TIMEOUT
        assert do(plain, "echo").is_ok


@pytest.mark.parametrize("fresh", [False, True])
def test_an_exception_is_data(sandbox, fresh):
    run = do(sandbox, "throw no such thing", fresh=fresh)

    assert (run.status, run.error, run.message) == (Status.EXCEPTION, "LookupError", "no such thing")
    assert run.trace.endswith("LookupError: no such thing\n")


def test_a_failure_of_the_workers_own_is_ours_and_no_crash(sandbox):
    with pytest.raises(SandboxError, match=r"(?s)not the framework.*encode.*ValueError"):
        do(sandbox, "unsendable")
    assert do(sandbox, "echo", np.ones(1)).is_ok


def test_who_computes_is_not_ended_by_the_wall_clock_however_little_it_gets():
    limits = Limits(cpu_seconds=20.0, wall_seconds=0.3, memory_bytes=256 << 20)
    with Sandbox(ODD, limits=limits) as impatient:
        assert do(impatient, "spin 1.0").is_ok
        assert do(impatient, "sleep 30").status is Status.TIMEOUT


@pytest.mark.parametrize("phase", ["import", "optimise", "codegen", "execute"])
def test_a_crash_names_its_phase(sandbox, phase):
    config = Config("here", (("phase", phase),))
    (run,) = sandbox.run(Job(b"talk oops", {}, (config,)))

    assert (run.status, run.phase, run.signal) == (Status.CRASH, Phase(phase), signal.SIGSEGV)
    assert run.message == "oops"


def test_what_one_test_wrote_is_not_in_the_next_ones_message(sandbox):
    do(sandbox, "talk first")

    assert do(sandbox, "talk second").message == "second"


@pytest.mark.parametrize(
    "header",
    [
        "[]",
        "{}",
        '{"test":7,"config":0,"total":0,"outputs":[],"status":"ok","phase":"execute","cpu":0}',
        "[" * 100_000,
        '{"test":1,"config":0,"total":"x"}',
        '{"test":1,"config":0,"total":0,"outputs":[["y",["object",[1],8]]],"status":"ok","phase":"execute","cpu":0}',
        '{"test":1,"config":0,"total":0,"outputs":[["y",["int8",[99],0]]],"status":"ok","phase":"execute","cpu":0}',
        '{"test":1,"config":0,"total":0,"outputs":[],"status":"ok","phase":"execute","cpu":0,"log":7}',
    ],
)
def test_a_reply_that_cannot_be_understood_is_a_crash(sandbox, header):
    run = do(sandbox, f"reply {header}", fresh=True)

    assert run.status is Status.CRASH
    assert "no reply" in run.message


def test_after_an_interruption_the_next_job_gets_its_own_answer(sandbox, monkeypatch):
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sandbox, "_receive", interrupt)
        with pytest.raises(KeyboardInterrupt):
            do(sandbox, "echo", np.zeros(3))

    assert np.asarray(echo(sandbox, np.ones(2))).tolist() == [1, 1]


def test_memory_is_limited_and_the_worker_renewed(sandbox):
    before = sandbox.ask("pid")

    assert do(sandbox, f"allocate {512 << 20}").status is Status.OUT_OF_MEMORY
    assert do(sandbox, f"allocate {32 << 20}").is_ok
    assert sandbox.ask("pid") != before


@pytest.mark.parametrize("which", [-1, -2], ids=["worker", "zygote"])
def test_what_died_between_two_tests_is_replaced_and_not_held_against_the_second(which):
    with Sandbox(ODD, limits=LIMITS) as own:
        processes = processes_of(own)
        os.kill(processes[which], signal.SIGKILL)
        assert waited_for(lambda: is_gone(processes[-1]))

        assert do(own, "echo").is_ok
        assert do(own, "echo", fresh=True).is_ok


def test_a_question_that_cannot_be_answered_is_our_own_failure(sandbox):
    with pytest.raises(SandboxError, match="pid"):
        sandbox.ask("pid", 0, 0, 0)

    assert do(sandbox, "echo").is_ok


# Workers


def test_a_worker_is_kept_until_it_is_renewed():
    with Sandbox(ODD, limits=LIMITS, renew_after=3) as own:
        pids = []
        for _ in range(6):
            do(own, "echo")
            pids.append(own.ask("pid") if len(pids) % 3 < 2 else pids[-1])

    assert pids[0] == pids[1]
    assert pids[3] == pids[4]
    assert pids[0] != pids[3]


def test_a_worker_has_one_thread_and_leaves_no_core_file(sandbox):
    assert (sandbox.ask("threads"), sandbox.ask("core_limit")) == (1, 0)


def test_a_sandbox_outlives_the_thread_that_started_it():
    with Sandbox(ODD, limits=LIMITS) as own:
        thread = threading.Thread(target=do, args=(own, "echo"))
        thread.start()
        thread.join()
        pid = own.ask("pid")
        time.sleep(0.2)

        assert do(own, "echo").is_ok
        assert own.ask("pid") == pid


# Users' mistakes and our own


def test_what_was_begun_early_is_told_by_the_first_job_when_it_fails(tmp_path):
    backend = tmp_path / "absent.py"
    backend.write_text("def load():\n    import a_framework_that_is_absent\n")
    with Sandbox(str(backend)) as own:
        own.zygote()
        for _ in range(2):
            with pytest.raises(UserError, match="a_framework_that_is_absent"):
                do(own, "echo")


@pytest.mark.parametrize("source", ["", "exit 0", "echo Python 2.7 >&2; exit 1"])
def test_a_program_that_is_no_python_or_is_not_there_is_the_users_to_mend(tmp_path, source):
    program = tmp_path / "python"
    if source:
        program.write_text(f"#!/bin/sh\n{source}\n")
        program.chmod(0o755)
    said = "no Python" if source else str(program)
    with Sandbox(ODD, python=str(program)) as own, pytest.raises(UserError, match=said):
        do(own, "echo")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def load():\n    raise ValueError('not today')\n", "not today"),
        ("import threading\ndef load():\n    threading.Timer(9, print).start()\n", "threads"),
    ],
    ids=["raises", "starts a thread"],
)
def test_a_backend_that_cannot_be_forked_is_our_own_failure(tmp_path, source, reason):
    backend = tmp_path / "bad.py"
    backend.write_text(source)
    with Sandbox(str(backend)) as own, pytest.raises(SandboxError, match=reason):
        do(own, "echo")


# External data


def external(folder: Path, location: str = "sub/weights.bin") -> ExternalFile:
    path = folder / "weights.bin"
    path.write_text("the weights")
    return ExternalFile(location, path, path.stat().st_size)


def test_external_data_is_not_copied_where_it_can_be_linked(tmp_path):
    place = scratch.Scratch()
    with contextlib.closing(place):
        file = external(tmp_path)
        found = place.lay_out(b"", (file,))
        linked = Path(found["path"]).parent / file.location

        assert (
            linked.stat().st_ino == file.path.stat().st_ino or linked.stat().st_dev != file.path.stat().st_dev
        )


@pytest.mark.parametrize("location", ["../weights.bin", "sub/../../weights.bin", "/etc/weights.bin", "."])
def test_external_data_does_not_leave_its_folder(tmp_path, location):
    place = scratch.Scratch()
    with contextlib.closing(place), pytest.raises(ValueError, match="outside"):
        place.lay_out(b"", (external(tmp_path, location),))


# Nothing is left behind


OWNER = """
import sys
sys.path.insert(0, {root!r})
from oracles.verdict import Config, Limits
from oracles.sandbox.sandbox import Job, Sandbox
own = Sandbox({backend!r}, limits=Limits(cpu_seconds=100, wall_seconds=100))
folder = own.ask("environment")["TMPDIR"]
print(own._zygote._program.process.pid, folder, flush=True)
own.run(Job({action!r}, {{}}, (Config("plain"),)))
"""


@pytest.mark.parametrize("action", [b"sleep 100", b"echo"], ids=["busy", "idle"])
def test_nothing_outlives_a_crux_that_is_killed(action):
    script = OWNER.format(root=str(HERE.parents[1]), backend=ODD, action=action)
    if action == b"echo":
        script += "\nimport time\ntime.sleep(100)\n"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as owner:
        pid, folder = owner.stdout.readline().split()
        processes = [int(pid), *descendants(int(pid))]
        time.sleep(0.3)
        owner.kill()

    assert len(processes) >= 3  # the launcher, the first process of the namespace, the zygote, a worker
    assert waited_for(lambda: all(map(is_gone, processes)))
    assert waited_for(lambda: not Path(folder).parent.exists())


# Containment


FORBIDDEN = """
import ctypes, struct, sys
sys.path.insert(0, {root!r})
# A seccomp filter under which unshare, mount and capset are refused, as containers have it.
code = [(0x20, 0, 0, 0)]
for number in {numbers!r}:
    code += [(0x15, 0, 1, number), (0x06, 0, 0, 0x00050001)]
code += [(0x06, 0, 0, 0x7FFF0000)]
program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in code))
class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]
rules = Filter(len(code), ctypes.addressof(program))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(rules), 0, 0) == 0, ctypes.get_errno()
from oracles.verdict import Config
from oracles.sandbox.sandbox import Job, Sandbox
with Sandbox({backend!r}) as own:
    (run,) = own.run(Job(b"echo", {{}}, (Config("plain"),)))
    print(run.status, own.facts["containment"])
"""
CALLS = {"x86_64": [165, 272, 442, 126], "aarch64": [40, 97, 442, 91]}


def test_where_the_system_forbids_namespaces_it_works_and_says_so():
    script = FORBIDDEN.format(root=str(HERE.parents[1]), backend=ODD, numbers=CALLS[os.uname().machine])
    done = completed([sys.executable, "-c", script], check=True)

    assert done.stdout.startswith("ok ")
    assert "'root': 'mount: Operation not permitted'" in done.stdout
    assert "'network': ''" in done.stdout


# Scratch directories: nobody's are removed, and those of the living are left alone


@pytest.fixture
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(scratch.tempfile, "tempdir", str(tmp_path))


@pytest.mark.usefixtures("apart")
def test_what_the_dead_left_is_removed_by_the_next_and_what_the_living_hold_is_not(tmp_path):
    left = tmp_path / f"{scratch.PREFIX}dead"
    left.mkdir()
    (left / scratch.LOCK).touch()
    with closing(Scratch()) as first, closing(Scratch()) as second:
        assert not left.exists()
        assert first.folder.exists()
        assert second.folder.exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize(("age", "stays"), [(0.0, True), (HALF_MADE + 60, False)])
def test_one_who_died_before_its_lock_was_made_leaves_a_directory_for_a_while(age, stays, tmp_path):
    """As long as it may still be somebody who is making it."""
    left = tmp_path / f"{scratch.PREFIX}half"
    left.mkdir()
    os.utime(left, (time.time() - age, time.time() - age))
    with closing(Scratch()):
        assert left.exists() is stays
