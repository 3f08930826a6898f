"""Builds the C crash handler on first use, where there is a compiler."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).with_name("crash_handler.c")
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-O2", "-fPIC", "-shared")


@cache
def crash_handler() -> tuple[Path | None, str]:
    """The built library, or None and why there is none; kept in the user's cache by its source's hash."""
    source = SOURCE.read_bytes()
    key = hashlib.sha256(source + platform.machine().encode()).hexdigest()[:16]
    library = cache_folder() / f"crash_handler-{key}.so"
    if library.exists():
        return library, ""
    compiler = next((found for name in COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        return None, "no C compiler: crashes are told by Python's faulthandler alone"
    try:
        build(compiler, library)
    except (OSError, subprocess.SubprocessError) as error:
        return None, f"the crash handler cannot be built: {error}"
    return library, ""


def build(compiler: str, library: Path) -> None:
    """Compile to a name of our own and rename, so that builds side by side do no harm."""
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        product = Path(folder) / library.name
        command = [compiler, *FLAGS, "-o", str(product), str(SOURCE)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        product.rename(library)


def cache_folder() -> Path:
    """`tensorcrux` in the user's cache directory (XDG_CACHE_HOME)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "tensorcrux"
