"""Starts a program contained, and stays outside: it removes the scratch folder when the program or crux has
gone.

Run as a script by crux's own interpreter, before the interpreter that a target names starts:
`python -I -S launcher.py PLAN [DESCRIPTOR…]`, the descriptors being those that it alone keeps open. It needs
the standard library and its neighbours only.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3]))

from oracles.sandbox.container import kernel, seccomp
from oracles.sandbox.container.by_hand import ALONE, DEVICES, Container, limit_resources, why_uncounted
from oracles.sandbox.container.plan import LAYERS, Plan

PATIENCE = 2.0
"""Seconds that the program has to end by itself once crux has gone."""
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
    with open(sys.argv[1]) as file:
        plan = Plan.of_json(file.read())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for descriptor in (plan.control, plan.report, *map(int, sys.argv[2:])):
        if descriptor >= 0:
            os.set_inheritable(descriptor, False)
    wake_read, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(wake_read, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    if plan.inherited:
        kernel.fix_addresses()
    pid = start(plan)
    guard(plan, pid, wake_read)


def start(plan: Plan) -> int:
    """The process that ends when the program has ended: bubblewrap where it is to be used and works, or our
    own.
    """
    if plan.contained and plan.bubblewrap:
        found = start_bubblewrap(plan)
        if found:
            return found
    return Container(plan).start()


def guard(plan: Plan, pid: int, wake: int) -> None:
    """Wait for the end of the program, or of crux; then kill what is left and remove the scratch folder.

    The exit code is the program's.
    """
    poll = select.poll()
    poll.register(wake, select.POLLIN)
    if plan.control >= 0:
        poll.register(plan.control, 0)
    code = ended(pid)
    while code is None:
        gone = any(descriptor == plan.control for descriptor, _ in poll.poll())
        with contextlib.suppress(BlockingIOError):
            os.read(wake, 100)
        code = ended(pid)
        if gone and code is None:
            poll.unregister(plan.control)
            poll.poll(1000 * PATIENCE)
            if ended(pid) is None:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            code = 0
    if plan.is_removed:
        shutil.rmtree(plan.scratch, ignore_errors=True)
    os._exit(code)


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
    facts = {**dict.fromkeys(LAYERS, ""), "processes": why_uncounted()}
    if plan.report >= 0:
        os.write(plan.report, json.dumps(facts).encode())
    return pid


def run_bubblewrap(plan: Plan, status: int) -> None:
    """The forked child: becomes bubblewrap, within which the first word is written to `status`."""
    try:
        filter_read, filter_write = os.pipe()
        os.write(filter_write, seccomp.program())
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
    """What bubblewrap is told."""
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
