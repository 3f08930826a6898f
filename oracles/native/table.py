"""The blocks of one library with their functions, kept in the cache by the library's build id.

Decoding takes seconds to half a minute, once for every build.

A start is always the first byte of an instruction that the decoder reached from the function's own start, so
a breakpoint there is met whole or not at all. What a table of jumps leads to is found as what follows a jump
that does not fall through.
"""

import hashlib
import json
import os
import re
import struct
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from corpus.errors import UserError
from oracles.extras import how_to_install, provide
from oracles.native.elf import Addresses, Elf, NotElf, files_of

BREAKPOINT = 0xCC


def block_starts(elf: Elf, starts: Addresses, ends: Addresses) -> Addresses:
    """The starts of all blocks of these functions, in order; every function's own start is one.

    Raises `UserError` where the decoder is not installed.
    """
    provide("iced-x86")
    if find_spec("iced_x86") is None:
        raise UserError(f"--native-coverage: iced-x86 is not installed; {how_to_install('iced-x86')}")
    decoder = import_module("iced_x86")
    found: list[int] = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        code = elf.bytes_at(start, end - start)
        if code and code[0] != BREAKPOINT:
            found += _starts_of(decoder, code, start)
    return np.unique(np.array(found, dtype=np.int64))


def _starts_of(iced: Any, code: bytes, start: int) -> set[int]:
    """The blocks of one function: its start, where its jumps lead to, and what follows a jump."""
    flow, names = iced.FlowControl, iced.Mnemonic
    falls_through = (flow.NEXT, flow.CALL, flow.INDIRECT_CALL)
    jumps = (flow.CONDITIONAL_BRANCH, flow.UNCONDITIONAL_BRANCH)
    filler = (names.NOP, names.INT3, names.UD2)
    instruction, decoder = iced.Instruction(), iced.Decoder(64, code, ip=start)
    known: set[int] = set()
    found, targets, is_after_jump = {start}, set(), False
    while decoder.can_decode:
        known.add(decoder.ip)
        decoder.decode_out(instruction)
        kind = instruction.flow_control
        if is_after_jump and instruction.mnemonic not in filler:
            found.add(instruction.ip)
            is_after_jump = False
        if kind not in falls_through:
            if instruction.is_invalid:
                return {start}  # data among the code: nothing else here is trusted
            if kind in jumps:
                targets.add(instruction.near_branch_target)
            is_after_jump = kind != flow.EXCEPTION or is_after_jump
    return found | (targets & known)


VERSION = 2
"""Of what is kept: a change of what is decoded or named makes new tables."""
_HEAD = struct.Struct("<8sQQ40s")
_MAGIC = b"CRXPROB1"


@dataclass(frozen=True)
class Library:
    """A library to put breakpoints in; of a large one only the namespace `scope` (empty: all of it)."""

    path: Path
    scope: str = ""


@dataclass(frozen=True)
class Table:
    """The breakpoints of one library.

    `blocks` are addresses in order, `function_of` the number of each block's function, `files` that of each
    function, `originals` the first byte of each block.
    """

    library: str
    build_id: str
    blocks: Addresses
    function_of: NDArray[np.int32]
    is_function: NDArray[np.uint8]
    originals: NDArray[np.uint8]
    files: tuple[str, ...]

    def packed(self) -> bytes:
        """Pack the table in the form that `breakpoints.c` reads."""
        identity = bytes.fromhex(self.build_id)
        head = _HEAD.pack(_MAGIC, len(self.blocks), len(identity), identity)
        parts = (self.blocks.astype("<u4"), self.originals, self.is_function)
        return head + b"".join(part.tobytes() for part in parts)


def load_table(library: Library, cache: Path) -> Table:
    """The breakpoints of a library, from the cache where it was decoded before; raises `UserError`."""
    try:
        with Elf(library.path) as elf:
            place = cache / f"{_key(elf, library)}.npz"
            return _read(place) or _keep(place, _make(elf, library))
    except (OSError, NotElf) as error:
        raise UserError(f"{library.path}: cannot be read as a library of x86-64: {error}") from error


def _key(elf: Elf, library: Library) -> str:
    """The build id names the code; a file without one cannot be told from another while it is loaded."""
    build = elf.build_id()
    if not build:
        raise UserError(f"{library.path}: has no build id, so its code cannot be found in a process")
    return f"breakpoints-{build[:20]}-{hashlib.sha256(f'{VERSION}{library.scope}'.encode()).hexdigest()[:8]}"


def _make(elf: Elf, library: Library) -> Table:
    starts, ends = elf.functions()
    kept = in_scope(elf, starts, library.scope)
    starts, ends = starts[kept], ends[kept]
    blocks = block_starts(elf, starts, ends)
    originals = _first_bytes(elf, blocks)
    plain = originals != BREAKPOINT
    blocks, originals = blocks[plain], originals[plain]
    return Table(
        library.path.name,
        elf.build_id(),
        blocks,
        (np.searchsorted(starts, blocks, side="right") - 1).astype(np.int32),
        np.isin(blocks, starts).astype(np.uint8),
        originals,
        files_of(elf, starts, ends),
    )


def in_scope(elf: Elf, starts: Addresses, scope: str) -> NDArray[np.bool_]:
    """Mark the functions of a namespace: those between two of its exported functions.

    A static library that is linked in lies in one piece and exports nothing. What the standard library
    exports comes from templates and lies anywhere.
    """
    if not scope:
        return np.ones(len(starts), bool)
    mark = re.compile("NK?" + "".join(f"{len(part)}{part}" for part in scope.split("::")))
    named = sorted(
        (symbol.address, bool(mark.search(symbol.name)))
        for symbol in elf.symbols()
        if not symbol.name.startswith("_ZNSt")
    )
    addresses = np.array([address for address, _ in named], np.int64)
    is_own = np.array([False, *(own for _, own in named), False])
    before = np.searchsorted(addresses, starts, side="right")
    at = np.isin(starts, addresses)
    own: NDArray[np.bool_] = is_own[before] & (at | is_own[np.minimum(before + 1, len(is_own) - 1)])
    return own


def _first_bytes(elf: Elf, blocks: Addresses) -> NDArray[np.uint8]:
    """The byte of each block in the file; code lies in one loaded segment."""
    if not len(blocks):
        return np.zeros(0, np.uint8)
    raw = np.frombuffer(elf.data, np.uint8)
    found = np.zeros(len(blocks), np.uint8)
    for position, address, length in elf.loaded():
        inside = (blocks >= address) & (blocks < address + length)
        found[inside] = raw[blocks[inside] - address + position]
    return found


def _keep(place: Path, table: Table) -> Table:
    """Write to a name of our own and rename, so that two at once do no harm."""
    place.parent.mkdir(parents=True, exist_ok=True)
    head = {"library": table.library, "build_id": table.build_id}
    text = json.dumps([head, table.files]).encode()
    arrays: dict[str, Any] = {name: getattr(table, name) for name in _ARRAYS}
    descriptor, name = tempfile.mkstemp(dir=place.parent)
    with os.fdopen(descriptor, "wb") as file:
        np.savez_compressed(file, text=np.frombuffer(text, np.uint8), **arrays)
    os.replace(name, place)
    return table


_ARRAYS: Sequence[str] = ("blocks", "function_of", "is_function", "originals")


def _read(place: Path) -> Table | None:
    """Read the kept table; None if there is none, or if it cannot be read."""
    try:
        with np.load(place, allow_pickle=False) as kept:
            head, files = json.loads(kept["text"].tobytes())
            arrays = {name: kept[name] for name in _ARRAYS}
            return Table(**head, **arrays, files=tuple(files))
    except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile):
        return None
