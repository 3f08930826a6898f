"""A report's folder and its zip: written whole or not at all, and the same bytes every time."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from corpus.errors import UserError
from corpus.outputs import held, make_folder
from corpus.reading import SCRATCH

SUMS = "SHA256SUMS"
MOST_SUMS = 1 << 24
OLDEST = (1980, 1, 1, 0, 0, 0)


def write_bundle(folder: Path, files: Mapping[str, bytes], large: Mapping[str, Path]) -> Path:
    """Write `folder` and `folder.zip`, replacing an earlier report of the same name; the zip's path.

    `large` are files to copy without reading them into memory.
    """
    folder = folder if folder.name not in ("", "..") else Path(os.path.abspath(folder))
    make_folder(folder.parent)
    target = folder.with_name(folder.name + ".zip")
    scratch = tempfile.TemporaryDirectory(prefix=SCRATCH, dir=folder.parent)
    with held(folder, folder.with_name(f".{folder.name}.crux-lock")), scratch as name:
        _must_be_ours(folder)
        _must_be_our_zip(target, folder.name)
        made, archive = Path(name) / "made", Path(name) / "made.zip"
        _fill(made, files, large)
        _zip(made, archive, folder.name)
        if folder.exists():
            os.replace(folder, Path(name) / "earlier")
        os.replace(made, folder)
        os.replace(archive, target)
    return target


def _must_be_ours(folder: Path) -> None:
    """Raises `UserError` unless the folder is empty, or all in it is as an earlier report left it."""
    if not os.path.lexists(folder):
        return
    if folder.is_symlink() or not folder.is_dir():
        raise UserError(f"{folder}: is there already and no report; name another folder with -o")
    wanted = _sums(_text_of(folder / SUMS))
    for name, path in sorted((str(path.relative_to(folder)), path) for path in folder.rglob("*")):
        is_kept = path.is_dir() and not path.is_symlink()
        if not is_kept and name != SUMS and (path.is_symlink() or wanted.get(name) != _digest(path)):
            raise UserError(f"{path}: is not as a report left it; move it, or name another folder with -o")


def _must_be_our_zip(path: Path, name: str) -> None:
    """Raises `UserError` unless there is no such file, or an earlier report's zip."""
    if not os.path.lexists(path):
        return
    try:
        if not path.is_file():  # a pipe would be waited for
            raise ValueError
        with zipfile.ZipFile(path) as archive:
            inside = archive.getinfo(f"{name}/{SUMS}")
            wanted = _sums(archive.read(inside).decode() if inside.file_size <= MOST_SUMS else "")
            names = {f"{name}/{SUMS}", *(f"{name}/{each}" for each in wanted)}
            is_ours = set(archive.namelist()) == names
    except (OSError, ValueError, LookupError, RuntimeError, zipfile.BadZipFile, zlib.error):
        is_ours = False
    if not is_ours:
        raise UserError(f"{path}: is there already and no report's zip; move it, or name another -o")


def _text_of(path: Path) -> str:
    if path.is_symlink() or not path.is_file() or path.stat().st_size > MOST_SUMS:
        return ""
    return path.read_text(encoding="utf-8", errors="replace")


def _sums(text: str) -> dict[str, str]:
    """The digest of each file that a list names."""
    pairs = (line.partition("  ") for line in text.splitlines())
    return {name: digest for digest, _, name in pairs}


def _fill(folder: Path, files: Mapping[str, bytes], large: Mapping[str, Path]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for name, source in large.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, path)
    (folder / SUMS).write_text("".join(f"{_digest(path)}  {name}\n" for name, path in _files(folder)))


def _files(folder: Path) -> list[tuple[str, Path]]:
    return sorted((str(path.relative_to(folder)), path) for path in folder.rglob("*") if path.is_file())


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _zip(folder: Path, archive: Path, name: str) -> None:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as made:
        for inside, path in _files(folder):
            member = zipfile.ZipInfo(f"{name}/{inside}", OLDEST)
            member.external_attr = 0o644 << 16
            member.compress_type = zipfile.ZIP_DEFLATED
            with path.open("rb") as source, made.open(member, "w", force_zip64=True) as target:
                shutil.copyfileobj(source, target, 1 << 20)
