"""After a failure of our own: a log with the traceback, and a bundle with what its report needs."""

import json
import os
import platform
import sys
import time
import traceback
import zipfile
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

MOST_LOGS = 50
"""How many are kept."""
LARGEST_CASE = 4 << 20
"""Bytes of a case that goes into a bundle."""
PRIVATE = "--private"
PROGRAMS = frozenset({".onnx", ".json", ".npz"})
PACKAGES = ("tensorcrux", "onnxruntime", "onnx", "apache-tvm", "torch", "numpy", "typer", "sqlite-utils")
NOWHERE = Path("(nowhere: no folder could be written)")


def write_crash(arguments: Sequence[str]) -> tuple[Path, Path | None]:
    """Keep the exception under way: its log, and the bundle where there is room for one.

    The bundle holds the log, versions, and the cases that the command line names; of a command with
    `--private` it holds neither cases nor the words of the command.
    """
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    name = f"failure-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    is_private = PRIVATE in arguments
    words = "…" if is_private else " ".join(arguments)
    text = f"crux {words}\n\n{traceback.format_exc()}"
    for folder in (state / "crux", Path("/tmp")):
        log = folder / f"{name}.log"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _rotate(folder)
            with log.open("x", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
        except OSError:
            continue
        return log, _bundle(log.with_suffix(".zip"), text, () if is_private else arguments)
    return NOWHERE, None


def _bundle(path: Path, text: str, arguments: Sequence[str]) -> Path | None:
    home = str(Path.home())
    try:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
            bundle.writestr("crux.log", text.replace(home, "~") if len(home) > 1 else text)
            bundle.writestr("versions.json", json.dumps(versions(), indent=2))
            for place, file in _cases(arguments):
                bundle.write(file, place)
    except (OSError, ValueError):
        path.unlink(missing_ok=True)
        return None
    return path


def versions() -> dict[str, str]:
    """The packages and the machine, without their names for it."""
    found = {"python": sys.version.split()[0], "system": f"{platform.system()} {platform.machine()}"}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _cases(arguments: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """The files of the cases that the command names, while they are small, by their places in a bundle."""
    room = LARGEST_CASE
    for number, word in enumerate(arguments):
        path = Path(word)
        files = sorted(path.iterdir()) if (path / "case.json").is_file() else [path]
        for file in files:
            if file.suffix in PROGRAMS and file.is_file() and not file.is_symlink():
                room -= file.stat().st_size
                if room < 0:
                    return
                yield f"case-{number}/{file.name}", file


def _rotate(folder: Path) -> None:
    """Let the oldest go where there are many: what fails every night fills no disk."""
    for suffix in ("log", "zip"):
        for path in sorted(folder.glob(f"failure-*.{suffix}"))[: -MOST_LOGS + 1]:
            path.unlink(missing_ok=True)
