"""A 64-bit ELF file as tables: where its functions lie, what they are called, what its data points to.

Wheels are stripped, but a file that throws exceptions keeps the start and the length of every function in
`.eh_frame`, with a sorted index in `.eh_frame_hdr` (LSB, Exception Frames, 10.6).
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Addresses = NDArray[np.int64]
"""Addresses as the file numbers them."""

PT_LOAD, PT_NOTE, PT_GNU_EH_FRAME = 1, 4, 0x6474E550
SHT_SYMTAB, SHT_RELA, SHT_DYNSYM = 2, 4, 11
SHF_EXECINSTR = 4
STT_OBJECT, STT_FUNC = 1, 2
NT_GNU_BUILD_ID = 3
R_X86_64_64, R_X86_64_RELATIVE = 1, 8
_POINTER_TO_DATA = (1, 0x03, 0x3B)
"""Version, count and table encodings that linkers write: unsigned count, pairs of signed 32-bit offsets."""
_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
_RELOCATION = np.dtype([("address", "<i8"), ("kind", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])


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

    def pointers(self) -> tuple[Addresses, Addresses]:
        """Places in the data that are relocated to addresses of this file, in order, and those addresses."""
        found = [self._pointers_of(section) for section in self.sections if section.kind == SHT_RELA]
        if not found:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        places = np.concatenate([places for places, _ in found])
        values = np.concatenate([values for _, values in found])
        order = np.argsort(places, kind="stable")
        return places[order], values[order]

    def _pointers_of(self, section: Section) -> tuple[Addresses, Addresses]:
        table = np.frombuffer(self.data, _RELOCATION, section.size // _RELOCATION.itemsize, section.offset)
        relative = table[table["kind"] == R_X86_64_RELATIVE]
        named = table[table["kind"] == R_X86_64_64]
        values = (
            self._symbol_values(section)[named["symbol"]] + named["addend"] if len(named) else named["addend"]
        )
        places = np.concatenate([relative["address"], named["address"]])
        return places, np.concatenate([relative["addend"], values])

    def _symbol_values(self, section: Section) -> Addresses:
        symbols = self.sections[section.link]
        table = np.frombuffer(self.data, _SYMBOL, symbols.size // _SYMBOL.itemsize, symbols.offset)
        values: Addresses = table["value"].astype(np.int64)
        return values
