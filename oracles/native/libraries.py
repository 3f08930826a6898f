"""Which files hold a backend's machine code, found without importing the framework."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from corpus.errors import UserError
from oracles.native.table import Library

_ASK = """
import importlib.util, sys
for name in sys.argv[1:]:
    found = importlib.util.find_spec(name)
    print(found.origin if found and found.origin else "")
"""
_SECONDS = 60


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
        answer = subprocess.run(
            [python, "-I", "-c", _ASK, *packages],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise UserError(f"{python}: cannot say where its packages lie: {error}") from error
    return [Path(line).parent if line else None for line in answer.stdout.split("\n")[: len(packages)]]
