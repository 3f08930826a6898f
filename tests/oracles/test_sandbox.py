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
from oracles.sandbox.sandbox import Job, Sandbox, SandboxError, describe_isolation
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


def outside(own: Sandbox, inside: int | None = None) -> int:
    """What a process of a sandbox is called outside of its namespace; the worker's without a number."""
    inside = inside or int(own.ask("pid"))
    for path in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            numbers = next(row for row in path.read_text().splitlines() if row.startswith("NSpid:")).split()[
                1:
            ]
            if int(numbers[-1]) == inside and is_below(int(path.parent.name), os.getpid()):
                return int(path.parent.name)
    raise LookupError(inside)


def is_below(pid: int, owner: int) -> bool:
    return owner in (pid, *ancestors(pid, owner))


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

    assert isinstance(found, np.ndarray)
    assert (found.dtype, found.shape, found.tobytes()) == (value.dtype, value.shape, value.tobytes())


@pytest.mark.parametrize(
    "value",
    [
        np.array(["", "a", "ü\U0001f600", "line\nbreak", "a\0b"]),
        np.array([["x"], ["y"]]),
        np.array("scalar"),
        np.zeros((0, 2), dtype="U1"),
    ],
    ids=["texts", "matrix", "scalar", "empty"],
)
def test_strings_come_back_as_they_were(sandbox, value):
    found = echo(sandbox, value)

    assert isinstance(found, np.ndarray)
    assert found.dtype.kind == "U"
    assert found.tolist() == value.tolist()
    assert found.shape == value.shape


@pytest.mark.parametrize("value", [None, [], [np.ones(2), np.zeros((0, 3), ml_dtypes.bfloat16)]], ids=repr)
def test_sequences_and_absent_values_come_back_as_they_were(sandbox, value):
    assert repr(echo(sandbox, value)) == repr(value)


def test_an_array_that_is_not_contiguous_keeps_its_order(sandbox):
    value = np.arange(24, dtype=np.int64).reshape(2, 3, 4).T

    assert np.array_equal(np.asarray(echo(sandbox, value)), value)


def test_equal_outputs_of_several_configs_are_one_object(sandbox):
    value = np.array([np.nan, -0.0, 1.0])
    first, second = sandbox.run(Job(b"echo", {"x": value}, (PLAIN, Config("other"))))

    assert second.outputs["y"] is first.outputs["y"]


def test_a_program_that_writes_to_its_input_does_not_spoil_the_next_config(sandbox):
    runs = sandbox.run(Job(b"scribble", {"x": np.ones(3)}, (PLAIN, PLAIN)))

    assert [np.asarray(run.outputs["y"]).tolist() for run in runs] == [[1, 1, 1]] * 2


def test_many_megabytes_go_through(sandbox):
    value = np.random.default_rng(0).integers(0, 255, 20 << 20, dtype=np.uint8)

    assert np.array_equal(np.asarray(echo(sandbox, value)), value)


# Failures


@pytest.mark.parametrize("fresh", [False, True])
def test_an_exception_is_data(sandbox, fresh):
    run = do(sandbox, "throw no such thing", fresh=fresh)

    assert (run.status, run.error, run.message) == (Status.EXCEPTION, "LookupError", "no such thing")
    assert run.trace.endswith("LookupError: no such thing\n")


def test_an_interpreter_that_exits_raises_what_it_raised(sandbox):
    run = do(sandbox, "exit 3")

    assert (run.status, run.error) == (Status.EXCEPTION, "SystemExit")


def test_a_failure_of_the_workers_own_is_ours_and_no_crash(sandbox):
    with pytest.raises(SandboxError, match=r"(?s)not the framework.*encode.*ValueError"):
        do(sandbox, "unsendable")
    assert do(sandbox, "echo", np.ones(1)).is_ok


def test_no_memory_for_the_answer_is_memory_and_no_failure_of_ours(sandbox):
    assert do(sandbox, "starving").status is Status.OUT_OF_MEMORY


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
        '{"test":1,"config":0,"total":0,"outputs":[],"status":"fine","phase":"execute","cpu":0}',
        '{"test":1,"config":0,"total":0,"outputs":[["y",["object",[1],8]]],"status":"ok","phase":"execute","cpu":0}',
        '{"test":1,"config":0,"total":0,"outputs":[["y",["int8",[99],0]]],"status":"ok","phase":"execute","cpu":0}',
        '{"test":1,"config":0,"total":0,"outputs":[["y",["int8",[1],-1]]],"status":"ok","phase":"execute","cpu":0}',
        '{"test":1,"config":0,"total":0,"outputs":[["y","="]],"status":"ok","phase":"execute","cpu":0}',
        '{"test":1,"config":0,"total":0,"outputs":[["y",["int8",[1e999],0]]],"status":"ok","phase":"execute","cpu":0}',
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


def test_a_worker_killed_by_the_kernel_was_out_of_memory(sandbox):
    assert do(sandbox, "kill").status is Status.OUT_OF_MEMORY


def test_a_dead_zygote_is_replaced():
    with Sandbox(ODD, limits=LIMITS) as own:
        pid = outside(own)
        zygote = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        os.kill(zygote, signal.SIGKILL)
        assert waited_for(lambda: is_gone(pid))

        assert do(own, "echo").is_ok
        assert do(own, "echo", fresh=True).is_ok


def test_a_worker_that_died_between_two_tests_is_not_held_against_the_second():
    with Sandbox(ODD, limits=LIMITS) as own:
        pid = outside(own)
        os.kill(pid, signal.SIGKILL)
        assert waited_for(lambda: is_gone(pid))

        assert do(own, "echo").is_ok


def test_a_question_that_cannot_be_answered_is_our_own_failure(sandbox):
    with pytest.raises(SandboxError, match="can_write"):
        sandbox.ask("can_write", 0, 0, 0)

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


def test_a_fresh_run_leaves_the_kept_worker_alone(sandbox):
    before = sandbox.ask("pid")
    do(sandbox, "talk oops", fresh=True)

    assert sandbox.ask("pid") == before


def test_the_thread_counts_are_set_before_anything_is_imported(sandbox):
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "TVM_NUM_THREADS", "ORT_DISABLE_TELEMETRY")
    found = sandbox.ask("environment")

    assert [found[name] for name in (*names, "TORCHINDUCTOR_COMPILE_THREADS")] == ["1"] * 5


def test_a_worker_has_one_thread_and_leaves_no_core_file(sandbox):
    assert (sandbox.ask("threads"), sandbox.ask("core_limit")) == (1, 0)


def test_sandboxes_work_side_by_side_in_threads():
    found: dict[int, bool] = {}

    def work(number: int) -> None:
        with Sandbox(ODD, limits=LIMITS) as own:
            value = np.full(1000, number)
            found[number] = all(np.array_equal(np.asarray(echo(own, value)), value) for _ in range(50))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == {0: True, 1: True, 2: True}


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


def test_a_python_that_is_not_there_is_the_users_to_mend():
    with (
        Sandbox(ODD, python="/nonexistent/python") as own,
        pytest.raises(UserError, match="/nonexistent/python"),
    ):
        do(own, "echo")


def test_what_was_begun_early_is_told_by_the_first_job_when_it_fails(tmp_path):
    backend = tmp_path / "absent.py"
    backend.write_text("def load():\n    import a_framework_that_is_absent\n")
    with Sandbox(str(backend)) as own:
        own.zygote()
        for _ in range(2):
            with pytest.raises(UserError, match="a_framework_that_is_absent"):
                do(own, "echo")


@pytest.mark.parametrize("source", ["exit 0", "echo Python 2.7 >&2; exit 1"])
def test_a_program_that_is_no_python_is_the_users_to_mend(tmp_path, source):
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{source}\n")
    program.chmod(0o755)
    with Sandbox(ODD, python=str(program)) as own, pytest.raises(UserError, match="no Python"):
        do(own, "echo")


def test_a_python_may_be_given_by_a_relative_path(monkeypatch):
    python = Path(sys.executable)
    monkeypatch.chdir(python.parent.parent)
    with Sandbox(ODD, python=f"{python.parent.name}/{python.name}", limits=LIMITS) as own:
        assert do(own, "echo").is_ok


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


def test_external_data_lies_beside_the_program(sandbox, tmp_path):
    job = Job(b"the program", {}, (PLAIN,), external=(external(tmp_path),))
    for fresh in (False, True):
        (run,) = sandbox.run(job, fresh=fresh)

        assert [str(np.asarray(part)) for part in run.outputs["y"] or ()] == ["the program", "the weights"]


def test_external_data_is_not_copied_where_it_can_be_linked(tmp_path):
    place = scratch.Scratch()
    with contextlib.closing(place):
        file = external(tmp_path)
        found = place.lay_out(b"", (file,))
        linked = Path(found["path"]).parent / file.location

        assert (
            linked.stat().st_ino == file.path.stat().st_ino or linked.stat().st_dev != file.path.stat().st_dev
        )


def test_external_data_that_cannot_be_linked_is_used_where_it_lies(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "link", refuse)
    place = scratch.Scratch()
    with contextlib.closing(place):
        assert place.lay_out(b"", (external(tmp_path, "weights.bin"),)) == {"folder": str(tmp_path.resolve())}
        copied = place.lay_out(b"", (external(tmp_path),))

        assert (Path(copied["path"]).parent / "sub/weights.bin").read_text() == "the weights"


def refuse(*arguments: object) -> None:
    raise OSError("links are not possible here")


@pytest.mark.parametrize("location", ["../weights.bin", "sub/../../weights.bin", "/etc/weights.bin", "."])
def test_external_data_does_not_leave_its_folder(tmp_path, location):
    place = scratch.Scratch()
    with contextlib.closing(place), pytest.raises(ValueError, match="outside"):
        place.lay_out(b"", (external(tmp_path, location),))


# Nothing is left behind


def test_files_of_a_dead_worker_are_gone_before_the_next_test(sandbox):
    assert do(sandbox, "litter").status is Status.CRASH

    assert do(sandbox, "cwd").outputs["y"] == []


def test_closing_leaves_nothing():
    own = Sandbox(ODD, limits=LIMITS)
    pid = outside(own)
    folder = Path(own.ask("environment")["TMPDIR"]).parent
    assert folder.is_dir()
    own.close()
    own.close()

    assert is_gone(pid)
    assert not folder.exists()


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


def ancestors(pid: int, stop: int) -> Iterator[int]:
    parent = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    if parent not in (0, 1):
        yield parent
        if parent != stop:
            yield from ancestors(parent, stop)


def descendants(pid: int) -> Iterator[int]:
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        yield int(child)
        yield from descendants(int(child))


# Containment


def test_what_keeps_a_worker_in_can_be_told(sandbox):
    told = describe_isolation(sandbox.facts)

    assert {"network namespace", "mount namespace", "user namespace", "native crash handler"} < told.keys()
    assert all(told.values())


def test_a_worker_writes_to_its_own_directory_only(sandbox, tmp_path):
    assert sandbox.ask("can_write", sandbox.ask("environment")["TMPDIR"])
    if sandbox.facts["containment"]["root"]:
        pytest.skip(sandbox.facts["containment"]["root"])
    assert not sandbox.ask("can_write", str(tmp_path))


UNPRIVILEGED = """
import ctypes, subprocess, sys
PR_CAPBSET_DROP, CAP_SYS_ADMIN = 24, 21
libc = ctypes.CDLL(None)
libc.prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0)
sys.exit(subprocess.run([sys.executable, "-c", sys.argv[1]]).returncode)
"""
REPORT = """
import sys
sys.path.insert(0, {root!r})
from oracles.verdict import Config
from oracles.sandbox.sandbox import Job, Sandbox, describe_isolation
with Sandbox({backend!r}) as own:
    (run,) = own.run(Job(b"echo", {{}}, (Config("plain"),)))
    print(run.status, own.ask("can_write", "/tmp"), describe_isolation(own.facts))
"""


def test_without_privileges_a_user_namespace_gives_the_others():
    report = REPORT.format(root=str(HERE.parents[1]), backend=ODD)
    command = [sys.executable, "-c", UNPRIVILEGED, report]
    done = completed(command, check=True)

    assert done.stdout.startswith("ok ")
    if "'user namespace': 'in force'" in done.stdout:
        assert done.stdout.startswith("ok False ")
        assert "'mount namespace': 'in force'" in done.stdout
        assert "'network namespace': 'in force'" in done.stdout


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
