"""Asking onnx's checker and shape inference, in a process of their own that may die of a model."""

import atexit
import os
import socket
import threading
import time
from functools import cache
from pathlib import Path

from corpus.allowance import allowance, left_of, take
from corpus.errors import UserError
from corpus.onnx.server import CHECK, DIED, INFER, NUMBER, OK, STRICT, TEXT
from corpus.processes import NotRun, Process, end_group, python, start

_SERVER = Path(__file__).with_name("server.py")
_SECONDS = 20.0
"""CPU time that one question may take where no whole check bounds it."""

SHARE = 0.25
"""Of what a whole check has left, what one question may take."""

WALL_PER_CPU = 3.0


class OnnxDied(Exception):
    """onnx crashed, hung or ran out of memory on this model: its failure, and no word about the model."""


class _Client:
    """A server and the socket to it: started when first asked, anew after each death; one question a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._server: tuple[Process, socket.socket] | None = None
        self._asked = 0

    def begin(self) -> None:
        with self._lock:
            if self._server is None:
                self._start()

    def ask(self, what: bytes, model: bytes) -> tuple[bool, bytes]:
        """Whether onnx was content, and its answer; OnnxDied when there is none."""
        with self._lock:
            connection = (self._server or self._start())[1]
            seconds = left_of(_SECONDS) * (1.0 if allowance() is None else SHARE)
            started = time.monotonic()
            try:
                connection.settimeout(WALL_PER_CPU * seconds)
                self._asked += 1
                number = self._asked.to_bytes(NUMBER, "little")
                limit = int(1000 * seconds).to_bytes(4, "little")
                connection.sendall(what + limit + number + len(model).to_bytes(8, "little") + model)
                kind, body = _answer(connection, number)
            except OSError as error:
                self.close()
                raise OnnxDied(f"onnx's own checker or inference died: {error}") from error
            except BaseException:
                self.close()  # interrupted: an answer left in the socket would be taken for the next one
                raise
            finally:
                take(min(time.monotonic() - started, seconds))
        if kind == DIED:
            raise OnnxDied("onnx's own checker or inference crashed")
        return kind == OK, body

    def close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            process, connection = server
            connection.close()
            end_group(process)  # the fork that serves as well, which may be stuck

    def _start(self) -> tuple[Process, socket.socket]:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = start([*python(), str(_SERVER)], stdin=theirs.fileno())
            except NotRun as error:
                ours.close()
                raise UserError(str(error)) from None
        self._server = process, ours
        return self._server


def _answer(connection: socket.socket, number: bytes) -> tuple[bytes, bytes]:
    """The answer to the question of that number; `ConnectionError` if it was cut off.

    A process that is killed right after its answer leaves word of its death, which is passed over.
    """
    while True:
        head = _receive(connection, 1 + NUMBER + 8)
        body = _receive(connection, int.from_bytes(head[1 + NUMBER :], "little"))
        if _receive(connection, NUMBER) != head[1 : 1 + NUMBER]:
            raise ConnectionError("its answer was cut off")
        if head[1 : 1 + NUMBER] == number:
            return head[:1], body


def _receive(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(min(size - len(parts), 1 << 20))
        if not part:
            raise ConnectionError("its process ended")
        parts += part
    return bytes(parts)


@cache
def _client(process: int) -> _Client:
    """The client of this process: a fork must not share its parent's."""
    client = _Client()
    atexit.register(client.close)
    return client


def begin() -> None:
    """Start the server of this process early, without waiting for it."""
    _client(os.getpid()).begin()


def infer_types(model: bytes, data_prop: bool = True) -> bytes | None:
    """The serialised model with inferred types; None where onnx gives up or dies."""
    try:
        content, answer = _client(os.getpid()).ask(INFER if data_prop else INFER.upper(), model)
    except OnnxDied:
        return None
    return answer if content else None


def check(model: bytes, inferred: bytes, data_prop: bool = True) -> str | None:
    """The complaint of the checker about `model` or of inference about `inferred`; None if it dies."""
    client = _client(os.getpid())
    try:
        for what, program in ((CHECK, model), (STRICT if data_prop else STRICT.upper(), inferred)):
            content, answer = client.ask(what, program)
            if not content:
                return answer.decode(errors="replace")
    except OnnxDied:
        return None
    return None


def text_of(model: bytes) -> tuple[str, bytes] | None:
    """A model in onnx's own text form, and the model that its parser makes of that; None if it has none."""
    try:
        content, answer = _client(os.getpid()).ask(TEXT, model)
    except OnnxDied:
        return None
    if not content:
        return None
    end = 8 + int.from_bytes(answer[:8], "little")
    return answer[end:].decode(errors="replace"), answer[8:end]
