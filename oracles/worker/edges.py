"""Buffers between pages that nobody may touch: what reads or writes beyond one ends the process.

Between a buffer and its pages may stand a few bytes, where it is aligned as TVM's own memory is; a write
there is seen afterwards, and a read gives numbers that no program stores.
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
    return placed(room(array.nbytes), array, edge, at_start=at_start)


def room(size: int) -> Any:
    """The bytes of as many pages as `size` takes, between two closed ones."""
    inside = max(1, -(-size // PAGE)) * PAGE
    memory = mmap.mmap(-1, inside + 2 * PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for page in (address, address + PAGE + inside):
        if libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), 0):
            raise OSError(ctypes.get_errno(), "a page cannot be closed")
    return np.frombuffer(memory, np.uint8, inside, PAGE)


def placed(
    inside: Any, array: Any, edge: int, *, at_start: bool, aligned: int = ALIGNED
) -> "tuple[tuple[Any, Any], Any]":
    """A copy of an array at one end of a room, and the bytes before and after it.

    At the far end it begins at a multiple of `aligned`, so that fewer bytes than that follow.
    """
    inside[:] = edge
    start = 0 if at_start else len(inside) - -(-array.nbytes // aligned) * aligned
    end = start + array.nbytes
    view = inside[start:end].view(array.dtype).reshape(array.shape)
    view[...] = array
    return (inside[:start], inside[end:]), view
