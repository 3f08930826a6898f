"""Processes start in one place, and none of them takes its code from the working directory."""

import ast
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from corpus import processes
from generators.mixture import generate
from tests.helpers.commands import processes_with, waited_for
from tests.helpers.sources import sources
from triage.bisection import package_index
from triage.bisection.environments import _make_venv

LAUNCHER = "corpus/processes.py"
STARTS = {"system", "popen", "posix_spawn", "posix_spawnp", "fork", "forkpty"}
MODULES = ("subprocess", "pty", "concurrent.futures.process")
CLASSES = ("create_subprocess_exec", "create_subprocess_shell", "ProcessPoolExecutor")
INSIDE = {
    "corpus/onnx/server.py": {"fork"},
    "oracles/sandbox/worker.py": {"fork"},
    "oracles/worker/tvm/firing.py": {"fork"},
    "oracles/worker/lowered/module.py": {"fork"},
    "oracles/sandbox/container/by_hand.py": {"fork", "execve"},
    "oracles/sandbox/container/launcher.py": {"fork", "execve"},
    "triage/public/child.py": {"subprocess"},
    "triage/mcp_server.py": {"subprocess"},
    "triage/start.py": {"execve"},
}
"""Files that run in a process which the launcher has started, contained, and what they may do there; and the
library's part in its caller's process, which imports nothing of crux and starts an isolated one; and a server
that starts `python -P -m triage.cli` asynchronously; and crux itself, started anew under UTF-8."""
TRAPS = (
    "pip venv torch multiprocessing pickle json runpy importlib corpus sitecustomize numpy subprocess site"
)


def _started(tree: ast.Module) -> Iterator[str]:
    """Yield the names of whatever in the module starts a process."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            yield from (name for name in names if name in MODULES or name.startswith("multiprocessing"))
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if module in MODULES or module == "multiprocessing":
                yield module
            yield from (alias.name for alias in node.names if alias.name == "ProcessPoolExecutor")
            yield from (alias.name for alias in node.names if module == "os" and _is_start(alias.name))
        elif isinstance(node, ast.Attribute):
            is_of_os = isinstance(node.value, ast.Name) and node.value.id == "os"
            if (is_of_os and _is_start(node.attr)) or node.attr in CLASSES:
                yield node.attr


def _is_start(name: str) -> bool:
    return name in STARTS or name.startswith(("exec", "spawn"))


def test_nothing_but_the_launcher_starts_processes():
    found = {path: set(_started(tree)) for path, tree in sources().items() if path != LAUNCHER}
    assert {path: names for path, names in found.items() if names} == INSIDE


@pytest.fixture
def trapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory that holds modules of well-known names; each tells that it ran."""
    here = tmp_path / "unpacked"
    here.mkdir()
    ran = tmp_path / "ran"
    trap = f"open({str(ran)!r}, 'a').write(__name__ + chr(10))\n"
    for name in TRAPS.split():
        (here / f"{name}.py").write_text(trap)
    (here / "torch").mkdir()
    (here / "torch" / "__init__.py").write_text(trap)
    monkeypatch.chdir(here)
    yield here
    assert not ran.exists(), ran.read_text()


@pytest.mark.usefixtures("trapped")
def test_the_package_index_is_asked_by_the_installed_pip():
    assert package_index._run_pip("--version").startswith("pip ")


@pytest.mark.usefixtures("trapped")
def test_an_environment_is_made_by_the_installed_venv(tmp_path):
    own = package_index.own_interpreter()
    pip = _make_venv(tmp_path / "made", own)
    assert (tmp_path / "made" / "bin" / "python").exists()
    assert processes.run([*pip, "--version"], 60).output.startswith("pip ")


@pytest.mark.usefixtures("trapped")
def test_programs_are_written_by_processes_that_ignore_the_folder(tmp_path):
    assert generate(tmp_path / "out", 51, 2, jobs=2).counts.models == 51


@pytest.mark.usefixtures("trapped")
@pytest.mark.parametrize("variable", ["PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "LD_PRELOAD", "A_TOKEN"])
def test_a_process_of_ours_gets_only_what_is_listed(variable, monkeypatch):
    monkeypatch.setenv(variable, "")
    told = processes.run([*processes.python(), "-c", "import os; print(*os.environ, sep=',')"], 60)
    assert variable not in told.output.split(",")


@pytest.mark.usefixtures("trapped")
def test_a_process_of_ours_starts_where_nothing_lies_and_leads_its_group():
    asked = "os.getcwd(), os.listdir(), os.getsid(0) == os.getpid(), sorted(os.listdir('/proc/self/fd'))"
    question = f"import os; print({asked})"
    leak = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(leak, True)
    try:
        told = processes.run([*processes.python(), "-c", question], 60)
    finally:
        os.close(leak)
    assert told.output.split(" ", 1)[1] == "[] True ['0', '1', '2', '3']\n"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["/no/such/program"], "/no/such/program: cannot be started (No such file or directory)"),
        (["/etc/passwd"], "/etc/passwd: cannot be started (Permission denied)"),
        (["a\0b"], "a\0b: cannot be started (embedded null byte)"),
        (["sleep", "60"], "sleep: did not end within 0.1 s"),
    ],
)
def test_what_does_not_run_says_why_in_one_line(command, reason):
    with pytest.raises(processes.NotRun) as told:
        processes.run(command, 0.1)
    assert str(told.value) == reason


def test_nothing_of_a_group_survives_its_time():
    mark = f"{os.getpid()}7"
    with pytest.raises(processes.NotRun):
        processes.run(["sh", "-c", f"sleep {mark} & sleep {mark}"], 0.3)
    assert waited_for(lambda: not processes_with(mark))


def test_an_interpreter_may_lie_below_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "python").symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    assert processes.run([*processes.python("./python"), "-c", "print(1)"], 60).output == "1\n"
