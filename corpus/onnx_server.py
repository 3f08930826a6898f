"""The process in which onnx's checker and shape inference run, since they die on some models.

Started as a script with a socket as its standard input. A request is a byte for what to do, eight for the
length, and the model; an answer a byte for success, eight for the length, and the model or what was thrown.
It ends with its input. A capital letter asks for inference without data propagation. The requests are
served by a fork of the process that has imported onnx: when onnx dies or takes too long, `DIED` is the
answer and the next fork serves, some milliseconds later.
"""

from __future__ import annotations

import importlib
import os
import resource
import signal
import socket

INFER, CHECK, STRICT = b"i", b"c", b"s"
OK, FAILED, DIED = b"+", b"-", b"!"
_MEMORY = 1 << 30
CPU_SECONDS = 20.0
"""For one question, so that nothing is left running when who asked is gone."""


def main() -> None:
    """Serve until the other end closes."""
    for part in ("onnx.checker", "onnx.shape_inference"):
        importlib.import_module(part)  # before the fork, so that no child waits for it
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    with socket.socket(fileno=0) as connection:
        while True:
            child = os.fork()
            if not child:
                serve(connection)
                os._exit(0)
            if os.waitpid(child, 0)[1] == 0:
                return
            connection.sendall(DIED + bytes(8))


def serve(connection: socket.socket) -> None:
    """Answer until the other end closes, or until onnx dies."""
    with connection.makefile("rwb") as stream:
        while what := stream.read(1):
            program = stream.read(int.from_bytes(stream.read(8), "little"))
            signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)  # its signal ends the process, also within onnx
            kind, body = answer(what, program)
            signal.setitimer(signal.ITIMER_PROF, 0)
            stream.write(kind + len(body).to_bytes(8, "little") + body)
            stream.flush()


def answer(what: bytes, model: bytes) -> tuple[bytes, bytes]:
    """The inferred model, or nothing when the checker or strict inference accepts it."""
    try:
        try:
            return OK, perform(what.lower(), model, data_prop=what.islower())
        except MemoryError:  # propagating data takes 40 bytes for each element of a vector, weights included
            return OK, perform(what.lower(), model, data_prop=False)
    except Exception as error:  # whatever onnx throws is the answer; nothing of ours runs in here
        return FAILED, (str(error) or type(error).__name__).encode(errors="replace")


def perform(what: bytes, model: bytes, data_prop: bool) -> bytes:
    from onnx import checker, shape_inference

    if what == INFER:
        inferred: bytes = shape_inference.infer_shapes(model, data_prop=data_prop).SerializeToString()
        return inferred
    if what == STRICT:
        shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=data_prop)
    else:
        checker.check_model(model)
    return b""


if __name__ == "__main__":
    main()
