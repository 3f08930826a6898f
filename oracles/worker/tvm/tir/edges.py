"""Buffers between pages that nobody may touch: what reads or writes beyond one ends the process.

Between a buffer and its pages stand a few bytes, since it is aligned as TVM's own memory is; a write there
is seen afterwards, and a read gives numbers that no program stores.
"""

import ctypes
import mmap
from typing import Any

import numpy as np

EDGE = 0x3E
"""The byte around a buffer: as floats 0.186, as integers beyond any shape."""
PAGE, ALIGNED = mmap.PAGESIZE, 64
libc = ctypes.CDLL(None, use_errno=True)


class WrittenBeyond(Exception):
    """A function has written beside memory that it was given, or took."""


def between_edges(array: Any, edge: int = EDGE, *, at_start: bool = False) -> "tuple[tuple[Any, Any], Any]":
    """A copy of an array and the bytes before and after it; it ends at a page's end, or begins at a start."""
    room = max(1, -(-array.nbytes // PAGE)) * PAGE
    memory = mmap.mmap(-1, room + 2 * PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for page in (address, address + PAGE + room):
        if libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), 0):
            raise OSError(ctypes.get_errno(), "a page cannot be closed")
    inside = np.frombuffer(memory, np.uint8, room, PAGE)
    inside[:] = edge
    start = 0 if at_start else room - -(-array.nbytes // ALIGNED) * ALIGNED
    end = start + array.nbytes
    view = inside[start:end].view(array.dtype).reshape(array.shape)
    view[...] = array
    return (inside[:start], inside[end:]), view
