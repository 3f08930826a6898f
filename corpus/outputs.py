"""Folders that crux writes to: what it has put there is its own, and nothing else is replaced or removed.

The journal tells that a folder is one of a reduction, and the sums that it is a report. Other folders hold
`.crux`, a list of the names that crux has taken there. A name is listed before its file is written, so that a
kill in between leaves nothing that the next run takes for somebody else's.
"""

import fcntl
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from corpus.errors import UserError
from corpus.reading import write_fresh

MARKER = ".crux"
LOCK = ".crux-lock"
_HEAD = "What crux has written here; it replaces nothing else.\n"
_MOST_BYTES = 1 << 24


def own(folder: Path, names: Iterable[str], *, is_known: bool = False) -> None:
    """Take these names in a folder, which is made if it is not there; what they name may then be replaced.

    Raises `UserError` that names the first of them that somebody else has put there, unless it `is_known`
    from the contents that they are ours.
    """
    make_folder(folder)
    with _locked(folder):
        mine = owned(folder)
        new = set(names) - mine
        if not is_known:
            must_be_free(folder, new)
        if new:
            write_fresh(folder / MARKER, _HEAD + "".join(f"{name}\n" for name in sorted(mine | new)))


def must_be_free(folder: Path, names: Iterable[str]) -> None:
    """Raises `UserError` that names the first of these names which something in the folder has."""
    for name in sorted(names):
        if os.path.lexists(folder / name):
            raise UserError(
                f"{folder / name}: is there already, and crux did not write it; "
                "move it, or name another folder with -o"
            )


def must_be_empty(folder: Path) -> None:
    """Raises `UserError` for a folder that holds something, or that is none."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder}: is not empty; name another folder with -o")


def owned(folder: Path) -> set[str]:
    """The names that crux has taken in a folder; raises `UserError` where its list is none of ours."""
    path = folder / MARKER
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return set()
    except OSError as error:
        raise UserError(f"{path}: no list that crux has written ({error.strerror}); move it") from None
    try:
        status = os.fstat(descriptor)
        is_sound = stat.S_ISREG(status.st_mode) and status.st_size <= _MOST_BYTES
        text = os.read(descriptor, _MOST_BYTES).decode(errors="replace") if is_sound else ""
    finally:
        os.close(descriptor)
    if not text.startswith(_HEAD):
        raise UserError(f"{path}: no list that crux has written; move it")
    return set(text.removeprefix(_HEAD).splitlines())


def put(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all, in place of none or of one of ours; raises `UserError`."""
    data = content.encode() if isinstance(content, str) else content
    if path.is_char_device() or path.is_fifo():  # `--sarif /dev/stdout`
        path.write_bytes(data)
        return
    if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
        return
    own(path.parent, [path.name])
    write_fresh(path, data)


@contextmanager
def held(folder: Path, lock: Path | None = None) -> Iterator[None]:
    """Keep other processes from writing to a folder; raises `UserError` that says which one does.

    The lock lies in the folder, which is made if need be and goes again if nothing was put into it, or at the
    path of `lock`.
    """
    is_new = not folder.exists()
    if lock is None:
        make_folder(folder)
    path = lock or folder / LOCK
    descriptor = _taken(path, folder)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)
        if is_new and lock is None:
            with suppress(OSError):
                folder.rmdir()


def _taken(path: Path, folder: Path) -> int:
    """The descriptor that holds the lock of that name; the file says which process has it."""
    for _ in range(100):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
            os.close(descriptor)
            raise UserError(f"{folder}: process {who or '?'} is writing there; wait for it") from None
        if _is_at(descriptor, path):
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
            return descriptor
        os.close(descriptor)  # whoever had it has just given it up, and removed it
    raise UserError(f"{folder}: another process writes there again and again; wait for it")


def _is_at(descriptor: int, path: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    return False


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other threads and processes from listing names in the folder for a moment."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it where they are missing; raises `UserError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise UserError(f"{folder}: is a file; name a folder") from None
    except FileNotFoundError as error:  # a file system that has no room for folders, such as /proc
        raise UserError(f"{folder}: no folder can be made; name another with -o") from error
