"""The process in which onnx's checker and shape inference run, since they die on some models.

Started as a script with a socket as its standard input. A request is a byte for what to do, four for the CPU
time that it may take in ms, eight for its number, eight for the length, and the model; an answer a byte for
success, eight for the number, eight for the length, the model or what was thrown, and the number again, since
an answer may be cut off by a kill. It ends with its input. A capital letter asks for inference without
data propagation. The requests are served by a fork of the process that has imported onnx: when onnx dies or
takes too long, `DIED` is the answer and the next fork serves, some milliseconds later. Of onnx only the
compiled part is imported, where it can be had alone: its Python part, which brings numpy and protobuf, takes
ten times as long to start and is of no use here.
"""

from __future__ import annotations

import ctypes
import errno
import importlib
import importlib.machinery
import mmap
import os
import resource
import signal
import socket
import struct
import sys
import types
from typing import Any

INFER, CHECK, STRICT, TEXT = b"i", b"c", b"s", b"t"
OK, FAILED, DIED = b"+", b"-", b"!"
NUMBER = 8
NOBODY = bytes(NUMBER)
_MEMORY = 1 << 30


def main() -> None:
    """Serve until the other end closes."""
    onnx = compiled_onnx()  # before the fork, so that no child waits for it
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    most = _MEMORY if hard == resource.RLIM_INFINITY else min(hard, _MEMORY)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    asked = mmap.mmap(-1, NUMBER)  # the number of the question under way; none: nobody waits for an answer
    with socket.socket(fileno=0) as connection:
        while True:
            child = os.fork()
            if not child:
                shut_in()
                serve(connection, onnx, asked)
                os._exit(0)
            if os.waitpid(child, 0)[1] == 0:
                return
            if asked[:] != NOBODY:
                connection.sendall(framed(DIED, asked[:], b""))
                asked[:] = NOBODY


LEFT = {
    "x86_64": (
        *(0xC000003E, 0, 1, 3, 5, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 28, 38, 39, 44, 45, 60, 186, 202),
        *(228, 231, 318),
    ),
    "aarch64": (
        *(0xC00000B7, 63, 64, 57, 80, 62, 222, 226, 215, 214, 134, 135, 139, 124, 216, 233, 103, 172, 206),
        *(207, 93, 178, 98, 113, 94, 278),
    ),
}
"""The machine's own number, and those of read, write, close, fstat, lseek, mmap, mprotect, munmap, brk,
rt_sigaction, rt_sigprocmask, rt_sigreturn, sched_yield, mremap, madvise, setitimer, getpid, sendto, recvfrom,
exit, gettid, futex, clock_gettime, exit_group and getrandom."""


def shut_in() -> None:
    """Leave this process the calls that computing and answering take; to all others nothing is there.

    A hostile model that takes over onnx's parser can open, connect, start and signal nothing. Where the
    kernel has no such filters, the limits hold alone.
    """
    own, *numbers = LEFT[os.uname().machine]
    load, equal, give, nothing, whatever = 0x20, 0x15, 0x06, 0x00050000 | errno.ENOENT, 0x7FFF0000
    lines = [(load, 0, 0, 4), (equal, 1, 0, own), (give, 0, 0, nothing), (load, 0, 0, 0)]
    lines += [(equal, len(numbers) - at, 0, number) for at, number in enumerate(numbers)]
    lines += [(give, 0, 0, nothing), (give, 0, 0, whatever)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in lines))
    libc = ctypes.CDLL(None)
    libc.prctl(38, 1, 0, 0, 0)  # no new privileges
    libc.prctl(22, 2, struct.pack("@HP", len(lines), ctypes.addressof(code)), 0, 0)


def framed(kind: bytes, number: bytes, body: bytes) -> bytes:
    """An answer to the question of that number."""
    return kind + number + len(body).to_bytes(8, "little") + body + number


def compiled_onnx() -> Any:
    """onnx's compiled part, by itself where that works."""
    name = "onnx.onnx_cpp2py_export"
    spec = importlib.machinery.PathFinder.find_spec("onnx")
    package = types.ModuleType("onnx")
    package.__path__ = list(spec.submodule_search_locations or ()) if spec else []
    sys.modules["onnx"] = package
    try:
        return importlib.import_module(name)
    except ImportError:  # a release whose compiled part needs the rest
        del sys.modules["onnx"]
        importlib.import_module("onnx")
        return importlib.import_module(name)


def serve(connection: socket.socket, onnx: Any, asked: mmap.mmap) -> None:
    """Answer until the other end closes, or until onnx dies."""
    with connection.makefile("rwb") as stream:
        while what := stream.read(1):
            seconds = int.from_bytes(stream.read(4), "little") / 1000
            number = stream.read(NUMBER)
            asked[:] = number
            program = stream.read(int.from_bytes(stream.read(8), "little"))
            signal.setitimer(signal.ITIMER_PROF, seconds)  # its signal ends the process, also within onnx
            kind, body = answer(onnx, what, program)
            signal.setitimer(signal.ITIMER_PROF, 0)
            stream.write(framed(kind, number, body))
            stream.flush()
            asked[:] = NOBODY


def answer(onnx: Any, what: bytes, model: bytes) -> tuple[bytes, bytes]:
    """The inferred model, a text, or nothing when the checker or strict inference accepts it."""
    try:
        try:
            return OK, perform(onnx, what.lower(), model, data_prop=what.islower())
        except MemoryError:  # propagating data takes 40 bytes for each element of a vector, weights included
            return OK, perform(onnx, what.lower(), model, data_prop=False)
    except Exception as error:  # whatever onnx throws is the answer; nothing of ours runs in here
        return FAILED, (str(error) or type(error).__name__).encode(errors="replace")


def perform(onnx: Any, what: bytes, model: bytes, data_prop: bool) -> bytes:
    """Run onnx's shape inference, its checker or its printer on a model's bytes.

    The printer's answer is the model that its parser makes of the text, and the text behind a length.
    """
    if what == CHECK:
        full_check = skip_opset_compatibility_check = check_custom_domain = False
        onnx.checker.check_model(model, full_check, skip_opset_compatibility_check, check_custom_domain)
        return b""
    if what == TEXT:
        text: str = onnx.printer.model_to_text(model)
        is_read, complaint, again = onnx.parser.parse_model(text)
        if not is_read:
            raise ValueError(complaint)
        return len(again).to_bytes(8, "little") + bytes(again) + text.encode()
    is_strict = what == STRICT
    inferred: bytes = onnx.shape_inference.infer_shapes(model, is_strict, is_strict, data_prop)
    return b"" if is_strict else inferred


if __name__ == "__main__":
    main()
