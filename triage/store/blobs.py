"""Large contents beside the database, each named by its own SHA-256."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

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
    """Whether it is a SHA-256 in lower-case hexadecimal."""
    return isinstance(digest, str) and DIGEST.fullmatch(digest) is not None


def is_clean(name: str) -> bool:
    """Whether a name stays in its folder, on any system, and is not that folder."""
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


CHUNK = 1 << 20


class Blobs:
    """A folder of files named by their contents: written once, never changed.

    A blob is on disk in full (temporary file, fsync, rename, fsync of the folder) before anything may
    refer to it, so a kill at any moment leaves at most an unused blob or a temporary file.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, digest: str) -> Path:
        """The path of a blob. Raises `UserError` for anything but a digest: it could lead anywhere."""
        if not is_digest(digest):
            raise UserError(f"{self.root}: {str(digest)[:80]!r} is no SHA-256; the database is damaged")
        return self.root / digest[:2] / digest

    def put_file(self, source: Path) -> str:
        """Copy a file in without ever holding it in memory."""
        digest = digest_file(source)
        if not self._is_used_again(digest):
            self._write(digest, source)
        return digest

    def take_from(self, other: Blobs, digests: Iterable[str]) -> None:
        """Copy blobs of another folder; raises `UserError` where one is missing or damaged there.

        They are all on disk before the first gets its name, and their names before this returns: two waits
        for the disk, however many there are.
        """
        written: dict[str, Path] = {}
        try:
            for digest in digests:
                if not self._is_used_again(digest):
                    written[digest] = self._copy(other, digest)
            os.sync()
            for digest, path in written.items():
                path.replace(self.path(digest))
        finally:
            for path in written.values():
                path.unlink(missing_ok=True)
        os.sync()

    def get(self, digest: str) -> bytes:
        """The content; `UserError` where it is not what its name says."""
        content = self.path(digest).read_bytes()
        if hashlib.sha256(content).hexdigest() != digest:
            raise self._damaged(digest)
        return content

    def link(self, digest: str, target: Path) -> None:
        """Let a file be the blob; `UserError` where its content is not what its name says.

        Raises `FileNotFoundError` where there is none.
        """
        path = self.path(digest)
        if path.is_symlink() or digest_file(path) != digest:
            raise self._damaged(digest)
        os.link(path, target)

    def _damaged(self, digest: str) -> UserError:
        return UserError(
            f"{self.root}: the content of {digest[:12]} is not what its name says; `crux db check` lists"
            " what is damaged, take the file from a copy"
        )

    def digests(self) -> Iterator[str]:
        """Every blob there is, in order; temporary files left by a kill are passed over."""
        for path in sorted(self.root.glob("??/*")):
            if is_digest(path.name) and path.parent.name == path.name[:2]:
                yield path.name

    def leavings(self) -> Iterator[Path]:
        """Files and folders that a kill left half written, or that a writer is at."""
        yield from sorted((*self.root.glob("??/.*"), *self.root.glob("crux-case-*")))

    def remove_unless_used(self, digest: str, youngest: float) -> bool:
        """Remove a blob that was neither written nor wanted again since a time; whether it is gone.

        It is put aside first: a writer that comes upon it in between finds it gone and writes it anew, and
        one that came just before has left its mark on it.
        """
        path = self.path(digest)
        aside = path.with_name(f".removing-{digest}")
        path.rename(aside)
        if aside.stat().st_mtime >= youngest:
            aside.rename(path)
            return False
        aside.unlink()
        return True

    def _is_used_again(self, digest: str) -> bool:
        """Whether the blob exists.

        If so its age starts anew, so that a clean-up waits until a row names it.
        """
        try:
            os.utime(self.path(digest))
        except FileNotFoundError:
            return False
        return True

    def is_intact(self, digest: str) -> bool:
        """Whether a blob is there and has the content that its name says."""
        if not is_digest(digest):
            return False
        path = self.path(digest)
        return path.is_file() and not path.is_symlink() and digest_file(path) == digest

    def _copy(self, other: Blobs, digest: str) -> Path:
        """A temporary file with the content of another folder's blob."""
        source = other.path(digest)
        if source.is_symlink() or not source.is_file() or digest_file(source) != digest:
            raise UserError(
                f"{other.root}: the file {digest[:12]} is missing or damaged, see `crux db check`"
            )
        descriptor, path = self._temporary(digest)
        os.close(descriptor)
        try:
            shutil.copyfile(source, path)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return path

    def _temporary(self, digest: str) -> tuple[int, Path]:
        folder = self.path(digest).parent
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=".writing-", dir=folder)
        return descriptor, Path(name)

    def _write(self, digest: str, source: Path) -> None:
        descriptor, path = self._temporary(digest)
        try:
            with os.fdopen(descriptor, "wb") as file, source.open("rb") as opened:
                shutil.copyfileobj(opened, file, CHUNK)
                file.flush()
                os.fsync(file.fileno())
            path.replace(self.path(digest))
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)


def digest_file(path: Path) -> str:
    """The SHA-256 of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
