"""A backend that tries what its program says: the attacks of the sandbox's own tests."""

import ctypes
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
    action, _, argument = program.decode().partition(" ")
    enter("execute")
    try:
        return {"y": ACTIONS[action](argument)}
    except OSError as error:
        return {"y": type(error).__name__}


def read(path: str) -> str:
    with open(path) as file:
        return file.read()


def called(result: int) -> str:
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return "done"


def unix(path: str) -> str:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
    return "done"


def loopback(port: str) -> str:
    socket.create_connection(("127.0.0.1", int(port)), 2).close()
    return "done"


def netlink(argument: str) -> str:
    socket.socket(16, socket.SOCK_RAW, 0).close()
    return "done"


def send_signal(who: str) -> str:
    pid = {"parent": os.getppid(), "first": 1, "group": 0, "all": -1}[who]
    os.kill(pid, signal.SIGKILL)
    return "done"


def fork(argument: str) -> str:
    count = 0
    children = []
    try:
        while count < 5000:
            pid = os.fork()
            if not pid:
                time.sleep(3)
                os._exit(0)
            children.append(pid)
            count += 1
    except OSError as error:
        return f"{count} {type(error).__name__}"
    return f"{count} none"


def daemon(argument: str) -> str:
    if not os.fork():
        os.setsid()
        if not os.fork():
            time.sleep(100)
        os._exit(0)
    return "done"


def memory(kind: str) -> int:
    held = []
    while True:
        if kind == "private":
            held.append(bytearray(16 << 20))
        else:
            block = mmap.mmap(-1, 16 << 20)
            block[:] = b"x" * len(block)
            held.append(block)


def disk(argument: str) -> str:
    size = 0
    try:
        for number in range(1000):
            with open(f"filling-{number}", "wb", buffering=0) as file:
                for _ in range(16):
                    size += file.write(b"x" * (1 << 20))
    except OSError as error:
        return f"{size} {type(error).__name__}"
    return f"{size} none"


def descriptors(argument: str) -> str:
    held = []
    try:
        while len(held) < 100_000:
            held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError as error:
        count = len(held)
        for descriptor in held:
            os.close(descriptor)
        return f"{count} {type(error).__name__}"
    return f"{len(held)} none"


def output(argument: str) -> int:
    size = 0
    try:
        while size < 4 << 30:
            size += os.write(2, b"x" * (4 << 20))
    except OSError:
        pass
    return size


def forge(argument: str) -> None:
    """A well-formed reply to the request that is under way, as whoever knows the protocol but no ticket
    makes it.
    """
    facts = {"test": 1, "config": 0, "ticket": "0", "total": 0, "outputs": [], "status": "ok"}
    header = json.dumps({**facts, "phase": "execute", "cpu": 0, "execute": 0}).encode()
    for descriptor in sockets():
        descriptor.sendall(struct.pack("<4sIQ", b"CRX1", len(header), 0) + header)


def swell(argument: str) -> None:
    """A reply with the right ticket, found in this process's own memory, whose value is as large as it
    says.
    """
    import gc

    requests = [each for each in gc.get_objects() if isinstance(each, dict) and "ticket" in each]
    facts = {key: requests[0][key] for key in ("test", "ticket")}
    specs = [["str", [10**12], 2], ["str", [10**9], 4], ["int8", [10**15], 0], ["float32", [-1], 0]]
    for spec in specs[int(argument) : int(argument) + 1]:
        facts |= {"config": 0, "total": 0, "outputs": [["y", spec]], "status": "ok"}
        header = json.dumps({**facts, "phase": "execute", "cpu": 0, "execute": 0}).encode()
        body = b'["a"]' + bytes(11)
        for descriptor in sockets():
            descriptor.sendall(struct.pack("<4sIQ", b"CRX1", len(header), len(body)) + header + body)


def sockets() -> Any:
    for number in range(3, 100):
        try:
            yield socket.socket(fileno=os.dup(number))
        except OSError:
            continue


def memory_of_parent(argument: str) -> str:
    with open(f"/proc/{os.getppid()}/mem", "rb+") as file:
        file.read(1)
    return "done"


def limits_of_parent(argument: str) -> str:
    import resource

    resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (0, 0))
    return "done"


def compute(argument: str) -> None:
    while True:
        pass


def stubborn(argument: str) -> None:
    """Computes for ever, rid of the timer that would end it."""
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, signal.SIG_IGN)
    compute(argument)


ACTIONS = {
    "compute": compute,
    "stubborn": stubborn,
    "nothing": lambda argument: "done",
    "read": read,
    "list": lambda path: " ".join(sorted(os.listdir(path))),
    "cwd": lambda argument: os.getcwd(),
    "unix": unix,
    "loopback": loopback,
    "netlink": netlink,
    "signal": send_signal,
    "fork": fork,
    "daemon": daemon,
    "die": lambda argument: os.abort(),
    "processes": lambda argument: " ".join(name for name in os.listdir("/proc") if name.isdigit()),
    "memory": memory,
    "disk": disk,
    "descriptors": descriptors,
    "output": output,
    "forge": forge,
    "swell": swell,
    "environment": lambda argument: " ".join(os.environ),
    "kmsg": lambda argument: os.open("/dev/kmsg", os.O_WRONLY),
    "unshare": lambda argument: called(libc.unshare(0x10000000)),
    "userns-by-clone": lambda argument: called(libc.syscall(56, 0x10000011, 0, 0, 0, 0)),
    "mount": lambda argument: called(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None)),
    "ptrace": lambda argument: called(libc.ptrace(16, os.getppid(), 0, 0)),
    "memory-of-parent": memory_of_parent,
    "descriptors-of-parent": lambda argument: os.open(f"/proc/{os.getppid()}/fd/0", os.O_RDONLY),
    "limits-of-parent": limits_of_parent,
    "chroot": lambda argument: called(libc.chroot(b"/tmp")),
    "sethostname": lambda argument: called(libc.sethostname(b"x", 1)),
    "bpf": lambda argument: called(libc.syscall(321, 0, 0, 0)),
    "keyctl": lambda argument: called(libc.syscall(250, 0, 0, 0)),
}
