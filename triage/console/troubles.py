"""What the system refuses while crux works, in one line: the disk, the database, descriptors."""

from __future__ import annotations

import errno
import re

DISK = {
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room",
    errno.EROFS: "name a place that can be written",
    errno.EACCES: "name a place that may be written, or give the right to it",
    errno.EPERM: "name a place that may be written, or give the right to it",
    errno.EFBIG: "raise the limit on files (`ulimit -f`)",
    errno.EMFILE: "raise the limit on descriptors (`ulimit -n`)",
    errno.ENFILE: "close other programs",
    errno.ENOMEM: "raise the limit on memory (`ulimit -v`), or close other programs",
    errno.EAGAIN: "raise the limit on processes (`ulimit -u`), or close other programs",
    errno.EIO: "look after the disk",
    errno.ENOTDIR: "name a place in a folder",
    errno.ENAMETOOLONG: "name a place with a shorter name",
}
"""What a person can do about an error of the system."""
DATABASE = re.compile(
    r"is full|readonly|read-only|is locked|disk I/O|unable to open|malformed|not a database|too big|encrypted"
)
"""What SQLite says of the machine or the file; anything else is our own mistake."""


def disk_complaint(error: BaseException) -> str:
    """One line for an error that is the machine's, not ours; empty for any other.

    An error that was met on the way to another one counts: SQLite and zip files say it in words of their own.
    """
    import sqlite3  # `crux --help` does without

    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        if isinstance(found, sqlite3.DatabaseError) and DATABASE.search(str(found)):
            text = " ".join(str(found).split())[:160]
            return f"the database cannot be used ({text}); what it holds already is kept"
        if isinstance(found, MemoryError):
            return "there is not enough memory for this; free some, or raise the limit (`ulimit -v`)"
        if isinstance(found, OSError) and found.errno in DISK:
            where = f"{found.filename}: " if found.filename else ""
            return f"{where}{found.strerror}; {DISK[found.errno]}"
        found = found.__cause__ or found.__context__
    return ""
