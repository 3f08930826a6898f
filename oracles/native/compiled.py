"""Small C libraries of ours, compiled on first use and kept in the user's cache."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-O2", "-fPIC", "-shared")


def compiled(source: Path) -> tuple[Path | None, str]:
    """The built library, or None and why there is none; kept by the hash of its source."""
    key = hashlib.sha256(source.read_bytes() + platform.machine().encode()).hexdigest()[:16]
    library = cache_folder() / f"{source.stem}-{key}.so"
    if library.exists():
        return library, ""
    compiler = next((found for name in COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        return None, "no C compiler"
    try:
        _build(compiler, source, library)
    except (OSError, subprocess.SubprocessError) as error:
        return None, f"{source.name} cannot be built: {error}"
    return library, ""


def _build(compiler: str, source: Path, library: Path) -> None:
    """Compile to a name of our own and rename, so that builds side by side do no harm."""
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        product = Path(folder) / library.name
        command = [compiler, *FLAGS, "-o", str(product), str(source)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        product.rename(library)


def cache_folder() -> Path:
    """`tensorcrux` in the user's cache directory (XDG_CACHE_HOME)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "tensorcrux"
