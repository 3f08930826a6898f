"""Starts a program contained, and stays outside: it removes the scratch folder when the program or crux has
gone.

Run as a script by crux's own interpreter, before the interpreter that a target names starts:
`python -I -S launcher.py PLAN [DESCRIPTOR…]`, the descriptors being those that it alone keeps open. It needs
the standard library and its neighbours only.
"""

from __future__ import annotations

import marshal
import os
import select
import sys
import types

sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "..")))

from oracles.sandbox.container import kernel
from oracles.sandbox.container.by_hand import ALONE, DEVICES, Container, limit_resources, why_uncounted

TYPE_CHECKING = False
if TYPE_CHECKING:  # every import counts: a launcher runs before each sandbox
    from typing import Any

    from oracles.sandbox.container.start import Plan

KILL = 9
LOOK_AGAIN = 100.0
PATIENCE = 2000.0
"""Milliseconds that the program has to end by itself once crux has gone."""
BEGIN = """
echo ready >&{status}
exec {status}>&-
ulimit -u "$0" 2>/dev/null || ulimit -p "$0" 2>/dev/null
exec "$@"
"""
"""What bubblewrap runs: a word that all is set up, the limit that bubblewrap has no option for, the
program.
"""


def main() -> None:
    """Start the program of the plan and wait for its end; the program's descriptors are closed here."""
    with open(sys.argv[1], "rb") as file:
        plan: Any = types.SimpleNamespace(**marshal.load(file))
    for descriptor in (plan.control, plan.report, *map(int, sys.argv[2:])):
        if descriptor >= 0:
            os.set_inheritable(descriptor, False)
    if plan.inherited:
        kernel.fix_addresses()
    guard(plan, start(plan))


def start(plan: Plan) -> int:
    """The process that ends when the program has ended: bubblewrap where it is to be used and works, or our
    own.
    """
    if plan.bubblewrap:
        found = start_bubblewrap(plan)
        if found:
            return found
    return Container(plan).start()


def guard(plan: Plan, pid: int) -> None:
    """Wait for the end of the program, or of crux; then kill what is left and remove the scratch folder.

    The exit code is the program's.
    """
    poll = select.poll()
    wait = None if watch(poll, pid) else LOOK_AGAIN
    if plan.control >= 0:
        poll.register(plan.control, 0)
    code = ended(pid)
    while code is None:
        gone = any(descriptor == plan.control for descriptor, _ in poll.poll(wait))
        code = ended(pid)
        if gone and code is None:
            poll.unregister(plan.control)
            poll.poll(PATIENCE)
            if ended(pid) is None:
                os.kill(pid, KILL)
                os.waitpid(pid, 0)
            code = 0
    if plan.is_removed:
        remove(plan.scratch)
    os._exit(code)


def watch(poll: select.poll, pid: int) -> bool:
    """Have a poll tell of a process's end; False on kernels before 5.3, which cannot."""
    try:
        poll.register(os.pidfd_open(pid), select.POLLIN)
    except OSError:
        return False
    return True


def remove(folder: str) -> None:
    """Remove a folder with all that is in it, as far as can be."""
    for path, folders, files in os.walk(folder, topdown=False):
        for name in (*files, *folders):
            remove_one(os.path.join(path, name))
    remove_one(folder)


def remove_one(path: str) -> None:
    """Remove a file, a link or an empty folder, if it can be."""
    is_folder = os.path.isdir(path) and not os.path.islink(path)
    try:
        (os.rmdir if is_folder else os.unlink)(path)
    except OSError:
        return


def ended(pid: int) -> int | None:
    """The exit code of the process, which is waited for then; None while it runs."""
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 0
    return os.waitstatus_to_exitcode(status) & 255 if found else None


# By bubblewrap


def start_bubblewrap(plan: Plan) -> int:
    """The running bubblewrap; 0 where it does not work here."""
    status_read, status = os.pipe()
    pid = os.fork()
    if not pid:
        run_bubblewrap(plan, status)
    os.close(status)
    with open(status_read, "rb") as told:
        if not told.readline():
            os.waitpid(pid, 0)
            return 0
    facts = {**dict.fromkeys(kernel.LAYERS, ""), "processes": why_uncounted()}
    if plan.report >= 0:
        os.write(plan.report, kernel.report_of(facts))
    return pid


def run_bubblewrap(plan: Plan, status: int) -> None:
    """The forked child: becomes bubblewrap, within which the first word is written to `status`."""
    try:
        filter_read, filter_write = os.pipe()
        os.write(filter_write, kernel.program())
        os.close(filter_write)
        limit_resources(plan)
        taken = (plan.control, filter_read, *plan.inherited)
        place = next(number for number in range(3, 40) if number not in taken)
        os.dup2(status, place)
        for descriptor in (filter_read, plan.control):
            if descriptor >= 0:
                os.set_inheritable(descriptor, True)
        os.chdir("/")
        words = [plan.bubblewrap, *arguments(plan, place, filter_read)]
        os.execve(plan.bubblewrap, words, {**plan.environment, ALONE: "1"})
    finally:
        os._exit(127)


def arguments(plan: Plan, status: int, filter_read: int) -> list[str]:
    """The arguments of bubblewrap."""
    found = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-net", "--unshare-uts"]
    found += ["--hostname", "sandbox", "--die-with-parent", "--cap-drop", "ALL"]
    for path in plan.shown:
        found += ["--ro-bind-try", path, path]
    for path, target in plan.links.items():
        found += ["--symlink", target, path]
    for path in (*(f"/dev/{name}" for name in DEVICES), *plan.devices):
        found += ["--dev-bind-try", path, path]
    found += ["--symlink", "/proc/self/fd", "/dev/fd", "--proc", "/proc"]
    found += ["--ro-bind", plan.scratch, plan.scratch]
    if plan.work_bytes:
        found += ["--perms", "0700", "--size", str(plan.work_bytes), "--tmpfs", plan.work]
    else:
        found += ["--bind", plan.work, plan.work]
    found += ["--remount-ro", "/", "--chdir", plan.work]
    found += ["--seccomp", str(filter_read), "--"]
    most = "unlimited" if why_uncounted() else str(plan.processes)
    return [*found, "/bin/sh", "-c", BEGIN.format(status=status), most, *plan.command]


if __name__ == "__main__":
    main()
