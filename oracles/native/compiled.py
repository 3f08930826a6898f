"""Small C libraries of ours, compiled on first use and kept in the user's cache."""

from __future__ import annotations

import hashlib
import platform
import shutil
import tempfile
from pathlib import Path

from corpus.files import cache_folder
from corpus.processes import NotRun, run

COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-O2", "-fPIC", "-shared")
SECONDS = 60.0


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
    except (OSError, NotRun) as error:
        return None, f"{source.name} cannot be built: {error}"
    return library, ""


def _build(compiler: str, source: Path, library: Path) -> None:
    """Compile to a name of our own and rename, so that builds side by side do no harm."""
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        product = Path(folder) / library.name
        command = [compiler, *FLAGS, "-o", str(product), str(source)]
        done = run(command, SECONDS)
        if done.code:
            raise NotRun(" ".join(done.errors.split()) or f"{compiler} ended with {done.code}")
        product.rename(library)
