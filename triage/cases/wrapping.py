"""A user's program run with torch's dumps switched on, and the cases that these are."""

import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from corpus.errors import UserError
from corpus.load import open_case
from corpus.processes import NotRun, run_for_user
from corpus.target import Target
from oracles.sandbox.importing import open_foreign
from oracles.verdict import Limits
from triage.console.output import say

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
        importer = partial(open_foreign, target, limits)
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
