"""`.npz` files read and written member by member: bounded, never pickled, with deterministic bytes."""

from __future__ import annotations

import io
import math
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from corpus.errors import UserError

_EPOCH = (1980, 1, 1, 0, 0, 0)
_SUFFIX = ".npy"
_BROKEN = (
    *(zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError),
    *(SyntaxError, tokenize.TokenError, TypeError, KeyError, MemoryError, OverflowError),
)
"""What zip files and numpy raise for a member that is damaged; a header is a Python literal to numpy."""
KINDS = "biufcU"
"""numpy's letters for what an input may be: bool, integers, floats, complex numbers, text."""
MOST_DIMS = 32
_NAME_BYTES = 60_000


def write_npz(target: Path | IO[bytes], members: Mapping[str, NDArray[Any]]) -> None:
    """Write the arrays in the given order; the same arrays give the same bytes."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name, array in members.items():
            if "\0" in name or len(name.encode()) > _NAME_BYTES:
                raise UserError(f"input {name[:40]!r}: no zip member can have this name; rename the input")
            member = zipfile.ZipInfo(name + _SUFFIX, _EPOCH)
            member.create_system, member.external_attr = 3, 0o644 << 16
            header = io.BytesIO()
            np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
            member.file_size = header.tell() + array.nbytes
            with archive.open(member, "w") as file:
                file.write(header.getvalue())
                file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


class NpzReader:
    """An open `.npz`; `names` are its members, read one at a time and only when asked for.

    Raises `UserError` for anything that is not a sound array of plain data, or that would take more than
    `memory_bytes`, before memory is taken.
    """

    def __init__(self, source: Path | IO[bytes], where: str, memory_bytes: int) -> None:
        self.where = where
        self.left = memory_bytes
        if isinstance(source, Path) and not source.is_file():
            raise UserError(f"{where}: not a regular file; give an npz file")
        try:
            self._archive = zipfile.ZipFile(source)
        except _BROKEN as error:
            raise UserError(
                f"{where}: not an npz file ({_line(error)}); write one with numpy.savez"
            ) from error
        self._members = {
            info.filename.removesuffix(_SUFFIX): info
            for info in self._archive.infolist()
            if info.filename.endswith(_SUFFIX)
        }
        self.names = tuple(self._members)

    def __enter__(self) -> NpzReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._archive.close()

    def read(self, name: str) -> NDArray[Any]:
        """The named array, read-only."""
        info = self._members[name]
        try:
            with self._archive.open(info) as file:
                return self._array(name, info, file)
        except _BROKEN as error:
            raise UserError(
                f"{self.where}: {name!r} is not a readable array ({_line(error)}); write the file again"
            ) from error

    def _array(self, name: str, info: zipfile.ZipInfo, file: IO[bytes]) -> NDArray[Any]:
        shape, fortran, dtype = _header(file)
        if dtype.hasobject:
            raise UserError(f"{self.where}: {name!r} holds Python objects; save plain arrays, strings as `U`")
        if dtype.kind not in KINDS or len(shape) > MOST_DIMS:
            raise ValueError(f"an array of type {dtype.str} and {len(shape)} dims")
        size = math.prod(shape) * dtype.itemsize
        if max(size, math.prod(shape)) > self.left:
            raise UserError(
                f"{self.where}: {name!r} takes {size} bytes, over the memory limit; give smaller inputs"
                " or raise --memory"
            )
        if size > info.file_size:
            raise ValueError("its header claims more than it holds")
        self.left -= size
        data = file.read(size)
        if len(data) < size:
            raise EOFError("it ends early")
        array = np.frombuffer(data, dtype) if size else np.zeros(math.prod(shape), dtype)
        if dtype.kind == "U" and size and not _is_text(np.frombuffer(data, dtype.str[0] + "u4")):
            raise ValueError("a text that holds no characters")
        return array.reshape(shape, order="F" if fortran else "C")


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
    else:
        raise ValueError(f"npy version {version[0]}.{version[1]}")
    if any(dim < 0 for dim in shape):
        raise ValueError("a negative dimension")
    return shape, fortran, dtype


def _is_text(points: NDArray[Any]) -> bool:
    """Whether these numbers are characters: none beyond the last, and no half of one."""
    return bool(((points < 0xD800) | ((points > 0xDFFF) & (points <= 0x10FFFF))).all())


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__
