"""The kernel's own calls for namespaces, mounts and privileges, by ctypes: what Python's `os` lacks.

The filter lists what is refused and not what is allowed: frameworks with their own code generators and thread
pools use hundreds of calls, and other ones on each release. Refused is what reaches past a process: other
processes' memory, namespaces, mounts, keys, the kernel's own tools, sockets that no network namespace holds
back.
"""

from __future__ import annotations

import ctypes
import errno
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
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 2, 4, 8, 32
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
    return checked(name, getattr(libc, name)(*arguments))


def direct(name: str, *arguments: Any) -> int:
    """Call the kernel by the call's number; raises `OSError` where it fails."""
    return checked(name, libc.syscall(CALLS[os.uname().machine][name], *arguments))


def checked(name: str, result: Any) -> int:
    """The result of a call; raises `OSError` if it says that it failed."""
    if int(result) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return int(result)


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


ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000
LOAD, JUMP_EQUAL, JUMP_AT_LEAST, JUMP_ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER, ARCHITECTURE, FIRST, SECOND = 0, 4, 16, 24
"""Offsets in `struct seccomp_data`; an argument's lower half comes first on both machines."""
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
X32 = 0x40000000
NAMESPACES = 0x7E020080
"""Every CLONE_NEW… flag of `clone`."""
FAMILIES = (1, 2, 10)
"""AF_UNIX, AF_INET, AF_INET6: the families that a network namespace and an empty root hold back."""
TERMINAL = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX, which type into the user's terminal."""

REFUSED = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "acct": (163, 89),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "syslog": (103, 116),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "personality": (135, 92),
    "vhangup": (153, 58),
    "lookup_dcookie": (212, 18),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "mknod": (133, None),
    "mknodat": (259, 33),
}
"""Refused with EPERM; the numbers on x86-64 and on aarch64."""

UNKNOWN = {"clone3": (435, 435), "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194)}
"""Answered as by a kernel without them: libraries then take another way, one that a limit counts."""
CLONE, SOCKET, IOCTL = (56, 220), (41, 198), (16, 29)

Line = tuple[int, int, int, int]


def program(machine: str = "") -> bytes:
    """The filter for a machine, as `struct sock_filter`s; raises `OSError` for one that has no table here."""
    machine = machine or os.uname().machine
    if machine not in ARCHITECTURES:
        raise OSError(errno.ENOSYS, f"no table of system calls for {machine}")
    at = list(ARCHITECTURES).index(machine)
    lines: list[Line] = [
        (LOAD, 0, 0, ARCHITECTURE),
        (JUMP_EQUAL, 1, 0, ARCHITECTURES[machine]),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
    ]
    if machine == "x86_64":
        lines += [(JUMP_AT_LEAST, 0, 1, X32), refusal(errno.ENOSYS)]
    for table, error in ((REFUSED, errno.EPERM), (UNKNOWN, errno.ENOSYS)):
        for numbers in table.values():
            number = numbers[at]
            if number is not None:
                lines += [(JUMP_EQUAL, 0, 1, number), refusal(error)]
    lines += [(JUMP_EQUAL, 0, 3, CLONE[at]), (LOAD, 0, 0, FIRST)]
    lines += [(JUMP_ANY_BIT, 0, 1, NAMESPACES), refusal(errno.EPERM), (LOAD, 0, 0, NUMBER)]
    lines += among(SOCKET[at], FIRST, FAMILIES, refuse_others=True)
    lines += among(IOCTL[at], SECOND, TERMINAL, refuse_others=False)
    return packed([*lines, (RETURN, 0, 0, ALLOW)])


def refusal(error: int) -> Line:
    """The line that answers a call with an error."""
    return (RETURN, 0, 0, ERRNO | error)


def among(number: int, argument: int, values: tuple[int, ...], *, refuse_others: bool) -> list[Line]:
    """Lines that look at one argument of one call; either all values but these are refused, or these."""
    count = len(values)
    if refuse_others:
        tests = [(JUMP_EQUAL, count - index, 0, value) for index, value in enumerate(values)]
        body: list[Line] = [(LOAD, 0, 0, argument), *tests, refusal(errno.EAFNOSUPPORT)]
    else:
        tests = [(JUMP_EQUAL, count - index - 1, 0, value) for index, value in enumerate(values[:-1])]
        last = (JUMP_EQUAL, 0, 1, values[-1])
        body = [(LOAD, 0, 0, argument), *tests, last, refusal(errno.EPERM)]
    body.append((LOAD, 0, 0, NUMBER))
    return [(JUMP_EQUAL, 0, len(body), number), *body]


def packed(lines: list[Line]) -> bytes:
    """The lines as the kernel takes them."""
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


class _Filter(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))


def install(code: bytes) -> None:
    """Put a filter on this process and all that it starts; raises `OSError`. It may gain no privileges
    then.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    text = ctypes.create_string_buffer(code, len(code))
    rules = _Filter(len(code) // 8, ctypes.addressof(text))
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(rules), 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp: {os.strerror(number)}")
