"""A worker that means harm, run as root and as an unprivileged user: what it tries fails, and is told."""

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oracles.sandbox.container.start import LAUNCHER, Plan
from oracles.sandbox.sandbox import Job, Sandbox
from oracles.verdict import Config, Limits, Run, Status
from tests.helpers.commands import completed, waited_for

HOSTILE = str(Path(__file__).with_name("hostile_backend.py"))
NOTHING = "'done'"
LIMITS = Limits(cpu_seconds=5.0, wall_seconds=10.0, memory_bytes=256 << 20)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(HOSTILE, limits=LIMITS) as found:
        missing = {name: why for name, why in found.facts["containment"].items() if why}
        if missing:
            pytest.skip(f"the system refuses: {missing}")
        yield found


def attempt(sandbox: Sandbox, action: str) -> Run:
    return sandbox.run(Job(action.encode(), {}, (Config("plain"),)))[0]


def answer(sandbox: Sandbox, action: str) -> str:
    run = attempt(sandbox, action)
    assert run.is_ok, run
    return str(np.asarray(run.outputs["y"]))


def test_no_file_of_the_user_is_there_and_of_the_machine_only_what_an_interpreter_needs(sandbox, tmp_path):
    (tmp_path / "secret").write_text("secret")
    for path in (tmp_path / "secret", Path.home() / ".bashrc", "/etc/shadow", "/etc/passwd"):
        assert answer(sandbox, f"open({str(path)!r}).read()") == "FileNotFoundError"
    devices, root = (set(answer(sandbox, f"' '.join(os.listdir('{at}'))").split()) for at in ("/dev", "/"))
    assert devices == {"fd", "full", "null", "random", "urandom", "zero"}
    assert {"home", "run", "var", "mnt", "media", "boot", "srv"}.isdisjoint(root)


def test_no_socket_of_the_machine_can_be_reached(sandbox, tmp_path):
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as listening, socket.create_server(("127.0.0.1", 0)) as server:
        listening.bind(str(path))
        listening.listen()
        unix = f"socket.socket(socket.AF_UNIX).connect({str(path)!r})"
        loopback = f"socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 2)"
        assert answer(sandbox, unix) == "FileNotFoundError"
        assert answer(sandbox, loopback) in ("OSError", "ConnectionRefusedError")
    assert answer(sandbox, "socket.socket(16, socket.SOCK_RAW, 0)") == "OSError"


@pytest.mark.parametrize("who", ["os.getppid()", "1", "-1"])
def test_no_other_process_can_be_signalled(sandbox, who):
    assert answer(sandbox, f"os.kill({who}, signal.SIGKILL)") == "PermissionError"
    assert answer(sandbox, NOTHING) == "done"


@pytest.mark.parametrize(
    "action",
    [
        "called(libc.unshare(0x10000000))",
        "called(libc.syscall(56, 0x10000011, 0, 0, 0, 0))",  # a user namespace by clone
        "called(libc.mount(b'none', b'/tmp', b'tmpfs', 0, None))",
        "called(libc.ptrace(16, os.getppid(), 0, 0))",
        "called(libc.chroot(b'/tmp'))",
        "called(libc.sethostname(b'x', 1))",
        "called(libc.syscall(321, 0, 0, 0))",  # bpf
        "called(libc.syscall(250, 0, 0, 0))",  # keyctl
        "os.open('/dev/kmsg', os.O_WRONLY)",
        "open(f'/proc/{os.getppid()}/mem', 'rb+').read(1)",
        "os.open(f'/proc/{os.getppid()}/fd/0', os.O_RDONLY)",
        "__import__('resource').prlimit(os.getppid(), 0, (0, 0))",
    ],
)
def test_what_reaches_past_a_process_is_refused(sandbox, action):
    assert answer(sandbox, action) in ("PermissionError", "FileNotFoundError", "OSError")


def test_no_token_is_in_the_environment(monkeypatch):
    secrets = {"GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "TORCH_API_TOKEN", "SSH_AUTH_SOCK"}
    for name in (*secrets, "OMP_STACKSIZE"):
        monkeypatch.setenv(name, "value-of-it")
    with Sandbox(HOSTILE, limits=LIMITS) as own:
        names = answer(own, "' '.join(os.environ)").split()

    assert "OMP_STACKSIZE" in names
    assert not secrets & set(names)


def test_forking_without_end_meets_a_limit(sandbox):
    """On processes, or before that on the memory that all of them have together."""
    run = attempt(sandbox, "until_refused(fork, 5000)")
    forks, _, what = str(np.asarray(run.outputs.get("y", "0 memory"))).partition(" ")

    assert run.status in (Status.OK, Status.OUT_OF_MEMORY)
    assert int(forks) < 300
    assert what in ("BlockingIOError", "memory")
    assert answer(sandbox, NOTHING) == "done"


def test_a_daemon_does_not_outlive_its_worker(sandbox):
    def processes() -> int:
        return int(answer(sandbox, "sum(name.isdigit() for name in os.listdir('/proc'))"))

    before = processes()
    attempt(sandbox, "daemon()")
    attempt(sandbox, "os.abort()")
    assert waited_for(lambda: processes() <= before)


@pytest.mark.parametrize("block", ["lambda: bytearray(16 << 20)", "shared"])
def test_filling_memory_is_running_out_of_it(sandbox, block):
    assert attempt(sandbox, f"until_refused({block}, 1 << 20)").status is Status.OUT_OF_MEMORY


def test_filling_the_disk_fills_only_its_own(sandbox):
    filling = "(lambda file: lambda: file.write(b'x' * (1 << 20)))(open('filling', 'wb', buffering=0))"
    megabytes, what = answer(sandbox, f"until_refused({filling}, 16 << 10)").split()

    assert int(megabytes) << 20 <= LIMITS.memory_bytes
    assert what == "OSError"
    attempt(sandbox, "os.abort()")
    assert answer(sandbox, "' '.join(os.listdir())") == ""


def test_descriptors_run_out_early(sandbox):
    count, what = answer(sandbox, "until_refused(lambda: open('/dev/null'), 100_000)").split()

    assert int(count) < 1024
    assert what == "OSError"


def test_output_has_an_end(sandbox):
    written = answer(sandbox, "until_refused(lambda: os.write(2, b'x' * (4 << 20)), 1000)").split()[0]
    assert int(written) * (4 << 20) <= LIMITS.memory_bytes


@pytest.mark.parametrize(
    "action",
    ["forge()", "swell('str', [10**12], 2)", "swell('str', [10**9], 4)", "swell('int8', [10**15], 0)"],
)
def test_what_is_no_reply_is_a_crash_that_says_so(sandbox, action):
    run = attempt(sandbox, action)

    assert run.status is Status.CRASH
    assert "no reply" in run.message
    assert answer(sandbox, NOTHING) == "done"


def test_the_launcher_of_a_sandbox_ends_with_it(tmp_path):
    with Sandbox(HOSTILE, limits=LIMITS) as own:
        folder = Path(answer(own, "os.getcwd()")).parent
        assert folder.exists()
    assert waited_for(lambda: not folder.exists())


INSIDE = "import os; print(os.getuid(), sorted(os.listdir('/')), os.path.exists('/root'))"


@pytest.mark.parametrize("bubblewrap", ["", "bwrap"])
def test_as_an_unprivileged_user_too(bubblewrap):
    """The launcher as a user without rights, by hand and with bubblewrap, where root runs the tests."""
    python, tool = "/usr/bin/python3", shutil.which("bwrap") if bubblewrap else ""
    if os.getuid() or not os.access(python, os.X_OK) or (bubblewrap and not tool):
        pytest.skip("not run as root, or there is no such interpreter or tool")
    with tempfile.TemporaryDirectory(prefix="crux-test-") as name:
        scratch = Path(name)
        (scratch / "work").mkdir()
        links = {at: os.readlink(at) for at in ("/bin", "/sbin", "/lib", "/lib64") if os.path.islink(at)}
        plan: dict[str, Any] = {
            "command": [python, "-I", "-c", INSIDE],
            "environment": {},
            "scratch": name,
            "work": f"{name}/work",
            "control": -1,
            "report": -1,
            "shown": ["/usr", "/etc/ld.so.cache"],
            "links": links,
            "is_removed": False,
            "bubblewrap": tool,
        }
        (scratch / "plan").write_bytes(Plan(**plan).to_bytes())
        for path in (scratch, scratch / "work", scratch / "plan"):
            os.chown(path, 12345, 12345)
        done = completed(
            [python, "-I", "-S", str(LAUNCHER), str(scratch / "plan")],
            **{"user": 12345, "group": 12345, "extra_groups": []},
            cwd="/",
        )
    if "ermission denied" in done.stderr and "launcher.py" in done.stderr:
        pytest.skip("the checkout is not for other users")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("12345 "), done.stdout
    assert "home" not in done.stdout
    assert done.stdout.rstrip().endswith("False")
