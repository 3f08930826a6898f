"""Directories for workers and candidates, swept when their owner has died; external data laid out in them."""

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from corpus.reading import ExternalFile

PREFIX = "tensorcrux-"
LOCK = "lock"
HALF_MADE = 600.0
"""Seconds after which a directory that has no lock was left by one who died while making it."""


class Scratch:
    """A directory that is removed by `close`, by the workers' guard, or by the next crux after a crash.

    `lock` is held, through a descriptor that the launcher inherits, while any process still uses it. Workers
    may write to `work` only, in whose place they see a folder in memory.
    """

    def __init__(self) -> None:
        sweep(Path(tempfile.gettempdir()))
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        self.lock = os.open(self.folder / "new", os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        os.rename(self.folder / "new", self.folder / LOCK)
        self.work = self.folder / "work"
        self.work.mkdir()
        self._laid_out: tuple[ExternalFile, ...] = ()

    def close(self) -> None:
        """Remove the folder and give up its lock."""
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1
        shutil.rmtree(self.folder, ignore_errors=True)

    def lay_out(self, program: bytes, external: tuple[ExternalFile, ...]) -> dict[str, str]:
        """The places of external data for a worker: the whole model's `path`, or its `folder`.

        Frameworks refuse links that leave the model's folder, so the files are hard-linked; where that is not
        possible they are used where they lie, and copied only when they lie in several folders.
        """
        folder = self.folder / "model"
        if external != self._laid_out or not folder.exists():
            self._laid_out = ()
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            common = link_all(external, folder)
            if common:
                return {"folder": str(common)}
            self._laid_out = external
        (folder / "model.onnx").write_bytes(program)
        return {"path": str(folder / "model.onnx")}


def link_all(external: tuple[ExternalFile, ...], folder: Path) -> Path | None:
    """Put every file under `folder`, or say which folder already holds them all."""
    try:
        for file in external:
            os.link(file.path.resolve(), place_in(folder, file.location))
    except OSError:
        shutil.rmtree(folder)
        folder.mkdir()
        common = common_folder(external)
        if common is None:
            for file in external:
                shutil.copyfile(file.path, place_in(folder, file.location))
        return common
    return None


def common_folder(external: tuple[ExternalFile, ...]) -> Path | None:
    """The folder in which all files lie at their locations, if there is one."""
    folders = set()
    for file in external:
        location = Path(file.location)
        path = file.path.resolve()
        if path.parts[-len(location.parts) :] != location.parts:
            return None
        folders.add(Path(*path.parts[: -len(location.parts)]))
    return folders.pop() if len(folders) == 1 else None


def place_in(folder: Path, location: str) -> Path:
    """The path of a location in the folder; raises `ValueError` when it leads out of it."""
    place = Path(os.path.normpath(folder / location))
    if folder not in place.parents:
        raise ValueError(f"external data at {location!r} lies outside of the model's folder")
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def sweep(parent: Path) -> None:
    """Remove the directories that no living process holds: they are left when all processes were killed at
    once.
    """
    for folder in parent.glob(PREFIX + "*"):
        try:
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            with suppress(OSError):
                is_old = time.time() - folder.lstat().st_mtime > HALF_MADE
                if is_old and not (folder / LOCK).exists():
                    shutil.rmtree(folder, ignore_errors=True)
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue
        else:
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)
