"""A 64-bit ELF file as tables: where its functions lie, what exported ones are called, what file each is of.

Wheels are stripped, but a file that throws exceptions keeps the start and the length of every function in
`.eh_frame`, with a sorted index in `.eh_frame_hdr` (LSB, Exception Frames, 10.6).

A C++ library built with checks names its sources: a failing check mentions `__FILE__`, so the function that
holds the check loads its address.
"""

from __future__ import annotations

import ctypes
import mmap
import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Addresses = NDArray[np.int64]
"""Addresses as the file numbers them."""

PT_LOAD, PT_NOTE, PT_GNU_EH_FRAME = 1, 4, 0x6474E550
SHT_SYMTAB, SHT_DYNSYM = 2, 11
SHF_EXECINSTR = 4
STT_FUNC = 2
NT_GNU_BUILD_ID = 3
_POINTER_TO_DATA = (1, 0x03, 0x3B)
"""Version, count and table encodings that linkers write: unsigned count, pairs of signed 32-bit offsets."""
_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)


class NotElf(Exception):
    """The file is no 64-bit little-endian ELF file."""


@dataclass(frozen=True)
class Section:
    """A section: its kind, flags, address, and place in the file; `link` is the index of a related one."""

    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True)
class Symbol:
    """A named function of the file."""

    address: int
    size: int
    name: str


class Elf:
    """A file held open by `with`; raises `NotElf`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if self.data[:6] != b"\x7fELF\x02\x01":
            self.data.close()
            raise NotElf(str(path))
        self.sections = tuple(self._sections())
        self.segments = tuple(self._segments())

    def __enter__(self) -> Elf:
        return self

    def __exit__(self, *_: object) -> None:
        self.data.close()

    def _sections(self) -> Iterator[Section]:
        (offset,) = struct.unpack_from("<Q", self.data, 40)
        size, count = struct.unpack_from("<HH", self.data, 58)
        for index in range(count):
            _, kind, flags, address, place, length, link, *_ = struct.unpack_from(
                "<IIQQQQIIQQ", self.data, offset + index * size
            )
            yield Section(kind, flags, address, place, length, link)

    def _segments(self) -> Iterator[tuple[int, int, int, int]]:
        """Kind, position in the file, address, bytes in the file."""
        (offset,) = struct.unpack_from("<Q", self.data, 32)
        size, count = struct.unpack_from("<HH", self.data, 54)
        for index in range(count):
            kind, _, position, address, _, length = struct.unpack_from(
                "<IIQQQQ", self.data, offset + index * size
            )
            yield kind, position, address, length

    def offset_of(self, address: int) -> int | None:
        """The position in the file of an address; None where the file holds no such bytes."""
        for position, start, length in self.loaded():
            if start <= address < start + length:
                return address - start + position
        return None

    def bytes_at(self, address: int, size: int) -> bytes:
        """The bytes of an address range; empty where the file holds none."""
        offset = self.offset_of(address)
        return b"" if offset is None else self.data[offset : offset + size]

    def text_at(self, address: int, longest: int = 4096) -> bytes:
        """The zero-terminated text at an address, without the zero; at most `longest` bytes."""
        return self.bytes_at(address, longest).partition(b"\0")[0]

    def build_id(self) -> str:
        """The linker's id of this very build, in hexadecimal digits; empty where it wrote none."""
        for kind, position, _, length in self.segments:
            end = position + length
            while kind == PT_NOTE and position + 12 <= end:
                name, size, note = struct.unpack_from("<III", self.data, position)
                start = position + 12 + (name + 3 & ~3)
                if note == NT_GNU_BUILD_ID and self.data[position + 12 : position + 16] == b"GNU\0":
                    return self.data[start : start + size].hex()
                position = start + (size + 3 & ~3)
        return ""

    def code(self) -> tuple[Section, ...]:
        """The sections that hold instructions."""
        return tuple(section for section in self.sections if section.flags & SHF_EXECINSTR)

    def loaded(self) -> Iterator[tuple[int, int, int]]:
        """Position in the file, address and size of each part that is loaded."""
        for kind, position, address, size in self.segments:
            if kind == PT_LOAD:
                yield position, address, size

    def function_starts(self) -> Addresses:
        """The start addresses of functions in order; empty if the file has no such index."""
        return self._unwind_index()[0]

    def functions(self) -> tuple[Addresses, Addresses]:
        """Starts and ends of all functions, by start."""
        starts, entries = self._unwind_index()
        sizes = self._ranges(entries)
        kept = sizes > 0
        return starts[kept], (starts + sizes)[kept]

    def _unwind_index(self) -> tuple[Addresses, Addresses]:
        """Each function's start and the address of its unwind entry."""
        for kind, position, address, _ in self.segments:
            if kind == PT_GNU_EH_FRAME and self._is_plain_index(position):
                (count,) = struct.unpack_from("<I", self.data, position + 8)
                table = np.frombuffer(self.data, "<i4", 2 * count, position + 12).astype(np.int64) + address
                return table[::2].copy(), table[1::2].copy()
        return np.zeros(0, np.int64), np.zeros(0, np.int64)

    def _is_plain_index(self, position: int) -> bool:
        version, _, count, table = struct.unpack_from("<4B", self.data, position)
        return (version, count, table) == _POINTER_TO_DATA

    def _ranges(self, entries: Addresses) -> Addresses:
        """The length that each entry states, in its second 32-bit word after the two of its head."""
        if not len(entries):
            return entries
        first = self.offset_of(int(entries[0]))
        assert first is not None
        places = entries - int(entries[0]) + first + 12
        raw = np.frombuffer(self.data, np.uint8)
        words: NDArray[np.uint8] = raw[places[:, None] + np.arange(4)]
        return words.view("<u4")[:, 0].astype(np.int64)

    def symbols(self) -> Iterator[Symbol]:
        """Yield every function that the file names."""
        for section in self.sections:
            if section.kind in (SHT_DYNSYM, SHT_SYMTAB):
                strings = self.sections[section.link].offset
                table = np.frombuffer(self.data, _SYMBOL, section.size // _SYMBOL.itemsize, section.offset)
                kept = table[(table["info"] & 15 == STT_FUNC) & (table["section"] != 0)]
                for name, value, size in zip(
                    *(kept[key].tolist() for key in ("name", "value", "size")), strict=True
                ):
                    end = self.data.find(b"\0", strings + name)
                    yield Symbol(value, size, self.data[strings + name : end].decode("ascii", "replace"))


@cache
def _runtime() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL("libstdc++.so.6")
    except OSError:
        return None


@lru_cache(maxsize=4096)
def demangle(symbol: str) -> str:
    """A C++ symbol as its source has it where the C++ runtime is there, else as it is."""
    runtime = _runtime()
    if runtime is None or not symbol.startswith("_Z"):
        return symbol
    status = ctypes.c_int()
    runtime.__cxa_demangle.restype = ctypes.c_void_p
    text = runtime.__cxa_demangle(symbol.encode(), None, None, ctypes.byref(status))
    if not text:
        return symbol
    plain = ctypes.string_at(text).decode("ascii", "replace")
    ctypes.CDLL(None).free(ctypes.c_void_p(text))
    return plain


_SOURCE = re.compile(rb"[\w./+-]+\.(?:cc|cpp|cxx|c|cu|h|hpp|inc)$")
_ROOTS = re.compile(r"^.*?/(?=(?:onnxruntime|onnx|src|include|aten|c10|torch|3rdparty|_deps)/)")
"""What precedes the path within the project, of the machine that built it."""
_STANDARD = "include/c++/"
_LONGEST = 2048


def files_of(elf: Elf, starts: Addresses, ends: Addresses) -> tuple[str, ...]:
    """Each function's file: the one that it mentions most, or its neighbours'; empty where none is known."""
    files: dict[int, Counter[str]] = {}
    texts: dict[int, str] = {}
    for number, target in _references(elf, starts, ends):
        if target not in texts:
            texts[target] = _told(elf, target)
        if texts[target]:
            files.setdefault(number, Counter())[texts[target]] += 1
    return tuple(files_between(starts, {key: _most(found) for key, found in files.items()}))


def _most(found: Counter[str]) -> str:
    """The commonest; a source before a header, whose functions are inlined."""
    return max(found, key=lambda text: (not text.endswith((".h", ".hpp", ".inc")), found[text], text))


def _told(elf: Elf, address: int) -> str:
    """The file that stands at an address; empty where none does."""
    text = elf.text_at(address, _LONGEST)
    if len(text) < 4 or not text.isascii() or b"/" not in text or not _SOURCE.fullmatch(text):
        return ""
    file = text.decode()
    return "" if _STANDARD in file else _ROOTS.sub("", file)


def _references(elf: Elf, starts: Addresses, ends: Addresses) -> Iterator[tuple[int, int]]:
    """The function's number and the address, for every `lea register, [rip + address]` into constant data."""
    constants = [section for section in elf.sections if section.flags == 0x32 or section.flags == 0x2]
    for section in elf.code():
        code = np.frombuffer(elf.data, np.uint8, section.size, section.offset)
        if len(code) < 7 or not len(starts):
            continue
        is_lea = (code[1:-5] == 0x8D) & ((code[:-6] & 0xFB) == 0x48) & ((code[2:-4] & 0xC7) == 0x05)
        places = np.flatnonzero(is_lea)
        words = code[places[:, None] + np.arange(3, 7)].view("<i4")[:, 0].astype(np.int64)
        del code, is_lea
        at = places + section.address
        targets = at + 7 + words
        is_text = np.zeros(len(at), bool)
        for each in constants:
            is_text |= (targets >= each.address) & (targets < each.address + each.size)
        at, targets = at[is_text], targets[is_text]
        numbers = np.searchsorted(starts, at, side="right") - 1
        inside = (numbers >= 0) & (at < ends[numbers])
        yield from zip(numbers[inside].tolist(), targets[inside].tolist(), strict=True)


def files_between(starts: Addresses, files: Mapping[int, str]) -> list[str]:
    """Each function's file: its own, or that of its neighbours where they agree: linkers keep files whole."""
    found = [""] * len(starts)
    known = sorted(number for number in files if not files[number].endswith((".h", ".hpp", ".inc")))
    for left, right in pairwise(known):
        if files[left] == files[right]:
            found[left:right] = [files[left]] * (right - left)
    for number, file in files.items():
        found[number] = found[number] or file
    return found
