"""Starting an interpreter contained from outside, and what of the containment is in force."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from corpus import processes
from corpus.errors import UserError
from corpus.processes import Process
from oracles.sandbox.container.kernel import LAYERS
from oracles.sandbox.container.plan import Plan
from oracles.sandbox.container.visible import device_files, links, shown_paths
from oracles.sandbox.scratch import Scratch

LAUNCHER = Path(__file__).with_name("launcher.py")
USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MOST_WORK = 1 << 30
"""Bytes that a worker may write to its folder, which lies in memory."""


class Contained:
    """A program that runs contained, under a launcher that stays outside and cleans up after it."""

    def __init__(self, process: Process, report: int) -> None:
        self.process = process
        self._report = report

    def layers(self) -> Mapping[str, str]:
        """Map each layer to the reason why it is off, "" if it is on. Call it after the first answer."""
        lines = os.pread(self._report, 1 << 16, 0).decode().splitlines()
        told = {name: complaint for name, _, complaint in (line.partition("\t") for line in lines)}
        return {name: told.get(name, "not told") for name in LAYERS}

    def end(self, seconds: float) -> None:
        """Wait for the launcher, which ends the program and removes the folder; kill it when it takes
        longer.
        """
        if processes.wait(self.process, seconds) is None:
            self.process.kill()
            self.process.wait()
        if self._report >= 0:
            os.close(self._report)
            self._report = -1


def start(
    command: Sequence[str],
    scratch: Scratch,
    control: int,
    log: IO[bytes],
    *,
    shown: Sequence[str] = (),
    memory_bytes: int,
    gpu: bool = False,
    contained: bool = True,
    inherited: Sequence[int] = (),
) -> Contained:
    """Start a program that inherits `control` and `inherited`; raises `UserError` where it is not there.

    It may read the interpreter's and the system's files, the scratch folder and what is `shown`, and write to
    the scratch folder's `work`.
    """
    plan = replace(
        _plan(command, scratch.folder, scratch.work, shown, gpu=gpu),
        control=control,
        report=os.memfd_create("layers"),
        devices=device_files(gpu=gpu),
        work_bytes=min(memory_bytes, MOST_WORK),
        contained=contained,
        inherited=tuple(inherited),
    )
    try:
        process = processes.start(
            [*launching(plan), str(scratch.lock)],
            stdout=log,
            stderr=log,
            inherited=[control, plan.report, scratch.lock, *inherited],
            folder="/",
        )
    except BaseException:
        os.close(plan.report)
        raise
    return Contained(process, plan.report)


def command_in(
    folder: Path, work: Path, command: Sequence[str], shown: Sequence[str], environment: Mapping[str, str]
) -> list[str]:
    """The command that runs another one contained, which starts in `work` and may write there; that stays.

    It may read what is `shown` as well. The exit code and what it writes are the program's. `folder` is the
    launcher's own.
    """
    plan = _plan(command, folder, work, shown)
    around = {**plan.environment, **environment}
    return launching(replace(plan, environment=around, work_bytes=0, is_removed=False))


def _plan(
    command: Sequence[str], scratch: Path, work: Path, shown: Sequence[str], *, gpu: bool = False
) -> Plan:
    """Return a program with what it may see, and nothing that it inherits."""
    program = program_of(command[0])
    return Plan(
        command=(program, *command[1:]),
        environment=worker_environment(str(work)),
        scratch=str(scratch),
        work=str(work),
        control=-1,
        report=-1,
        shown=shown_paths(program, shown, gpu=gpu),
        links=links(),
        bubblewrap=bubblewrap(),
    )


def worker_environment(work: str) -> dict[str, str]:
    """A worker's environment: settings of frameworks, no token; its home and temporary folder are `work`."""
    found = {name: value for name, value in os.environ.items() if processes.is_allowed(name)}
    found.setdefault("PATH", USUAL_PATH)
    found |= {"HOME": work, "TMPDIR": work, "XDG_CACHE_HOME": work, "USER": "crux", "LOGNAME": "crux"}
    return found


def launching(plan: Plan) -> list[str]:
    """Return the launcher's command for a plan, which is written beside the folder to work in."""
    place = Path(plan.scratch) / "plan"
    place.write_bytes(plan.to_bytes())
    return [sys.executable, "-I", "-S", str(LAUNCHER), str(place)]


def program_of(word: str) -> str:
    """Return the full path of a program; raises `UserError` where there is none."""
    found = shutil.which(word)
    if found is None:
        raise UserError(f"{word}: this Python cannot be started: no such program, or none to be run")
    return os.path.abspath(found)


def bubblewrap() -> str:
    """Find bubblewrap for a user other than root: the kernel may allow it what it refuses to others.

    It cannot make root's processes those of another user, so for root the kernel would not count them.
    """
    found = shutil.which("bwrap") if os.getuid() else None
    return os.path.realpath(found) if found else ""
