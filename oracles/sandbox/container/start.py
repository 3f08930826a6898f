"""Starting an interpreter contained from outside: what it may see, the launcher's plan, what is in force.

It sees itself, its libraries, the system's, and nothing of the user's.
"""

from __future__ import annotations

import glob
import marshal
import os
import resource
import shutil
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO

from corpus import processes
from corpus.errors import UserError
from corpus.processes import Process
from oracles.sandbox.container.kernel import LAYERS
from oracles.sandbox.scratch import Scratch

SHOWS = "CRUX_SANDBOX_SHOWS"
"""The user's own list of further folders, separated by colons: a build tree that an interpreter needs."""
_SYSTEM = """
    /usr /opt/rocm /nix/store /gnu/store /etc/ld.so.cache /etc/ld.so.conf /etc/ld.so.conf.d
    /etc/alternatives /etc/localtime /etc/OpenCL /sys/devices/system
"""
SYSTEM = tuple(_SYSTEM.split())
"""The system's programs and libraries, and what of the processor's kind is told there."""
MERGED = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Links into /usr on most systems, folders on others."""
GPU = ("/dev/nvidia*", "/dev/dri/render*", "/dev/kfd")
GPU_FOLDERS = ("/sys/bus/pci", "/sys/devices", "/sys/class/drm", "/sys/module/nvidia")
OF_A_PREFIX = ("bin", "lib", "lib64", "libexec", "include", "share", "pyvenv.cfg")
LAUNCHER = Path(__file__).with_name("launcher.py")
MOST_WORK = 1 << 30
"""Bytes that a worker may write to its folder, which lies in memory."""
FEWEST_FILES = 128
USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Plan:
    """One start of a contained program.

    `shown` are files and folders that it may read, at their own paths; `links` symbolic links made beside
    them; `devices` further device files. `work` is the folder that it may write to: one in memory, of
    `work_bytes` at most, or where that is 0 the folder itself. `scratch` is the folder around it, or one
    of the launcher's own beside it; it is removed at the end where `is_removed`. `control` is the
    descriptor that the program inherits, if any, and whose other end tells that crux has gone; on
    `report` the launcher says, as JSON by layer, "" or why a layer is not in force. The program inherits
    the descriptors `inherited`, too; where there are such, its addresses are not random: hash tables of
    C++ libraries are seeded by them, and what is watched is to be the same each time. `bubblewrap` is
    that program's path, or empty.
    """

    command: tuple[str, ...]
    environment: dict[str, str]
    scratch: str
    work: str
    control: int
    report: int
    shown: tuple[str, ...] = ()
    links: dict[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ()
    work_bytes: int = 1 << 30
    processes: int = 256
    files: int = 1024
    bubblewrap: str = ""
    is_removed: bool = True
    inherited: tuple[int, ...] = ()

    def to_bytes(self) -> bytes:
        """The plan as a launcher reads it, which the same interpreter runs."""
        return marshal.dumps(asdict(self))


class Contained:
    """A program that runs contained, under a launcher that stays outside and cleans up after it."""

    def __init__(self, process: Process, report: int) -> None:
        self.process = process
        self._report = report

    def layers(self) -> Mapping[str, str]:
        """Map each layer to the reason why it is off, "" if it is on. Call it after the first answer."""
        lines = os.pread(self._report, 1 << 16, 0).decode().splitlines()
        told = {name: complaint for name, _, complaint in (line.partition("\t") for line in lines)}
        return {name: told.get(name, "not told") for name in LAYERS}

    def end(self, seconds: float) -> None:
        """Wait for the launcher, which ends the program and removes the folder; kill it when it takes
        longer.
        """
        if processes.wait(self.process, seconds) is None:
            self.process.kill()
            self.process.wait()
        if self._report >= 0:
            os.close(self._report)
            self._report = -1


def start(
    command: Sequence[str],
    scratch: Scratch,
    control: int,
    log: IO[bytes],
    *,
    shown: Sequence[str] = (),
    memory_bytes: int,
    gpu: bool = False,
    inherited: Sequence[int] = (),
    preload: Sequence[str] = (),
) -> Contained:
    """Start a program that inherits `control` and `inherited`; raises `UserError` where it is not there.

    It may read the interpreter's and the system's files, the scratch folder and what is `shown`, and write to
    the scratch folder's `work`. The libraries `preload` come before all others.
    """
    _must_have_descriptors()
    plan = replace(
        _plan(command, scratch.folder, scratch.work, shown, gpu=gpu, preload=preload),
        control=control,
        report=os.memfd_create("layers"),
        devices=device_files(gpu=gpu),
        work_bytes=min(memory_bytes, MOST_WORK),
        inherited=tuple(inherited),
    )
    try:
        process = processes.start(
            [*launching(plan), str(scratch.lock)],
            stdout=log,
            stderr=log,
            inherited=[control, plan.report, scratch.lock, *inherited],
            folder="/",
        )
    except BaseException:
        os.close(plan.report)
        raise
    return Contained(process, plan.report)


def _must_have_descriptors() -> None:
    """Raises `UserError` where so few files may be open that no framework can be loaded."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < FEWEST_FILES:
        if hard != resource.RLIM_INFINITY and hard < FEWEST_FILES:
            raise UserError(
                f"the limit on open files is {soft}, and frameworks need {FEWEST_FILES};"
                " raise it (`ulimit -n`)"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (FEWEST_FILES, hard))


def command_in(
    folder: Path, work: Path, command: Sequence[str], shown: Sequence[str], environment: Mapping[str, str]
) -> list[str]:
    """The command that runs another one contained, which starts in `work` and may write there; that stays.

    It may read what is `shown` as well. The exit code and what it writes are the program's. `folder` is the
    launcher's own.
    """
    plan = _plan(command, folder, work, shown)
    around = {**plan.environment, **environment}
    return launching(replace(plan, environment=around, work_bytes=0, is_removed=False))


def _plan(
    command: Sequence[str],
    scratch: Path,
    work: Path,
    shown: Sequence[str],
    *,
    gpu: bool = False,
    preload: Sequence[str] = (),
) -> Plan:
    """A program with what it may see, and nothing that it inherits."""
    program = program_of(command[0])
    preloaded = {"LD_PRELOAD": os.pathsep.join(preload)} if preload else {}
    return Plan(
        command=(program, *command[1:]),
        environment={**worker_environment(str(work)), **preloaded},
        scratch=str(scratch),
        work=str(work),
        control=-1,
        report=-1,
        shown=shown_paths(program, [*shown, *preload], gpu=gpu),
        links=links(),
        bubblewrap=bubblewrap(),
    )


def worker_environment(work: str) -> dict[str, str]:
    """A worker's environment: settings of frameworks, no token; its home and temporary folder are `work`."""
    found = {name: value for name, value in os.environ.items() if processes.is_allowed(name)}
    found.setdefault("PATH", USUAL_PATH)
    found |= {"HOME": work, "TMPDIR": work, "XDG_CACHE_HOME": work, "USER": "crux", "LOGNAME": "crux"}
    return found


def launching(plan: Plan) -> list[str]:
    """The launcher's command for a plan, which is written beside the folder to work in."""
    place = Path(plan.scratch) / "plan"
    place.write_bytes(plan.to_bytes())
    return [sys.executable, "-I", "-S", str(LAUNCHER), str(place)]


def program_of(word: str) -> str:
    """The full path of a program; raises `UserError` where there is none."""
    found = shutil.which(word)
    if found is None:
        raise UserError(f"{word}: this Python cannot be started: no such program, or none to be run")
    return os.path.abspath(found)


def bubblewrap() -> str:
    """Find bubblewrap for a user other than root: the kernel may allow it what it refuses to others.

    It cannot make root's processes those of another user, so for root the kernel would not count them.
    """
    found = shutil.which("bwrap") if os.getuid() else None
    return os.path.realpath(found) if found else ""


def shown_paths(python: str, extra: Sequence[str] = (), *, gpu: bool = False) -> tuple[str, ...]:
    """Files and folders that a worker under this interpreter may read, none inside another one."""
    wanted = [*SYSTEM, *(name for name in MERGED if not os.path.islink(name))]
    wanted += [*interpreter_paths(python), *library_folders(), *extra, *(GPU_FOLDERS if gpu else ())]
    wanted += [path for path in os.environ.get(SHOWS, "").split(os.pathsep) if path]
    found = {os.path.abspath(path) for path in wanted if os.access(path, os.R_OK)}
    return tuple(sorted(path for path in found if not any(_holds(other, path) for other in found)))


def links() -> dict[str, str]:
    """The system's folders that are links, and where they lead."""
    return {name: os.readlink(name) for name in MERGED if os.path.islink(name)}


def device_files(*, gpu: bool) -> tuple[str, ...]:
    """The device files of GPUs, for a worker that is to use one."""
    return tuple(sorted(path for pattern in GPU for path in glob.glob(pattern))) if gpu else ()


def interpreter_paths(python: str) -> list[str]:
    """List an interpreter's own folders without running it: it is not trusted yet."""
    if os.path.realpath(python) == os.path.realpath(sys.executable) and python == sys.executable:
        own = {sys.prefix, sys.base_prefix, sys.exec_prefix, sysconfig.get_path("stdlib")}
        return [python, *(path for prefix in sorted(own) for path in _of_prefix(Path(prefix)))]
    found = [python]
    for step in _steps(Path(python)):
        found.append(str(step))
        prefix = step.parent.parent if step.parent.name in ("bin", "Scripts", "shims") else None
        for each in (prefix, _base_of(prefix) if prefix else None):
            if each is not None:
                found += [path for part in (each, each.resolve()) for path in _of_prefix(part)]
                found += _added_by(each)
    return found


def _steps(python: Path) -> Iterator[Path]:
    """Yield the path itself and each link that it leads over."""
    for _ in range(40):
        yield python
        if not python.is_symlink():
            return
        python = Path(os.path.normpath(python.parent / os.readlink(python)))


def _base_of(prefix: Path) -> Path | None:
    """The installation that a virtual environment was made from."""
    try:
        lines = (prefix / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    pairs = (line.partition("=") for line in lines)
    home = next((value.strip() for key, _, value in pairs if key.strip() == "home"), "")
    return Path(home).parent if os.path.isabs(home) else None


def _of_prefix(prefix: Path) -> list[str]:
    """An installation's folder; only its parts where the folder is a home, or holds one."""
    if not _is_private(prefix):
        return [str(prefix)]
    return [str(prefix / name) for name in OF_A_PREFIX if (prefix / name).exists()]


def _is_private(folder: Path) -> bool:
    """Whether more than an installation lies in a folder: the root, a home, what homes lie in."""
    home = Path.home().resolve()
    real = folder.resolve()
    return real == home or real in home.parents or len(real.parts) <= 2


def _added_by(prefix: Path) -> list[str]:
    """Folders that an environment takes modules from: a framework installed for development lies there."""
    found = []
    for file in prefix.glob("lib/python*/site-packages/*.pth"):
        try:
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        found += [line for line in lines if os.path.isabs(line) and not _is_private(Path(line))]
    return found


def library_folders() -> list[str]:
    """Folders that the user's LD_LIBRARY_PATH names."""
    words = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    return [word for word in words if os.path.isabs(word) and not _is_private(Path(word))]


def _holds(folder: str, path: str) -> bool:
    return folder != path and path.startswith(folder.rstrip("/") + "/")
