"""The kernel's own calls for namespaces, mounts and privileges, by ctypes: what Python's `os` lacks."""

from __future__ import annotations

import ctypes
import os
import struct
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` itself would take as long to import as all that is needed here
    from typing import Any

LAYERS = ("user", "pid", "ipc", "network", "mount", "uts", "root", "privileges", "system calls", "processes")
"""What keeps a program in, in the order in which it is told."""

NEW_MOUNT, NEW_UTS, NEW_IPC, NEW_USER, NEW_PID, NEW_NET = (
    *(0x00020000, 0x04000000, 0x08000000),
    *(0x10000000, 0x20000000, 0x40000000),
)
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_RDONLY, MS_REMOUNT = 2, 4, 8, 1, 32
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV = 1, 2, 4
DETACH = 2
PDEATHSIG, DUMPABLE, KEEPCAPS, CAPBSET_DROP, NO_NEW_PRIVS, AMBIENT = 1, 4, 8, 24, 38, 47
READ_ANY_FILE = 2
"""CAP_DAC_READ_SEARCH, which a user without any other right needs to read files as root reads them."""
SIGCHLD = 17
ADDR_NO_RANDOMIZE, ASK = 0x0040000, 0xFFFFFFFF
CALLS = {
    "x86_64": {"clone": 56, "pivot_root": 155, "mount_setattr": 442},
    "aarch64": {"clone": 220, "pivot_root": 41, "mount_setattr": 442},
}

libc: Any = ctypes.CDLL(None, use_errno=True)


def report_of(facts: dict[str, str]) -> bytes:
    """A line a layer: its name, and why it is not in force."""
    return "".join(f"{name}\t{complaint}\n" for name, complaint in facts.items()).encode()


def call(name: str, *arguments: Any) -> int:
    """Call a function of libc; raises `OSError` where it fails."""
    result = int(getattr(libc, name)(*arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def direct(name: str, *arguments: Any) -> int:
    """Call the kernel by the call's number; raises `OSError` where it fails."""
    result = int(libc.syscall(CALLS[os.uname().machine][name], *arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def fork_into(flags: int) -> int:
    """Fork a child that lives in new namespaces; as `os.fork` otherwise, for a process of one thread."""
    return direct("clone", *map(ctypes.c_ulong, (flags | SIGCHLD, 0, 0, 0, 0)))


def fix_addresses() -> None:
    """Programs that are started from here on lie at addresses that are not random, where that is allowed."""
    with suppress(OSError):
        call("personality", ctypes.c_ulong(call("personality", ctypes.c_ulong(ASK)) | ADDR_NO_RANDOMIZE))


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    """Mount; raises `OSError`."""
    call(
        "mount",
        source.encode(),
        target.encode(),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        options.encode() or None,
    )


def bind(source: str, target: str, *, everything_below: bool = True, read_only: bool = True) -> None:
    """Let a file or folder be seen at another place, without devices and without set-user-ID there."""
    below = MS_REC if everything_below else 0
    mount(source, target, None, MS_BIND | below)
    attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (MOUNT_ATTR_RDONLY if read_only else 0)
    restrict(target, attributes, everything_below=everything_below)


def restrict(target: str, attributes: int, *, everything_below: bool) -> None:
    """Add attributes to a mount; kernels before 5.12 take them for the mount itself only."""
    packed = struct.pack("=4Q", attributes, 0, 0, 0)
    recursive = 0x8000 if everything_below else 0
    try:
        direct("mount_setattr", -100, target.encode(), recursive, packed, ctypes.c_size_t(len(packed)))
    except OSError:
        mount("none", target, None, MS_REMOUNT | MS_BIND | attributes)


def enter_root(folder: str) -> None:
    """Make a folder that is a mount the root of this mount namespace; the old root is gone after it."""
    os.chdir(folder)
    direct("pivot_root", b".", b".")
    call("umount2", b".", DETACH)
    os.chdir("/")


def give_up_privileges(user: int | None) -> None:
    """Become the given user, if any; keep only the right to read files, and gain no other again."""
    last = int(_contents("/proc/sys/kernel/cap_last_cap") or 40)
    for right in range(last + 1):
        if right != READ_ANY_FILE:
            libc.prctl(CAPBSET_DROP, right, 0, 0, 0)
    if user is not None:
        call("prctl", KEEPCAPS, 1, 0, 0, 0)
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    header = struct.pack("=Ii", 0x20080522, 0)
    current = ctypes.create_string_buffer(24)
    call("capget", header, current)
    kept = struct.unpack("=6I", current.raw)[1] & 1 << READ_ANY_FILE
    call("capset", header, struct.pack("=6I", kept, kept, kept, 0, 0, 0))
    if kept and user is not None:
        libc.prctl(AMBIENT, 2, READ_ANY_FILE, 0, 0)
    call("prctl", NO_NEW_PRIVS, 1, 0, 0, 0)


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends."""
    call("prctl", PDEATHSIG, 9, 0, 0, 0)


def hide_memory() -> None:
    """Let no process of the same user look into this one's memory or take its descriptors."""
    call("prctl", DUMPABLE, 0, 0, 0, 0)


def _contents(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""
