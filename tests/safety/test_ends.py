"""However it ends: a documented exit code, one line at most, no traceback, nothing lost, no process left.

A seed draws cells of the matrix of commands and ends (`CRUX_ENDS_SEED`, `CRUX_ENDS_CELLS`; -1: all).
"""

import ctypes
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.commands import completed, processes_with, waited_for
from tests.helpers.failing import clip_exception, verdict
from tests.helpers.models import relu, write
from tests.helpers.sources import ROOT
from triage.bugs.failures import record_failure
from triage.cli import _hides_an_interrupt
from triage.store.database import Store

MAIN = "import sys; from tensorcrux import main; sys.argv[0] = 'crux'; main()"
CRUX = ["env", "--block-signal=INT,TERM,HUP", sys.executable, "-c", MAIN]
"""As `bin/crux` starts it."""
End = Callable[[Sequence[str], Path], tuple[int, str]]
"""Runs a command to an end: its exit code and what it said on stderr."""

CODES = {0, 1, 2, 130, 141}
"""What docs/safety.md names; 3 is a failure of crux's own."""

COMMANDS: dict[str, list[str]] = {
    "help": ["--help"],
    "check": ["check", "model.onnx"],
    "check into a database": ["check", "case", "--db", "crux.db"],
    "reduce": ["reduce", "case", "-o", "out"],
    "reduce by a command": ["reduce", "model.onnx", "-o", "out", "--check", "true"],
    "reduce all": ["reduce", "--all", "--db", "crux.db"],
    "report": ["report", "case", "-o", "out"],
    "page": ["report", "--html", "-o", "out", "--db", "crux.db"],
    "generate": ["generate", "-o", "out", "--count", "3", "--ops", "3"],
    "generate in parallel": ["generate", "-o", "out", "--count", "60", "--ops", "2", "-j", "2"],
    "fuzz": ["fuzz", "--tests", "20", "--db", "crux.db"],
    "fuzz in parallel": ["fuzz", "--tests", "20", "-j", "2", "--db", "crux.db"],
    "hunt": ["hunt", "--minutes", "0.05", "--db", "crux.db"],
    "triage": ["triage", "--db", "crux.db"],
    "why": ["triage", "why", "C0001", "C0001", "--db", "crux.db"],
    "show": ["show", "case"],
    "diff": ["diff", "case", "model.onnx"],
    "passes": ["passes", "case"],
    "replay": ["replay", "case"],
    "patterns": ["patterns", "list"],
    "export": ["db", "export", "-o", "out", "--db", "crux.db"],
    "db check": ["db", "check", "--db", "crux.db"],
    "gc": ["db", "gc", "--db", "crux.db"],
    "schema": ["schema", "check"],
    "config": ["config"],
    "doctor": ["doctor"],
}

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
MOMENTS = [0.15 * 1.3**at for at in range(20)]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, a failing case, and a database that knows it."""
    folder = tmp_path_factory.mktemp("prepared")
    write(folder, relu())
    clip_exception().save(folder / "case")
    with Store(folder / "crux.db") as store:
        record_failure(store, clip_exception(), verdict())
    return folder


@pytest.fixture
def place(prepared: Path, tmp_path: Path) -> Path:
    """A copy of the prepared folder, with homes of its own."""
    folder = tmp_path / "place"
    shutil.copytree(prepared, folder)
    return folder


def environment(place: Path) -> Mapping[str, str]:
    """Variables by which processes of one run are known, and what they write is apart."""
    home = place.parent / "home"
    home.mkdir(exist_ok=True)
    folders = {name: str(home) for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "TMPDIR")}
    return {**os.environ, **folders, "CRUX_TEST_PLACE": str(place), "PYTHONPATH": str(ROOT)}


def start(
    words: Sequence[str], place: Path, python: Sequence[str] = CRUX, **more: Any
) -> subprocess.Popen[bytes]:
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(
        [*python, *words], cwd=place, env=environment(place), start_new_session=True, **{**streams, **more}
    )


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """The exit code and what was said on stderr."""
    _, said = process.communicate()
    return process.returncode, (said or b"").decode(errors="replace")


def broken_pipe(words: Sequence[str], place: Path) -> tuple[int, str]:
    near, far = os.pipe()
    os.close(near)
    process = start(words, place, stdout=far)
    os.close(far)
    return ended(process)


def full_disk(words: Sequence[str], place: Path) -> tuple[int, str]:
    with open("/dev/full", "wb") as full:
        return ended(start(words, place, stdout=full))


def no_permission(words: Sequence[str], place: Path) -> tuple[int, str]:
    def lose_rights() -> None:
        libc = ctypes.CDLL(None)
        for overriding_modes in (1, 2):  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, which root has
            libc.prctl(24, overriding_modes)

    os.chmod(place, 0o555)
    try:
        return ended(start(words, place, preexec_fn=lose_rights))
    finally:
        os.chmod(place, 0o755)


def clock_set_back(words: Sequence[str], place: Path) -> tuple[int, str]:
    """What the clock says goes back by a day at every look."""
    fake = "import time, itertools; days = itertools.count(); now = time.time"
    code = f"{fake}; time.time = lambda: now() - 86400 * next(days); {MAIN}"
    return ended(start([code, *words], place, python=[sys.executable, "-c"]))


def two_at_once(words: Sequence[str], place: Path) -> tuple[int, str]:
    both = [ended(process) for process in [start(words, place), start(words, place)]]
    assert all(code in CODES for code, _ in both), both
    return min(both)


def folder_gone(words: Sequence[str], place: Path) -> tuple[int, str]:
    process = start(words, place)
    time.sleep(0.7)
    for name in ("out", "case", "crux.db.blobs"):
        shutil.rmtree(place / name, ignore_errors=True)
    return ended(process)


def at_start(act: Callable[..., Any], *arguments: Any) -> End:
    """Before the program starts, its process does this."""
    return lambda words, place: ended(start(words, place, preexec_fn=lambda: act(*arguments)))


def closed(*numbers: int) -> End:
    return at_start(lambda: [os.close(number) for number in numbers])


def limited(kind: int, most: int) -> End:
    return at_start(resource.setrlimit, kind, (most, most))


def signalled(number: int, moment: float) -> End:
    def play(words: Sequence[str], place: Path) -> tuple[int, str]:
        process = start(words, place)
        try:
            process.communicate(timeout=moment)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
        code, said = ended(process) if process.returncode is None else (process.returncode, "")
        is_killed = code == -number == -signal.SIGKILL
        return (0, "") if is_killed else (code, said)

    return play


ENDS: dict[str, End] = {
    "stdin closed": closed(0),
    "stdout closed": closed(1),
    "stderr closed": closed(2),
    "all closed": closed(0, 1, 2),
    "broken pipe": broken_pipe,
    "full disk": full_disk,
    "no permission": no_permission,
    "20 descriptors": limited(resource.RLIMIT_NOFILE, 20),
    "64 descriptors": limited(resource.RLIMIT_NOFILE, 64),
    "little memory": limited(resource.RLIMIT_DATA, 150 << 20),
    "small files": limited(resource.RLIMIT_FSIZE, 4096),
    "clock set back": clock_set_back,
    "two at once": two_at_once,
    "folder gone": folder_gone,
    **{
        f"{number.name} after {moment:.2f} s": signalled(number, moment)
        for number in SIGNALS
        for moment in MOMENTS
    },
}
CELLS = [(command, end) for command in COMMANDS for end in ENDS]


QUICK = {
    *(("check", end) for end in ("all closed", "stdout closed", "20 descriptors")),
    ("triage", "broken pipe"),
    ("triage", "stderr closed"),
}


def drawn() -> Iterator[Any]:
    """The cells of this run: the quick ones, and some or all of the others."""
    yield from sorted(QUICK)
    count = int(os.environ.get("CRUX_ENDS_CELLS", "24"))
    chance = random.Random(int(os.environ.get("CRUX_ENDS_SEED", "1")))
    for cell in CELLS if count < 0 else chance.sample(CELLS, count):
        if cell not in QUICK:
            yield pytest.param(*cell, marks=pytest.mark.slow)


@pytest.mark.parametrize(("command", "end"), [*drawn()])
def test_it_ends_in_good_order(place, command, end):
    code, said = ENDS[end](COMMANDS[command], place)
    assert code in CODES, said
    assert len(said.strip().splitlines()) <= 1 or (command, end) not in QUICK or code == 0, said
    assert "Traceback" not in said
    assert "a failure of its own" not in said
    assert waited_for(lambda: not processes_with(f"CRUX_TEST_PLACE={place}", "environ"))
    if end != "folder gone":  # which took contents of the database along
        words = [*CRUX, "db", "check", "--json", "--db", "crux.db"]
        done = completed(words, cwd=place, env=environment(place))
        assert json.loads(done.stdout)["problems"] == []


def test_an_interrupt_while_the_libraries_load_is_one_line(place):
    code = "import os, signal, sys, threading\nimport triage.start\n"
    code += "sys.modules['triage.cli'] = None\n"
    code += "triage.start.open_missing = lambda: os.kill(os.getpid(), signal.SIGINT)\ntriage.start.main()"
    done = completed([sys.executable, "-c", code], cwd=ROOT)
    assert (done.returncode, done.stderr) == (130, "crux: interrupted before anything was begun\n")


def test_an_interrupt_while_python_starts_shows_no_traceback(place: Path) -> None:
    crux = ROOT / "bin/crux"
    for milliseconds in range(10, 170, 20):
        words = [crux, "--version"]
        with subprocess.Popen(words, stderr=subprocess.PIPE, start_new_session=True) as process:
            time.sleep(milliseconds / 1000)
            os.killpg(process.pid, signal.SIGINT)
            code, said = ended(process)
        assert code in (130, -signal.SIGINT, 0)
        assert "Traceback" not in said


def test_python_finds_nothing_of_ours_in_the_working_directory(place: Path) -> None:
    for name in ("json", "pathlib", "signal", "typer"):
        (place / f"{name}.py").write_text("open('ran', 'w')")
    done = subprocess.run([sys.executable, "-m", "tensorcrux", "--version"], cwd=place, check=False)
    assert done.returncode == 0
    assert not (place / "ran").exists()


def test_a_folder_that_is_gone_before_the_start_is_one_line(place: Path) -> None:
    code, said = ended(start(["check", "case"], place, preexec_fn=lambda: shutil.rmtree(place)))
    assert (code, len(said.splitlines())) == (2, 1)


def test_a_signal_while_python_ends_leaves_the_answer(place: Path) -> None:
    code = "import os, signal, sys\nclass Last:\n"
    code += "    def __del__(self, kill=os.kill, it=(os.getpid(), signal.SIGINT)): kill(*it)\n"
    code += "last = Last()\nfrom triage.cli import main\nsys.argv[1:] = ['--version']\nmain()"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_an_interrupt_that_became_another_error_is_one() -> None:
    """Python 3.11 raises what `__set_name__` raises as another error."""
    error = RuntimeError("Error calling __set_name__")
    error.__cause__ = KeyboardInterrupt()
    assert _hides_an_interrupt(error)


def test_an_interrupt_waits_for_native_code_that_is_being_loaded(place: Path) -> None:
    code = """
import os, signal, sys, time
from triage.cli import Interrupts, _loads_native_code
sent = []
def hook(event, args):
    if event == "import" and not sent and _loads_native_code(sys._getframe()):
        sent.append(1)
        os.kill(os.getpid(), signal.SIGTERM)
Interrupts().hear()
sys.addaudithook(hook)
try:
    import numpy
    time.sleep(30)
except KeyboardInterrupt as stop:
    place = stop.__traceback__
    while place.tb_next:
        place = place.tb_next
    print(len(sent), _loads_native_code(place.tb_frame))
"""
    done = completed([sys.executable, "-c", code], cwd=ROOT)
    assert (done.returncode, done.stdout) == (0, "1 False\n"), done.stderr


def test_an_interrupt_within_a_callback_of_pythons_own_is_not_lost(place: Path) -> None:
    code = "import os, signal, time, weakref\nfrom triage.cli import Interrupts\nInterrupts().hear()\n"
    code += "class Gone: pass\ngone = Gone()\n"
    code += "told = weakref.ref(gone, lambda _: os.kill(os.getpid(), signal.SIGINT))\n"
    code += "try:\n    del gone\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    print('heard')"
    done = completed([sys.executable, "-c", code])
    assert (done.stdout, done.stderr) == ("heard\n", "")
