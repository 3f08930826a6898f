"""`crux wrap -- CMD`: runs a user's program; a `torch.compile` that fails in it becomes a case.

It is torch's own way (`TORCHDYNAMO_REPRO_AFTER`): the program runs as it is, outside of the sandbox, as the
user would run it; only the folder where torch writes its dumps is ours.
"""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corpus.errors import UserError
from corpus.load import open_case
from corpus.processes import NotRun, run_for_user
from corpus.target import Target
from oracles.run import Limits
from oracles.sandbox.importing import importer_of
from triage.console.options import CaseOptions, as_command
from triage.console.output import Document, emit, quoted, say, table

if TYPE_CHECKING:
    from rich.table import Table

Command = Annotated[
    list[str], typer.Argument(metavar="-- CMD…", help="The program and its arguments, behind two dashes.")
]
Out = Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Where the cases go.")]
Catch = Annotated[
    str,
    typer.Option(
        "--catch",
        metavar="KIND",
        help="errors; all: keeps each graph before it is compiled, so that one which ends the process or"
        " gives wrong values is found as well.",
    ),
]


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("wrap")(as_command(CaseOptions, wrap, unsaid=("inputs",)))


def wrap(
    options: CaseOptions, command: Command, out: Out = Path("crux-caught"), catch: Catch = "errors"
) -> int:
    """Run a program of yours; each graph on which torch.compile fails in it becomes a case, and is judged.

    The exit code is 1 when a case shows a bug, whatever the program's own is.

    Example: crux wrap -- python train.py
    """

    target = options.target_of(None, "inductor")
    ended = run_wrapped(command, out, catch)
    found = _verdicts(options, ended.cases_of(target, options.limits))
    documents = emit(found, as_json=options.json, show=_show)
    say(f"crux: {ended.sentence(len(documents))}")
    failing = [document["case"] for document in documents if document["bug"]]
    if failing:
        say(f"next: crux reduce {quoted(str(failing[0]))} -o crux-small")
    elif documents:
        say(
            "next: run your program with the newest torch; none of its graphs fails when it is compiled alone"
        )
    elif catch == "errors":
        say(f"next: crux wrap --catch all -- {shlex.join(command)}")
    return 1 if failing else 0


def _verdicts(options: CaseOptions, folders: Iterator[Path]) -> Iterator[Document]:
    from triage.cases.judging import Judges, judge_often
    from triage.cases.sources import open_one

    with Judges(options) as judges:
        for folder in folders:
            case = open_one(str(folder), options, judges)
            assert case.target is not None
            _, document = judge_often(judges.of(case.target, case.format), case, 1)
            yield {"case": str(folder), **document}


def _show(documents: list[Document]) -> Table:
    rows = [(each["case"], each["outcome"], each["phase"], each["title"]) for each in documents]
    return table(("case", "outcome", "phase", "what was seen"), rows)


LEVELS = {"errors": "2", "all": "3"}
"""What torch calls them: dump where compiling raises; dump each graph before it is compiled."""
DUMPS = "dumps"
LAUNCHER = "minifier_launcher.py"


@dataclass(frozen=True)
class Ended:
    """The end of the program, and the folder of its dumps and cases."""

    code: int
    folder: Path

    @property
    def is_killed(self) -> bool:
        """Whether a signal ended it."""
        return self.code < 0

    @property
    def dumps(self) -> list[Path]:
        """List torch's dumps in the order of time."""
        found = (self.folder / DUMPS).rglob(LAUNCHER)
        return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path))

    def cases_of(self, target: Target, limits: Limits) -> Iterator[Path]:
        """Yield each dump as a case folder beside the dumps; one that cannot be opened is told in a line."""
        importer = importer_of(target, limits)
        for place, dump in enumerate(self.dumps, 1):
            try:
                case = open_case(dump, trust=True, target=target, importer=importer)
            except UserError as error:
                say(f"crux: {error}")
                continue
            folder = self.folder / f"case-{place}"
            replace(case, origin=str(dump)).save(folder)
            yield folder

    def sentence(self, count: int) -> str:
        """Say how the program ended, and how many cases came of it."""
        how = f"died of {signal.Signals(-self.code).name}" if self.is_killed else f"ended with {self.code}"
        found = (
            "no graph failed to compile" if not self.dumps else f"{count} of {len(self.dumps)} graphs kept"
        )
        return f"the program {how}; {found}"


def run_wrapped(command: Sequence[str], folder: Path, catch: str) -> Ended:
    """Run the command to its end, its own output untouched; what torch dumps goes below the folder.

    Raises `UserError` for another kind than `LEVELS`, a command that cannot be started, a folder in use.
    """
    if catch not in LEVELS:
        raise UserError(f"--catch {catch}: one of {', '.join(LEVELS)}")
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"{folder}: is not empty; name another folder with -o")
    dumps = (folder / DUMPS).resolve()
    dumps.mkdir(parents=True)
    asked = {
        "TORCHDYNAMO_REPRO_AFTER": "aot",
        "TORCHDYNAMO_REPRO_LEVEL": LEVELS[catch],
        "TORCH_COMPILE_DEBUG_DIR": str(dumps),
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",  # what comes out of a cache is not dumped
    }
    try:
        code = run_for_user(command, asked)
    except NotRun as error:
        raise UserError(str(error)) from None
    return Ended(code, folder)
