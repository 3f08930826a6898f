"""How the record asks: commands of the installed `crux`, run in a folder."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Facts = dict[str, Any]
Take = Callable[[Path], Facts]
CRUX = str(Path(sys.executable).with_name("crux"))
REGRESSIONS = Path(__file__).parents[2] / "corpus" / "regressions"
RECORD = Path(__file__).with_name("record")
PLAIN = {"COLUMNS": "80", "TERM": "dumb", "NO_COLOR": "1"}


class Absent(Exception):
    """A group that cannot be taken here, and why."""


class NoAnswer(Exception):
    """A command that should have printed a document and did not."""


def run(room: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """One command, in the folder."""
    return subprocess.run(
        [CRUX, *words], cwd=room, env={**os.environ, **PLAIN}, capture_output=True, text=True
    )


def document(done: subprocess.CompletedProcess[str]) -> Any:
    try:
        return json.loads(done.stdout)
    except ValueError:
        words = shlex.join(done.args[1:])
        raise NoAnswer(f"exit {done.returncode} of {words[:200]}: {done.stderr[-300:]}") from None


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def folder(variable: str) -> list[Path]:
    root = os.environ.get(variable, "")
    if not Path(root or "/nowhere").is_dir():
        raise Absent(f"{variable} names no folder")
    return sorted(Path(root).iterdir())
