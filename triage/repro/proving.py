"""Running a `repro.py` in fresh processes before anybody is told that it shows a bug.

The script runs the model outside of the worker, but confined like one: limits, no network, and nothing to
write to but the folders of its proofs. What inductor's C++ compiler makes is kept there: each process has
inductor generate its code anew, and only the first has the same text compiled, which takes five CPU seconds.
What the script's framework would import beside it and does not need is not there: for TVM, torch takes twice
as long as all of TVM.
"""

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

from corpus.processes import TOGETHER, Process, end_group, start, wait
from corpus.reading import read_bytes
from oracles.backends.inductor import HEADERS, has_late_vectors
from oracles.sandbox.container import kernel
from oracles.sandbox.container.start import command_in

MOST_MODEL, MOST_TEXT = 1 << 31, 1 << 22
TIMES = 3
SHOWS = 1
SAYS = "THE BUG SHOWS"
"""Beside the exit code, which a script that fails by itself has too."""
SAVE = "--save"
"""The option of the scripts that build a model of ONNX."""
SAVED = "saved.onnx"
IN_FOLDER = "import os, sys; os.chdir(sys.argv[1]); os.execv(sys.executable, [sys.executable, *sys.argv[2:]])"
"""Goes from the folder of all processes to that of one, and starts there."""
WORK, KEPT = "work", "kept"
"""The folder that all processes of a script may write to, and in it what they share."""
START = "start"
"""In that folder, what Python runs before a script that some packages are hidden from."""
HIDE = "import sys\n\nsys.modules.update(dict.fromkeys({}))\n"
GRACE_SECONDS = 30.0
ENDING_SECONDS = 1.0
QUIET = dict.fromkeys(("PYTHONDONTWRITEBYTECODE", "OMP_NUM_THREADS", "ORT_DISABLE_TELEMETRY"), "1")
FRESH = dict.fromkeys((HEADERS, "TORCHINDUCTOR_FX_GRAPH_CACHE", "TORCHINDUCTOR_AUTOGRAD_CACHE"), "0")
"""Inductor's own caches of graphs, which would leave nothing to be shown again, and of headers."""
VECTORS = {"TORCHINDUCTOR_VEC_ISA_OK": "1"}
"""Tells inductor not to compile for each kind of vectors just to see whether it can: nine CPU seconds."""


@dataclass(frozen=True)
class Proof:
    """The proof of a script: how often it showed the bug, its last output, and the model that it builds."""

    shown: int
    times: int
    text: str
    model: bytes

    @property
    def holds(self) -> bool:
        """Whether the bug showed every time."""
        return self.shown == self.times


class Proving:
    """Proofs of one script under way: its processes start at once, `proof` waits for them.

    Each has a folder of its own with the files that the script reads. `shows` tells from an exit code and a
    text that the bug shows. Without `together` each process waits for the one before. `root` is a folder that
    proofs of several scripts share. The packages `hidden` cannot be imported. A context manager: what still
    runs at its end is ended.
    """

    def __init__(
        self,
        script: str,
        beside: Mapping[str, bytes | Path],
        python: str,
        seconds: float,
        memory: int,
        times: int = TIMES,
        shows: Callable[[int, str], bool] | None = None,
        together: bool = True,
        root: Path | None = None,
        hidden: Sequence[str] = (),
    ) -> None:
        self._own = None if root else tempfile.TemporaryDirectory(prefix="crux-repro-")
        self._shows = shows or _says_so
        root = Path(self._own.name) if self._own else root
        assert root is not None
        first = len(list(root.glob(f"{WORK}/[0-9]*")))
        saves = [[SAVE, SAVED]] if SAVE in script else []
        self._is_saving = bool(saves)
        hiding = _hiding(root / WORK / START, hidden) if hidden else {}
        self._runs = [
            _Trial(
                _folder(root / WORK / str(place), script, beside), python, arguments, seconds, memory, hiding
            )
            for place, arguments in enumerate([*saves, *[[] for _ in range(times)]], first)
        ]
        for trial in self._runs if together else ():
            trial.begin()

    def proof(self) -> Proof:
        """Count how often the bug was shown; waits for every process."""
        ends = [trial.end() for trial in self._runs]
        told = ends[1:] if self._is_saving else ends
        shown = sum(self._shows(code, text) for code, text in told)
        failed = (text for code, text in told if not self._shows(code, text))
        saved = self._runs[0].folder / SAVED
        model = read_bytes(saved, MOST_MODEL, by_link=False) if self._is_saving and saved.exists() else b""
        return Proof(shown, len(told), next(failed, told[-1][1]), model)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for trial in self._runs:
            trial.kill()
        if self._own:
            self._own.cleanup()


def _says_so(code: int, text: str) -> bool:
    return code == SHOWS and SAYS in text


def _folder(folder: Path, script: str, beside: Mapping[str, bytes | Path]) -> Path:
    folder.mkdir(parents=True)
    (folder / "repro.py").write_text(script)
    for inside, content in beside.items():
        _place(folder / inside, content)
    return folder


def _hiding(folder: Path, hidden: Sequence[str]) -> dict[str, str]:
    """The environment of processes that find none of these packages."""
    _place(folder / "sitecustomize.py", HIDE.format(list(hidden)).encode())
    return {"PYTHONPATH": str(folder)}


def _place(path: Path, content: bytes | Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.symlink_to(content.resolve())


class _Trial:
    """One process of a script, confined to its folder; what it prints goes to a file beside that."""

    def __init__(
        self,
        folder: Path,
        python: str,
        arguments: list[str],
        seconds: float,
        memory: int,
        environment: Mapping[str, str],
    ) -> None:
        self.folder = folder
        self._environment = environment
        self._command = [python or sys.executable, "-c", IN_FOLDER, folder.name, "repro.py", *arguments]
        self._seconds, self._memory = 3 * seconds + GRACE_SECONDS, memory
        self._own = folder.parent.parent / folder.name
        self._own.mkdir()
        self._printed = self._own.with_suffix(".txt")
        self._process: Process | None = None

    def begin(self) -> Process:
        """Start it, if it has not been started."""
        if self._process is None:
            self._process = self._started()
            self._deadline = time.monotonic() + self._seconds
        return self._process

    def _started(self) -> Process:
        folder = self.folder
        places = {"TMPDIR": str(folder), "TORCHINDUCTOR_CACHE_DIR": str(folder.parent / KEPT)}
        vectors = {} if has_late_vectors() else VECTORS
        linked = [os.path.realpath(path) for path in folder.rglob("*") if path.is_symlink()]
        with self._printed.open("wb") as printed:
            return start(
                command_in(
                    self._own,
                    folder.parent,
                    self._command,
                    linked,
                    {**QUIET, **FRESH, **vectors, **places, **self._environment},
                ),
                stdout=printed,
                stderr=TOGETHER,
                confine=partial(_confine, self._memory),
            )

    def end(self) -> tuple[int, str]:
        """The script's exit code and text; -1 when it did not end in time."""
        process = self.begin()
        try:
            if wait(process, max(0.0, self._deadline - time.monotonic())) is None:
                return -1, "repro.py did not end in time"
        finally:
            self.kill()
        with self._printed.open("rb") as printed:
            text = printed.read(MOST_TEXT).decode(errors="replace")
        return process.returncode, text.replace(f"{self.folder}/", "")

    def kill(self) -> None:
        """End its processes, whatever state they are in."""
        if self._process is not None:
            _kill_all(self._process)


def _confine(memory: int) -> None:
    """The limits of the script, and its launcher's end with crux's."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    own = resource.getrlimit(resource.RLIMIT_DATA)[1]
    most = memory if own == resource.RLIM_INFINITY else min(own, memory)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    kernel.die_with_parent()


def _kill_all(process: Process) -> None:
    """End whatever is left of the script's process group, and wait until it has ended.

    A kill is only a request: a child that is still being torn down may hold memory and files for a while. One
    that has ended, and that its new parent does not wait for, still counts: the wait has an end.
    """
    end_group(process)
    deadline = time.monotonic() + ENDING_SECONDS
    while _is_group(process.pid) and time.monotonic() < deadline:
        time.sleep(0.005)


def _is_group(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    return True
