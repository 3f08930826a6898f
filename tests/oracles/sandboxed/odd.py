"""A backend that does what its program says: the sandbox's own tests need a framework that misbehaves."""

import ctypes
import os
import resource
import signal
import socket
import struct
import sys
import time
from typing import Any


def load() -> str:
    return "1"


def pid() -> int:
    return os.getpid()


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def core_limit() -> int:
    return resource.getrlimit(resource.RLIMIT_CORE)[1]


def environment() -> dict[str, str]:
    return dict(os.environ)


def run(program: Any, inputs: Any, settings: Any, outputs: Any, enter: Any) -> Any:
    action, _, argument = program.decode().partition(" ")
    enter(settings.get("phase", "execute"))
    return {"y": ACTIONS[action](argument, inputs)}


def reply(argument: str, inputs: Any) -> None:
    """Send a well-framed message of another content."""
    for descriptor in range(3, 100):
        try:
            channel = socket.socket(fileno=os.dup(descriptor))
        except OSError:
            continue
        channel.sendall(struct.pack("<4sIQ", b"CRX1", len(argument), 0) + argument.encode())


def allocate(argument: str, inputs: Any) -> int:
    return len(bytearray(int(argument)))


def talk(argument: str, inputs: Any) -> None:
    print(argument, file=sys.stderr, flush=True)
    ctypes.string_at(0)


def throw(argument: str, inputs: Any) -> None:
    raise LookupError(argument)


def scribble(argument: str, inputs: Any) -> Any:
    found = inputs["x"].copy()
    inputs["x"][:] = 0
    return found


class Starving:
    """What runs out of memory only when it is sent."""

    def __array__(self, *arguments: Any, **options: Any) -> Any:
        raise MemoryError


def spin(argument: str, inputs: Any) -> None:
    end = time.process_time() + float(argument)
    while time.process_time() < end:
        pass


def libc(argument: str, inputs: Any) -> None:
    """Call a function of the C library with a number."""
    name, number = argument.split()
    getattr(ctypes.CDLL(None), name)(ctypes.c_long(int(number)))


def overflow(argument: str, inputs: Any) -> None:
    """Take all of the stack by native calls."""
    sys.setrecursionlimit(10**8)
    again = ctypes.CFUNCTYPE(None)(lambda: again())
    again()


ACTIONS = {
    "libc": libc,
    "overflow": overflow,
    "spin": spin,
    "unsendable": lambda argument, inputs: (1, 2, 3),
    "starving": lambda argument, inputs: Starving(),
    "echo": lambda argument, inputs: inputs.get("x"),
    "reply": reply,
    "allocate": allocate,
    "talk": talk,
    "throw": throw,
    "scribble": scribble,
    "sleep": lambda argument, inputs: time.sleep(float(argument)),
    "exit": lambda argument, inputs: sys.exit(int(argument)),
    "kill": lambda argument, inputs: os.kill(os.getpid(), signal.SIGKILL),
}
