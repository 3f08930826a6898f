"""Starting an interpreter contained from outside, and what of the containment is in force."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from corpus.errors import UserError
from oracles.sandbox.environment import worker_environment
from oracles.sandbox.plan import LAYERS, Plan
from oracles.sandbox.scratch import Scratch
from oracles.sandbox.visible import device_files, links, shown_paths

LAUNCHER = Path(__file__).with_name("launcher.py")
MOST_WORK = 1 << 30
"""Bytes that a worker may write to its folder, which lies in memory."""


class Contained:
    """A program that runs contained, under a launcher that stays outside and cleans up after it."""

    def __init__(self, process: subprocess.Popen[bytes], report: int) -> None:
        self.process = process
        self._report = report

    def layers(self) -> Mapping[str, str]:
        """By layer "" where it is in force, else why not; known once the program has answered."""
        try:
            told = json.loads(os.pread(self._report, 1 << 16, 0))
        except ValueError:
            return dict.fromkeys(LAYERS, "not told")
        return {name: str(told.get(name, "not told")) for name in LAYERS}

    def end(self, seconds: float) -> None:
        """Wait for the launcher, which ends the program and removes the folder; kill it when it takes longer."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
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
) -> Contained:
    """Start a program that inherits `control`; raises `UserError` where it is not there.

    It may read the interpreter's and the system's files, the scratch folder and what is `shown`, and write to
    the scratch folder's `work`.
    """
    program = shutil.which(command[0])
    if program is None:
        raise UserError(f"{command[0]}: this Python cannot be started: no such program, or none to be run")
    report = os.memfd_create("layers")
    plan = Plan(
        command=(os.path.abspath(program), *command[1:]),
        environment=worker_environment(str(scratch.work)),
        scratch=str(scratch.folder),
        work=str(scratch.work),
        control=control,
        report=report,
        shown=shown_paths(os.path.abspath(program), shown, gpu=gpu),
        links=links(),
        devices=device_files(gpu=gpu),
        work_bytes=min(memory_bytes, MOST_WORK),
        bubblewrap=bubblewrap(),
        contained=contained,
    )
    place = scratch.folder / "plan.json"
    place.write_text(plan.to_json(), encoding="utf-8")
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(LAUNCHER), str(place)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[control, report, scratch.lock],
            start_new_session=True,
            cwd="/",
        )
    except BaseException:
        os.close(report)
        raise
    return Contained(process, report)


def bubblewrap() -> str:
    """Where bubblewrap is, for whoever is not root: the kernel may let it do what it refuses to others.

    It cannot make root's processes those of another user, so for root the kernel would not count them.
    """
    found = shutil.which("bwrap") if os.getuid() else None
    return os.path.realpath(found) if found else ""
