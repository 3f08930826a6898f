"""Reading a document from a file, within limits; what a text begins with."""

from __future__ import annotations

import re
from pathlib import Path

from corpus.errors import UserError
from corpus.reading import read_bytes

MOST_BYTES = 1 << 30
HEAD = 64 << 10


def read_document(name: str, path: Path, memory_bytes: int) -> bytes:
    """Return the bytes of a program of the format `name`; UserError for what cannot be one."""
    return read_whole(path, min(memory_bytes, MOST_BYTES), f"name a {name} program")


def read_whole(path: Path, most: int, advice: str) -> bytes:
    """The bytes of a file that is not empty; raises `UserError`."""
    data = read_bytes(path, most, advice)
    if not data:
        raise UserError(f"{path}: empty; {advice}")
    return data


def mentions(path: Path, pattern: str) -> bool:
    """Return whether the beginning of a text matches: what tells scripts of two frameworks apart."""
    try:
        head = read_bytes(path, MOST_BYTES)[:HEAD]
    except UserError:
        return False
    return re.search(pattern, head.decode("utf-8", "replace"), re.MULTILINE) is not None
