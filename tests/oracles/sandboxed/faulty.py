"""ONNX Runtime with a fault: the setting `fault` overwrites the C library's `sinhf`, which Sinh calls.

A backend like any other, given to the sandbox by its path. The code is for x86-64.
"""

import ctypes
import importlib.util
import mmap
import os
import struct
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
REAL = os.path.join(HERE, "..", "..", "..", "oracles", "backends", "ort.py")
spec = importlib.util.spec_from_file_location("real_onnxruntime", REAL)
real = importlib.util.module_from_spec(spec)
spec.loader.exec_module(real)

libc = ctypes.CDLL(None)
libm = ctypes.CDLL("libm.so.6")
counter = mmap.mmap(-1, mmap.PAGESIZE)
COUNTER = ctypes.addressof(ctypes.c_char.from_buffer(counter))


def address(library: Any, name: str) -> int:
    found = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    assert found
    return found


def call(library: Any, name: str) -> bytes:
    """mov rax, function; call rax"""
    return b"\x48\xb8" + struct.pack("<Q", address(library, name)) + b"\xff\xd0"


def again(code: bytes) -> bytes:
    """The code in an endless loop (a short jump back)."""
    return code + b"\xeb" + struct.pack("b", -len(code) - 2)


COUNT = b"\x48\xb8" + struct.pack("<Q", COUNTER) + b"\xf0\x48\xff\x00"  # mov rax, counter; lock inc [rax]
ALIGN = b"\x48\x83\xec\x08"  # sub rsp, 8
FAULTS = {
    "sigsegv": lambda: b"\xc7\x04\x25\x00\x00\x00\x00\x00\x00\x00\x00",  # mov dword [0], 0
    "sigfpe": lambda: b"\x31\xd2\x31\xc9\xb8\x01\x00\x00\x00\xf7\xf9",  # 1 idiv 0
    "sigill": lambda: b"\x0f\x0b",
    "abort": lambda: ALIGN + call(libc, "abort"),
    "exit": lambda: ALIGN + b"\xbf\x03\x00\x00\x00" + call(libc, "exit"),  # edi = 3
    "_exit": lambda: ALIGN + b"\xbf\x00\x00\x00\x00" + call(libc, "_exit"),
    "loop": lambda: b"\xeb\xfe",
    "sleep": lambda: ALIGN + again(call(libc, "pause")),
    "overflow": lambda: again(b"\x50")[:-2] + b"\xe8" + struct.pack("<i", -6),  # push rax; call the push
    "bad_alloc": lambda: (
        ALIGN + again(b"\xbf\x00\x00\x00\x01" + call(ctypes.CDLL("libstdc++.so.6"), "_Znwm"))
    ),
}


def poke(fault: str) -> None:
    """Write the fault's code over the function's first bytes; `bare` without a count of the calls before it.

    A bare fault strikes at the first byte, where the unwinder's table for the function still holds.
    """
    bare, _, name = fault.rpartition(" ")
    code = (b"" if bare else COUNT) + FAULTS[name]()
    place = address(libm, "sinhf")
    page = place & -mmap.PAGESIZE
    if libc.mprotect(ctypes.c_void_p(page), place + len(code) - page, 7):
        raise OSError("the function's memory cannot be made writable")
    ctypes.memmove(place, code, len(code))


def load() -> str:
    return real.load()


def reached() -> int:
    """How often a poked function has been entered, in any worker."""
    return struct.unpack_from("<Q", counter)[0]


def run(program: Any, inputs: Any, settings: Any, outputs: Any, enter: Any) -> Any:
    if settings.get("fault"):
        poke(settings["fault"])
    return real.run(program, inputs, settings, outputs, enter)
