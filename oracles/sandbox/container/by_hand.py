"""Containment by our own hand: namespaces entered, a root put together, rights given up, by system calls
alone.

Used where bubblewrap is not there, and for root, whose processes the kernel only counts once they are another
user's. What the kernel refuses is left out and told; limits and isolation by process still hold then.
"""

from __future__ import annotations

import os
import resource

from oracles.sandbox.container import kernel
from oracles.sandbox.container.kernel import LAYERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from oracles.sandbox.container.start import Plan

NOBODY = 65534
FLAGS = {
    "user": kernel.NEW_USER,
    "pid": kernel.NEW_PID,
    "ipc": kernel.NEW_IPC,
    "network": kernel.NEW_NET,
    "mount": kernel.NEW_MOUNT,
    "uts": kernel.NEW_UTS,
}
DEVICES = ("null", "zero", "full", "random", "urandom")
ALONE = "CRUX_ALONE"
"""The variable that says whether no other process than the program's can be seen."""
OLD_COUNTS = (5, 14)
"""Before this release RLIMIT_NPROC counts what a user runs outside of the sandbox too."""


class Container:
    """One container in the making: what is in force so far, by layer "" or why it is not."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.facts = dict.fromkeys(LAYERS, "")
        self.new_user: int | None = None

    def start(self) -> int:
        """Start the program under an init of its own; the process to wait for and to kill."""
        ready_read, ready = os.pipe()
        pid = self._fork(ready_read, ready)
        os.close(ready_read)
        os.set_inheritable(ready, False)
        if not self.facts["user"]:
            self._map_users(pid)
        user = "" if self.new_user is None else str(self.new_user)
        os.write(ready, f"{user}\n{self.facts['user']}".encode())
        return pid

    def _fork(self, ready_read: int, ready: int) -> int:
        """Fork into all namespaces, or else into those that the kernel lets have."""
        for wanted in self._attempts():
            flags = sum(FLAGS[name] for name in wanted)
            try:
                pid = kernel.fork_into(flags) if flags else os.fork()
            except OSError as error:
                for name in FLAGS:
                    self.facts[name] = self.facts[name] or str(error.strerror)
                continue
            for name in wanted:
                self.facts[name] = ""
            if not pid:
                os.close(ready)
                self._become_init(ready_read)
            return pid
        raise AssertionError("a plain fork never fails here")

    def _attempts(self) -> list[tuple[str, ...]]:
        """Sets of namespaces from the best on; what each is worth alone is only tried where none is to be
        had.
        """
        every = tuple(FLAGS)
        rest = every[1:]
        return [every, rest, ("user", "mount", "pid"), ("user", "network"), ("user",), ()]

    def _map_users(self, pid: int) -> None:
        """Every user keeps his number within the namespace; without the right to that, only the own one."""
        user, group = os.getuid(), os.getgid()
        known = _lines("/proc/self/uid_map")
        if user == 0:
            if any(first <= NOBODY < first + count for first, count in known):
                self.new_user = NOBODY
            maps = {"uid_map": known, "gid_map": _lines("/proc/self/gid_map")}
        else:
            maps = {"uid_map": [(user, 1)], "gid_map": [(group, 1)]}
            _write(f"/proc/{pid}/setgroups", "deny")
        try:
            for name, ranges in maps.items():
                text = "".join(f"{first} {first} {count}\n" for first, count in ranges)
                _write(f"/proc/{pid}/{name}", text)
        except OSError as error:
            self.facts["user"] = f"{name}: {error.strerror}"

    # Within

    def _become_init(self, ready: int) -> None:
        """The first process of the namespaces: it builds the root, starts the program and reaps what is
        orphaned.

        It ends with the program, and the kernel then kills whatever else is left.
        """
        status = 1
        try:
            user, newline, self.facts["user"] = os.read(ready, 1 << 16).decode().partition("\n")
            if not newline:
                return
            self.new_user = int(user) if user else None
            kernel.die_with_parent()
            self._build()
            child = os.fork()
            if not child:
                self._run(ready)
            if self.plan.control >= 0:
                os.close(self.plan.control)
            kernel.hide_memory()
            while True:
                pid, code = os.wait()
                if pid == child:
                    status = os.waitstatus_to_exitcode(code) & 255
                    return
        finally:
            os._exit(status)

    def _build(self) -> None:
        """Everything that takes rights, and then the rights go."""
        if not self.facts["uts"]:
            self._try("uts", os_sethostname)
        if self.facts["mount"]:
            self.facts["root"] = self.facts["mount"]
        else:
            self._try("root", self._enter_own_root)
        if self.facts["root"] or not self.plan.work_bytes:
            self.new_user = None  # the folder to write to is crux's own then
        self._try("privileges", kernel.give_up_privileges, self.new_user)
        kernel.die_with_parent()  # a change of user has undone it
        self._try("processes", self._limit_processes)

    def _try(self, layer: str, action: object, *arguments: object) -> None:
        assert callable(action)
        try:
            action(*arguments)
        except OSError as error:
            self.facts[layer] = str(error.strerror)

    def _limit_processes(self) -> None:
        complaint = why_uncounted() or (self.facts["user"] and "needs the user namespace")
        if complaint:
            raise OSError(1, complaint)
        most = self.plan.processes
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))

    def _run(self, ready: int) -> None:
        """The program's own process: limits and the filter, then the program."""
        try:
            limit_resources(self.plan)
            self._try("system calls", kernel.install, kernel.program())
            if self.plan.report >= 0:
                os.write(self.plan.report, kernel.report_of(self.facts))
            os.close(ready)
            if self.plan.control >= 0:
                os.set_inheritable(self.plan.control, True)
            os.chdir(self.plan.work)
            kernel.die_with_parent()
            environment = {**self.plan.environment, ALONE: "" if self.facts["pid"] else "1"}
            os.execve(self.plan.command[0], self.plan.command, environment)
        except OSError as error:
            os.write(2, f"{self.plan.command[0]}: {error.strerror}\n".encode())
        finally:
            os._exit(127)

    def _enter_own_root(self) -> None:
        """A root in memory that holds what the plan shows, and nothing else."""
        root = os.path.join(self.plan.scratch, "root")
        os.makedirs(root, exist_ok=True)
        kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
        kernel.mount("sandbox", root, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=755,size=4m")
        for path in self.plan.shown:
            if os.path.exists(path):
                kernel.bind(path, _place(root, path))
        for path, target in self.plan.links.items():
            os.makedirs(os.path.dirname(root + path), exist_ok=True)
            os.symlink(target, root + path)
        self._show_devices(root)
        self._show_processes(root)
        scratch = _place(root, self.plan.scratch)
        kernel.bind(self.plan.scratch, scratch, everything_below=False)
        if not self.plan.work_bytes:
            kernel.bind(self.plan.work, _place(root, self.plan.work), read_only=False)
            kernel.enter_root(root)
            kernel.restrict("/", kernel.MOUNT_ATTR_RDONLY, everything_below=False)
            return
        owner = f",uid={self.new_user},gid={self.new_user}" if self.new_user is not None else ""
        options = f"mode=700,size={self.plan.work_bytes},nr_inodes=100k{owner}"
        kernel.mount("work", root + self.plan.work, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, options)
        kernel.enter_root(root)
        kernel.restrict("/", kernel.MOUNT_ATTR_RDONLY, everything_below=False)

    def _show_devices(self, root: str) -> None:
        for path in (*(f"/dev/{name}" for name in DEVICES), *self.plan.devices):
            if os.path.exists(path):
                kernel.mount(path, _place(root, path), None, kernel.MS_BIND | kernel.MS_REC)
        os.symlink("/proc/self/fd", root + "/dev/fd")

    def _show_processes(self, root: str) -> None:
        """The namespace's own /proc; inside some containers the kernel only lets the old one be seen."""
        os.makedirs(root + "/proc", exist_ok=True)
        flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
        try:
            kernel.mount("proc", root + "/proc", "proc", flags)
        except OSError:
            kernel.bind("/proc", root + "/proc")


def why_uncounted() -> str:
    """Say why the kernel cannot count the processes of this user's sandbox; empty if it can."""
    release = tuple(int(part) for part in os.uname().release.split(".")[:2] if part.isdigit())
    if os.getuid() == 0:
        return "the kernel counts no processes of root"
    return "this kernel counts the user's other processes too" if release < OLD_COUNTS else ""


def limit_resources(plan: Plan) -> None:
    """Set limits: no core files, few descriptors."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = plan.files if hard == resource.RLIM_INFINITY else min(plan.files, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def os_sethostname() -> None:
    """A name that tells nothing of the machine."""
    kernel.call("sethostname", b"sandbox", 7)


def _place(root: str, path: str) -> str:
    """A path's place in the new root; make it as an empty file or folder if it is absent."""
    target = root + path
    if os.path.isdir(path):
        os.makedirs(target, exist_ok=True)
    elif not os.path.lexists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o644))
    return target


def _lines(path: str) -> list[tuple[int, int]]:
    """The ranges of users that this process knows: first number and how many."""
    with open(path) as file:
        return [(int(first), int(count)) for first, _, count in (line.split() for line in file)]


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
