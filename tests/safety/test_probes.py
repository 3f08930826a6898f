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

from corpus.processes import is_allowed
from oracles.sandbox.container.start import LAUNCHER, Plan
from oracles.sandbox.sandbox import Job, Sandbox
from oracles.verdict import Config, Limits, Run, Status
from tests.helpers.commands import completed, waited_for

HOSTILE = str(Path(__file__).with_name("hostile_backend.py"))
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


def test_a_file_of_the_users_home_is_not_there(sandbox, tmp_path):
    (tmp_path / "secret").write_text("secret")

    assert answer(sandbox, f"read {tmp_path}/secret") == "FileNotFoundError"
    assert answer(sandbox, f"read {Path.home()}/.bashrc") == "FileNotFoundError"
    assert answer(sandbox, "read /etc/shadow") == "FileNotFoundError"
    assert answer(sandbox, "read /etc/passwd") == "FileNotFoundError"


def test_nothing_of_the_machine_is_there_but_what_an_interpreter_needs(sandbox):
    assert set(answer(sandbox, "list /dev").split()) == {"fd", "full", "null", "random", "urandom", "zero"}
    assert {"home", "run", "var", "mnt", "media", "boot", "srv"}.isdisjoint(answer(sandbox, "list /").split())


def test_no_socket_of_the_machine_can_be_reached(sandbox, tmp_path):
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as listening, socket.create_server(("127.0.0.1", 0)) as server:
        listening.bind(str(path))
        listening.listen()
        assert answer(sandbox, f"unix {path}") == "FileNotFoundError"
        assert answer(sandbox, f"loopback {server.getsockname()[1]}") in ("OSError", "ConnectionRefusedError")
    assert answer(sandbox, "netlink") == "OSError"


@pytest.mark.parametrize("who", ["parent", "first", "group", "all"])
def test_no_other_process_can_be_signalled(sandbox, who):
    assert answer(sandbox, f"signal {who}") == "PermissionError"
    assert answer(sandbox, "nothing") == "done"


@pytest.mark.parametrize(
    "action",
    ["unshare", "mount", "ptrace", "memory-of-parent", "descriptors-of-parent", "limits-of-parent", "kmsg",
     "chroot", "sethostname", "bpf", "keyctl", "userns-by-clone"],
)  # fmt: skip
def test_what_reaches_past_a_process_is_refused(sandbox, action):
    assert answer(sandbox, action) in ("PermissionError", "FileNotFoundError", "OSError")


def test_no_token_is_in_the_environment(monkeypatch):
    for name in (
        "GITHUB_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "TORCH_API_TOKEN",
        "SSH_AUTH_SOCK",
        "OMP_STACKSIZE",
    ):
        monkeypatch.setenv(name, "value-of-it")
    with Sandbox(HOSTILE, limits=LIMITS) as own:
        names = answer(own, "environment").split()

    assert "OMP_STACKSIZE" in names
    assert not {"GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "TORCH_API_TOKEN", "SSH_AUTH_SOCK"} & set(names)


@pytest.mark.parametrize("name", ["HOME", "SSH_AUTH_SOCK", "TVM_KEY", "TORCH_TOKEN", "PASSWORD", "CUDA_AUTH"])
def test_secrets_and_places_stay_outside(name):
    assert not is_allowed(name)


def test_forking_without_end_meets_a_limit(sandbox):
    """On processes, or before that on the memory that all of them have together."""
    run = attempt(sandbox, "fork")
    forks, _, what = str(np.asarray(run.outputs.get("y", "0 memory"))).partition(" ")

    assert run.status in (Status.OK, Status.OUT_OF_MEMORY)
    assert int(forks) < 300
    assert what in ("BlockingIOError", "memory")
    assert answer(sandbox, "nothing") == "done"


def test_a_daemon_does_not_outlive_its_worker(sandbox):
    before = len(answer(sandbox, "processes").split())
    attempt(sandbox, "daemon")
    attempt(sandbox, "die")
    assert waited_for(lambda: len(answer(sandbox, "processes").split()) <= before)


@pytest.mark.parametrize("kind", ["private", "shared"])
def test_filling_memory_is_running_out_of_it(sandbox, kind):
    assert attempt(sandbox, f"memory {kind}").status is Status.OUT_OF_MEMORY


def test_filling_the_disk_fills_only_its_own(sandbox):
    size, what = answer(sandbox, "disk").split()

    assert int(size) <= LIMITS.memory_bytes
    assert what == "OSError"
    attempt(sandbox, "die")
    assert answer(sandbox, "list .") == ""


def test_descriptors_run_out_early(sandbox):
    count, what = answer(sandbox, "descriptors").split()

    assert int(count) < 1024
    assert what == "OSError"


def test_output_has_an_end(sandbox):
    assert int(answer(sandbox, "output")) <= LIMITS.memory_bytes


@pytest.mark.parametrize("action", ["forge", "swell 0", "swell 1", "swell 2"])
def test_what_is_no_reply_is_a_crash_that_says_so(sandbox, action):
    run = attempt(sandbox, action)

    assert run.status is Status.CRASH
    assert "no reply" in run.message
    assert answer(sandbox, "nothing") == "done"


def test_the_launcher_of_a_sandbox_ends_with_it(tmp_path):
    with Sandbox(HOSTILE, limits=LIMITS) as own:
        folder = Path(answer(own, "cwd")).parent
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
