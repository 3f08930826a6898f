"""Running a user's script where it can do no harm, and reading what was noted of it."""

from __future__ import annotations

import ast
import base64
import json
import os
import re
import resource
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from corpus.errors import UserError
from corpus.format import read_whole
from corpus.formats import find_format
from corpus.graphs.program import decode_values
from corpus.load import Imported
from corpus.processes import TOGETHER, end_group, start, wait
from corpus.reading import read_text
from corpus.target import Target
from oracles.abilities import Backend
from oracles.backends import backends
from oracles.backends.inductor import HEADERS, has_late_vectors
from oracles.extras import is_installed
from oracles.failure_text import read_failure
from oracles.normalise import template
from oracles.sandbox.container import kernel
from oracles.sandbox.container.start import command_in
from oracles.sandbox.sandbox import Sandbox, SandboxError
from oracles.verdict import Limits
from oracles.worker import scripts as recording

MOST_TEXT = 4 << 20
START_SECONDS = 30.0
"""What importing frameworks may take, besides the time of runs."""
RUNS, WAITS = 3, 10
"""How many runs' CPU time each process of a script may take, and how many runs' time by the clock."""
BY_TESTS = re.compile(r"^(\s*def test_|class \w+\(.*TestCase\))", re.M)
DEFINES = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
"""The statements of a file that only says what its tests are."""
HOME = Path(recording.__file__).parents[3]
START = Path(recording.__file__).parent / "start"
SCRIPT = "script.py"
KILLED = 192
"""An exit code above is a signal, which the launcher gives as 256 less its number."""
LACKS = "lacks"
LACKING = re.compile(
    r"(\w+: )?(NameError|ModuleNotFoundError|ImportError|FileNotFoundError|NoSuchFile|SyntaxError|HTTPError"
    r"|AttributeError: module '[\w.]+' has no|\w*Connection\w*Error|URLError|LocalEntryNotFoundError"
    r"|OSError: We couldn't connect)"
)
"""Exceptions of a script that is not whole, or wants something from outside: no failure of a compiler."""
CALLED, ENDED, FAILED = "called", "ended", "failed"


TEXTS = ("event", "call", "type", "text", "unkept", "target", "passes")


@dataclass(frozen=True, slots=True)
class Note:
    """A line that the recorder wrote, or that a crash left (`crashed`); what does not apply is empty.

    `folder` holds the program of a call, or the arguments `fed` to a function; `passes` names the pass that a
    call applies.
    """

    event: str
    at: float
    call: str = ""
    type: str = ""
    text: str = ""
    unkept: str = ""
    target: str = ""
    passes: str = ""
    threads: int = 0
    is_same: bool = True
    frames: tuple[tuple[str, str, str], ...] = ()
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class Complaint:
    """What a script's run shows as its failure; `symptom` stays the same while the script shrinks.

    It is false where nothing failed, and for a script that lacks a file, a name or a package.
    """

    kind: str
    text: str
    symptom: str

    def __bool__(self) -> bool:
        return self.kind not in ("", LACKS)

    @property
    def title(self) -> str:
        """Its first line that says something."""
        return next((line.strip() for line in self.text.splitlines() if line.strip(": ")), self.kind)[:200]


NO_COMPLAINT = Complaint("", "it ended well, and no comparison was false", "")


@dataclass(frozen=True)
class ScriptRun:
    """The end of a script: its exit code (None: out of time), its text, the notes of its processes in order.

    Folders of programs lie below `folder` as long as `script_run` is open.
    """

    code: int | None
    text: str
    notes: tuple[Note, ...]

    def events(self, *kinds: str) -> Iterator[Note]:
        """Yield the notes of these kinds."""
        return (each for each in self.notes if each.event in kinds)

    def urgency(self, call: Note) -> tuple[bool, bool, float]:
        """A key by which calls stand first that did not end well, then the latest before values differed."""
        differed = next((each.at for each in self.events("compared") if not each.is_same), float("inf"))
        return self.ended_well(call), call.at > differed, -call.at

    def ended_well(self, call: Note) -> bool:
        """Whether a call came back with a result."""
        after = (each for each in self.notes[self.notes.index(call) + 1 :] if each.event in (ENDED, FAILED))
        ended = next((each for each in after if each.call == call.call), None)
        return ended is not None and ended.event == ENDED

    def complaint(self, printed: str = "") -> Complaint:
        """What the script complains of, the surest sign first; `printed` is a pattern that its user names."""
        if printed:
            found = re.search(printed, self.text)
            return Complaint("text", found[0], f"text:{printed}") if found else NO_COMPLAINT
        ways = (self._out_of_time, self._crash, self._raised, self._difference, self._caught, self._exit)
        return next((each for each in (way() for way in ways) if each.kind), NO_COMPLAINT)

    def _out_of_time(self) -> Complaint:
        ended = (256 - signal.SIGXCPU, 256 - signal.SIGKILL, None)
        return Complaint("hang", "it does not end", "hang") if self.code in ended else NO_COMPLAINT

    def _crash(self) -> Complaint:
        crashed = next((each.text for each in self.events("crashed")), "")
        failure = read_failure(crashed)
        if not failure.is_crash and (self.code or 0) > KILLED:
            return Complaint("crash", f"signal {256 - (self.code or 0)}", f"crash:{self.code}")
        if not failure.is_crash:
            return NO_COMPLAINT
        return Complaint("crash", failure.kind, f"crash:{failure.kind}:{failure.site}")

    def _raised(self) -> Complaint:
        raised = list(self.events("raised"))
        if not raised:
            return NO_COMPLAINT
        last = raised[-1]
        frames = [each for each in last.frames if "run_tests.py" not in each[0]]
        file, function, line = frames[-1] if frames else ("", "", "")
        site = f"{file.rpartition('/site-packages/')[2]} {function}" if "site-packages" in file else line
        words = f"{last.type}: {last.text}"
        if LACKING.match(words):
            return Complaint(LACKS, f"the script is not whole: {words}", LACKS)
        differs = [each.call for each in self.events("compared") if not each.is_same]
        name = differs[-1] if last.type == "AssertionError" and differs else template(last.text)
        return Complaint("exception", words, f"{last.type}:{name}:{'' if differs else site}")

    def _difference(self) -> Complaint:
        calls = [each.call for each in self.events("compared") if not each.is_same]
        if not calls:
            return NO_COMPLAINT
        return Complaint("difference", f"{calls[-1]} says that values differ", f"difference:{calls[-1]}")

    def _caught(self) -> Complaint:
        failed = list(self.events(FAILED))
        if not failed:
            return NO_COMPLAINT
        last = failed[-1]
        words = f"{last.call} raises {last.type}: {last.text}"
        return Complaint("caught", words, f"caught:{last.call}:{last.type}:{template(last.text)}")

    def _exit(self) -> Complaint:
        if not self.code:
            return NO_COMPLAINT
        failure = read_failure(self.text)
        return Complaint(
            "exit",
            f"exit code {self.code}, {failure.kind}: {failure.message}".rstrip(": "),
            f"exit:{self.code}:{failure.kind}:{template(failure.message)}",
        )


@contextmanager
def script_run(
    text: str, limits: Limits, *, beside: Sequence[Path] = (), python: str = ""
) -> Iterator[ScriptRun]:
    """Run a script contained, in an empty folder with links to the files `beside`; its end."""
    with tempfile.TemporaryDirectory(prefix="crux-", dir=os.path.realpath(tempfile.gettempdir())) as made:
        folder = Path(made)
        work, notes, own = folder / "work", folder / "work" / ".crux", folder / "own"
        for each in (work, notes, own):
            each.mkdir()
        (work / SCRIPT).write_text(text, encoding="utf-8")
        for path in beside:
            (work / path.name).symlink_to(path.resolve())
        command = _command(text, python or sys.executable)
        code = _ended(command, own, work, beside, limits, folder / "out")
        with (folder / "out").open("rb") as printed:
            said = printed.read(MOST_TEXT).decode(errors="replace")
        yield ScriptRun(code, said, tuple(_notes(notes)))


def _command(text: str, python: str) -> list[str]:
    """The interpreter with the script, or with its tests where it has no other code to run."""
    body = ast.parse(text).body if BY_TESTS.search(text) else []
    is_tests = body and all(isinstance(each, DEFINES) or _is_text(each) for each in body)
    return [python, str(START / "run_tests.py"), SCRIPT] if is_tests else [python, SCRIPT]


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _ended(
    command: list[str], own: Path, work: Path, beside: Sequence[Path], limits: Limits, printed: Path
) -> int | None:
    shown = [str(HOME / "oracles"), str(HOME / "corpus"), *(str(path.resolve()) for path in beside)]
    places = {
        "PYTHONPATH": str(START),
        "CRUX_HOME": str(HOME),
        "CRUX_NOTES": str(work / ".crux"),
        "PYTHONUNBUFFERED": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(work / ".cache"),
        "OMP_NUM_THREADS": "1",
        HEADERS: "0",
        **({} if has_late_vectors() else {"TORCHINDUCTOR_VEC_ISA_OK": "1"}),
        "CUDA_VISIBLE_DEVICES": "",
    }
    seconds = WAITS * limits.wall_seconds + START_SECONDS
    with printed.open("wb") as output:
        process = start(
            command_in(own, work, command, shown, places),
            stdout=output,
            stderr=TOGETHER,
            confine=partial(_confine, limits),
        )
        try:
            return wait(process, seconds)
        finally:
            end_group(process)


def _confine(limits: Limits) -> None:
    """The limits of the script, and its launcher's end with crux's."""
    seconds = int(RUNS * limits.cpu_seconds + START_SECONDS)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_DATA, (limits.memory_bytes, limits.memory_bytes))
    kernel.die_with_parent()


def _notes(folder: Path) -> list[Note]:
    """The notes of all processes by time; a process that crashed says so in a note of its own."""
    found: list[Note] = []
    for path in sorted(folder.glob("*/notes.jsonl")):
        crash = path.with_name("crash.txt")
        if any(each.is_symlink() for each in (path.parent, path, crash)):
            raise UserError("the notes of the script lie behind a link; nothing is read from there")
        lines = [_note(line, path.parent) for line in read_text(path).splitlines() if line.endswith("}")]
        if lines and crash.is_file() and (said := read_text(crash)):
            lines.append(Note("crashed", lines[-1].at, text=said))
        found += lines
    return sorted(found, key=lambda each: each.at)


def _note(line: str, folder: Path) -> Note:
    """A note as the script's process wrote it, which may have been anything; raises `UserError`."""
    try:
        facts = json.loads(line)
        frames = tuple((str(file), str(name), str(code)) for file, name, code in facts.get("frames", ()))
        number = facts.get("folder")
        return Note(
            **{name: str(facts.get(name, "")) for name in TEXTS},
            at=float(facts["at"]),
            threads=int(facts.get("threads", 0)),
            is_same=facts.get("same") is not False,
            frames=frames,
            folder=None if number is None else folder / str(int(number)),
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(
            f"the notes of the script are damaged ({type(error).__name__}); run it again"
        ) from None


MOST_BYTES = 128 << 20


def open_foreign(target: Target | None, limits: Limits, name: str, path: Path) -> Imported:
    """A file of a framework's own, opened as a program of the format `name`.

    It is read under the interpreter of the target where that has the framework, else under our own.
    """
    content = base64.b64encode(read_whole(path, MOST_BYTES, f"name a {name} program")).decode("ascii")
    opener = _opener(target, name)
    is_same = target is not None and backends()[target.backend].package == opener.package
    python = target.get("python") if target is not None and is_same else ""
    beside = [str(path.resolve().parent)] if path.suffix == ".py" else []  # a trusted script may import these
    with Sandbox(opener.name, python=python or None, limits=limits, shown=beside) as sandbox:
        found = imported(sandbox, name, path, content)
        return replace(found, notes=(*found.notes, *_lacks(sandbox)))


def _opener(target: Target | None, name: str) -> Backend:
    """A backend that opens such files: the target's own, else one that is installed."""
    openers = [each for each in backends().values() if any(name in graphs.opens for graphs in each.graphs)]
    own = (each for each in openers if target is not None and each.name == target.backend)
    ready = (each for each in openers if is_installed(each.package))
    return next(chain(own, ready, openers))


def _lacks(sandbox: Sandbox) -> tuple[str, ...]:
    """A remark on what the system refused while trusted code ran; none where everything is in force."""
    missing = [name for name, complaint in sandbox.facts["containment"].items() if complaint]
    return (f"opened without these layers of the sandbox: {', '.join(missing)}",) if missing else ()


def imported(sandbox: Sandbox, name: str, path: Path, content: str, *, most: int = 300) -> Imported:
    """Import a file (in base64) in a backend's worker; a refusal is cut at this many characters."""
    try:
        answer = sandbox.ask("open_program", str(path), content)
    except SandboxError:
        raise UserError(
            f"{path}: opening it did not end in {sandbox.limits.wall_seconds:g} seconds or ended its process,"
            f" and no {name} program was seen"
        ) from None
    if "error" in answer:
        raise UserError(f"{path}: {' '.join(str(answer['error']).split())[:most]}")
    return from_answer(name, answer, str(path))


def from_answer(name: str, answer: dict[str, Any], where: str) -> Imported:
    """The program as crux writes it, whatever the worker's dictionary looks like."""
    other = answer.get("format", "")  # of another language than it was opened as: PrimFuncs alone
    program = find_format(other or name).from_worker(answer, where)
    inputs, notes = decode_values(answer.get("inputs", {})), tuple(answer.get("notes", ()))
    return Imported(program, inputs, notes, other)
