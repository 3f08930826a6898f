"""The names under which a case keeps its files, as a database says them: anybody may have written that."""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath

from corpus.errors import UserError

DIGEST = re.compile(r"[0-9a-f]{64}")
MOST_FILES = 10_000
MOST_LENGTH = 1_000


def files_of(text: str, where: str) -> dict[str, str]:
    """Map each clean name in the case's folder to its file's digest; UserError for anything else."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError, TypeError):
        found = None
    if not isinstance(found, dict) or len(found) > MOST_FILES:
        raise UserError(f"{where}: its list of files is damaged; take the database from a copy")
    for name, digest in found.items():
        if not is_clean(name):
            raise UserError(
                f"{where}: a file is called {name[:80]!r}, which leaves its folder; do not use it"
            )
        if not is_digest(digest):
            raise UserError(f"{where}: {name[:80]!r} is kept as {str(digest)[:80]!r}, which is no SHA-256")
    return found


def is_digest(digest: object) -> bool:
    """Return whether it is a SHA-256 in lower-case hexadecimal."""
    return isinstance(digest, str) and DIGEST.fullmatch(digest) is not None


def is_clean(name: str) -> bool:
    """Return whether a name stays in its folder, on any system, and is not that folder."""
    parts = PurePosixPath(name).parts
    return (
        0 < len(name) <= MOST_LENGTH
        and not name.startswith("/")
        and not any(sign in name for sign in ("\0", "\\", ":"))
        and name.isprintable()
        and ".." not in parts
        and str(PurePosixPath(name)) == name
        and name != "."
    )
