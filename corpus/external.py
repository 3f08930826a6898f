"""Files of weights beside a program: named, checked and hashed without ever being held in memory."""

import hashlib
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

from corpus.errors import UserError

RESERVED = frozenset({"case.json", "inputs.npz", "model.onnx"})
"""What a case folder keeps under these names is never a file of weights."""

WEIGHTS = "weights"
"""The folder in which a case's weights lie once crux has written it, each file named by its content.

Under the names that a model brings along, one of them could be `numpy.py` beside a script that imports it.
"""

_FRESH_NS = 2_000_000_000
"""A file changed so lately may change again within one tick of its time stamp."""


@dataclass(frozen=True)
class ExternalFile:
    """A file of weights beside the model: never read into memory, linked or copied where it is needed.

    `location` is the path by which the model refers to it, relative to the model's folder.
    """

    location: str
    path: Path
    size: int

    @property
    def digest(self) -> str:
        """sha256 of the content, read in pieces; remembered as long as the file is not touched."""
        status = self.path.stat()
        if time.time_ns() - status.st_mtime_ns < _FRESH_NS:
            return _digest(str(self.path))
        return _known_digest(str(self.path), status.st_size, status.st_mtime_ns, status.st_ino)


@lru_cache(maxsize=256)
def _known_digest(path: str, size: int, modified_ns: int, inode: int) -> str:
    """The digest of a file that has been at rest; the status in the key tells when it changes."""
    return _digest(path)


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def find_external(location: str, folder: Path, where: str) -> ExternalFile:
    """The file that a model in `folder` calls `location`; UserError when absent or outside the folder."""
    pure = PurePosixPath(location)
    refused = f"{where}: external data {location[:200]!r}"
    if not location or "\0" in location or pure.is_absolute() or ".." in pure.parts or "\\" in location:
        raise UserError(f"{refused} leaves the model's folder; keep weights beside the model")
    if str(pure) in RESERVED:
        raise UserError(f"{refused} is the case's own file; keep weights in a file of their own")
    path = folder / pure
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise UserError(f"{refused} cannot be found; put it beside the model") from error
    if not real.is_relative_to(folder.resolve()):
        raise UserError(f"{refused} leaves the model's folder by a link; keep weights beside the model")
    if not real.is_file():
        raise UserError(f"{refused} is not a regular file; keep weights in one")
    return ExternalFile(str(pure), real, real.stat().st_size)
