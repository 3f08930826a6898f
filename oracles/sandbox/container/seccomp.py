"""The system calls that a sandbox refuses, as a filter that the kernel runs (seccomp, classic BPF).

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
