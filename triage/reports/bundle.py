"""A report's folder and its zip: written whole or not at all, and the same bytes every time."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from corpus.errors import UserError

SUMS = "SHA256SUMS"
OLDEST = (1980, 1, 1, 0, 0, 0)


def write_bundle(folder: Path, files: Mapping[str, bytes], large: Mapping[str, Path]) -> Path:
    """Write `folder` and `folder.zip`, replacing an earlier report of the same name; the zip's path.

    `large` are files to copy without reading them into memory.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    _must_be_ours(folder)
    with tempfile.TemporaryDirectory(prefix=".report-", dir=folder.parent) as scratch:
        made, archive = Path(scratch) / "made", Path(scratch) / "made.zip"
        _fill(made, files, large)
        _zip(made, archive, folder.name)
        if folder.exists():
            os.replace(folder, Path(scratch) / "earlier")
        os.replace(made, folder)
        target = folder.with_name(folder.name + ".zip")
        os.replace(archive, target)
    return target


def _must_be_ours(folder: Path) -> None:
    if folder.exists() and not (folder / SUMS).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder}: exists and is not a report; name another folder with -o")


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
