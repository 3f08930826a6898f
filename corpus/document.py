"""Reading a document from a file, within limits; what a text begins with."""

from __future__ import annotations

import re
from pathlib import Path

from corpus.errors import UserError

MOST_BYTES = 1 << 30
HEAD = 64 << 10


def read_document(name: str, path: Path, memory_bytes: int) -> bytes:
    """Return the bytes of a program of the format `name`; UserError for what cannot be one."""
    return read_limited(path, min(memory_bytes, MOST_BYTES), f"no {name} program")


def read_limited(path: Path, most: int, what: str) -> bytes:
    """Return a regular file's bytes; UserError for one that is empty, too large or cannot be read."""
    try:
        size = path.stat().st_size if path.is_file() else -1
        if size <= 0 or size > most:
            why = "not a regular file" if size < 0 else "empty" if not size else f"{size} bytes, over {most}"
            raise UserError(f"{path}: {why}, so {what}; name another file")
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from error


def mentions(path: Path, pattern: str) -> bool:
    """Return whether the beginning of a text matches: what tells scripts of two frameworks apart."""
    try:
        with open(path, "rb") as file:
            head = file.read(HEAD)
    except OSError:
        return False
    return re.search(pattern, head.decode("utf-8", "replace"), re.MULTILINE) is not None
