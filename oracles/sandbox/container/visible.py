"""What a contained interpreter may see: itself, its libraries, the system's, and nothing of the user's."""

from __future__ import annotations

import glob
import os
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

SHOWS = "CRUX_SANDBOX_SHOWS"
"""The user's own list of further folders, separated by colons: a build tree that an interpreter needs."""
SYSTEM = (
    "/usr",
    "/opt/rocm",
    "/nix/store",
    "/gnu/store",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/OpenCL",
    "/sys/devices/system",
)
"""The system's programs and libraries, and what of the processor's kind is told there."""
MERGED = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Links into /usr on most systems, folders on others."""
GPU = ("/dev/nvidia*", "/dev/dri/render*", "/dev/kfd")
GPU_FOLDERS = ("/sys/bus/pci", "/sys/devices", "/sys/class/drm", "/sys/module/nvidia")
OF_A_PREFIX = ("bin", "lib", "lib64", "libexec", "include", "share", "pyvenv.cfg")


def shown_paths(python: str, extra: Sequence[str] = (), *, gpu: bool = False) -> tuple[str, ...]:
    """Files and folders that a worker under this interpreter may read, none inside another one."""
    wanted = [*SYSTEM, *(name for name in MERGED if not os.path.islink(name))]
    wanted += [*interpreter_paths(python), *library_folders(), *extra, *(GPU_FOLDERS if gpu else ())]
    wanted += [path for path in os.environ.get(SHOWS, "").split(os.pathsep) if path]
    found = {os.path.abspath(path) for path in wanted if os.access(path, os.R_OK)}
    return tuple(sorted(path for path in found if not any(_holds(other, path) for other in found)))


def links() -> dict[str, str]:
    """Return the system's folders that are links, and where they lead."""
    return {name: os.readlink(name) for name in MERGED if os.path.islink(name)}


def device_files(*, gpu: bool) -> tuple[str, ...]:
    """Return the device files of GPUs, for a worker that is to use one."""
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
    """Return the installation that a virtual environment was made from."""
    try:
        lines = (prefix / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    pairs = (line.partition("=") for line in lines)
    home = next((value.strip() for key, _, value in pairs if key.strip() == "home"), "")
    return Path(home).parent if os.path.isabs(home) else None


def _of_prefix(prefix: Path) -> list[str]:
    """Return an installation's folder; only its parts where the folder is a home, or holds one."""
    if not _is_private(prefix):
        return [str(prefix)]
    return [str(prefix / name) for name in OF_A_PREFIX if (prefix / name).exists()]


def _is_private(folder: Path) -> bool:
    """Return whether more than an installation lies in a folder: the root, a home, what homes lie in."""
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
