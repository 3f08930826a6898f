"""C++ symbols as their source has them."""

from __future__ import annotations

import ctypes
from functools import cache, lru_cache


@cache
def _runtime() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL("libstdc++.so.6")
    except OSError:
        return None


@lru_cache(maxsize=4096)
def demangle(symbol: str) -> str:
    """Return a C++ symbol as its source has it where the C++ runtime is there, else as it is."""
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
