"""Which files hold a backend's machine code, found without importing the framework."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from corpus import processes
from corpus.errors import UserError
from oracles.native.table import Library

_ASK = """
import importlib.util, sys
for name in sys.argv[1:]:
    found = importlib.util.find_spec(name)
    print(found.origin if found and found.origin else "")
"""
_SECONDS = 60.0


def find_libraries(patterns: Sequence[tuple[str, str]], python: str | None = None) -> list[Library]:
    """Return the libraries that match, of this Python's packages or of another one's; raises `UserError`."""
    packages = sorted({pattern.partition("/")[0] for pattern, _ in patterns})
    folders = dict(zip(packages, _folders(packages, python or sys.executable), strict=True))
    found = []
    for pattern, scope in patterns:
        package, _, rest = pattern.partition("/")
        folder = folders[package]
        paths = sorted(folder.glob(rest)) if folder else []
        found += [Library(path, scope) for path in paths]
    if not found:
        raise UserError(f"--native-coverage: no library is found of {', '.join(packages)}; is it installed?")
    return found


def _folders(packages: Sequence[str], python: str) -> list[Path | None]:
    """Find each package's folder for that interpreter; None for a package that it lacks."""
    try:
        answer = processes.run([*processes.python(python), "-c", _ASK, *packages], _SECONDS)
    except processes.NotRun as error:
        raise UserError(f"{error}, so it cannot say where its packages lie") from error
    if answer.code:
        raise UserError(f"{python}: cannot say where its packages lie: it ended with {answer.code}")
    return [Path(line).parent if line else None for line in answer.output.split("\n")[: len(packages)]]
