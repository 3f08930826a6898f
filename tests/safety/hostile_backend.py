"""A backend that does what its program says in Python: the attacks of the sandbox's own tests."""

import ctypes
import gc
import json
import mmap
import os
import signal
import socket
import struct
import time
from typing import Any

libc = ctypes.CDLL(None, use_errno=True)


def load() -> str:
    return "1"


def run(program: Any, inputs: Any, settings: Any, outputs: Any, enter: Any) -> Any:
    enter("execute")
    try:
        return {"y": eval(program.decode(), globals())}
    except OSError as error:
        return {"y": type(error).__name__}


def called(result: int) -> str:
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return "done"


def until_refused(act: Any, most: int) -> str:
    """How often something can be done, and what ends it."""
    held = []
    try:
        while len(held) < most:
            held.append(act())
    except OSError as error:
        count = len(held)
        del held[:]
        return f"{count} {type(error).__name__}"
    return f"{most} none"


def fork() -> None:
    if not os.fork():
        time.sleep(3)
        os._exit(0)


def daemon() -> None:
    if not os.fork():
        os.setsid()
        if not os.fork():
            time.sleep(100)
        os._exit(0)


def shared() -> Any:
    block = mmap.mmap(-1, 16 << 20)
    block[:] = b"x" * len(block)
    return block


def send(facts: dict[str, Any], body: bytes = b"") -> None:
    """A well-formed reply on whatever socket there is."""
    facts = {**facts, "config": 0, "status": "ok", "phase": "execute", "cpu": 0, "execute": 0, "total": 0}
    header = json.dumps(facts).encode()
    for number in range(3, 100):
        try:
            descriptor = socket.socket(fileno=os.dup(number))
        except OSError:
            continue
        descriptor.sendall(struct.pack("<4sIQ", b"CRX1", len(header), len(body)) + header + body)


def forge() -> None:
    """A reply to the request that is under way, by whoever knows the protocol but no ticket."""
    send({"test": 1, "ticket": "0", "outputs": []})


def swell(*spec: Any) -> None:
    """A reply with the right ticket, found in this process's own memory; its value is as large as it says."""
    request = next(each for each in gc.get_objects() if isinstance(each, dict) and "ticket" in each)
    facts = {key: request[key] for key in ("test", "ticket")}
    send({**facts, "outputs": [["y", spec]]}, b'["a"]' + bytes(11))


def compute() -> None:
    while True:
        pass


def stubborn() -> None:
    """Compute for ever, rid of the timer that would end it."""
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, signal.SIG_IGN)
    compute()
