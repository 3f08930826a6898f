"""Packages that may be missing: which extra of tensorcrux brings them, and how.

`bin/crux` sets up onnxruntime alone; what else a command needs is installed when it is asked for.
"""

import importlib
import os
import subprocess
import sys
import threading
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from corpus.errors import UserError

EXTRAS = {
    "apache-tvm": "tvm",
    "apache-tvm-ffi": "tvm",
    "tvm": "tvm",
    "tvm_ffi": "tvm",
    "torch": "torch",
    "z3-solver": "smt",
    "iced-x86": "native",
    "ray": "cluster",
    "mcp": "mcp",
}
"""The extra that brings a package, or a module of it; the others come with crux itself."""

_ROOT = Path(__file__).resolve().parents[1]
_ENVIRONMENT = _ROOT / ".venv"
_ADD = '. "$1/bin/_environment.sh"; add_extra "$2"'
_lock = threading.Lock()


def how_to_install(package: str) -> str:
    """The command that brings a package or module that is missing."""
    extra = EXTRAS.get(package)
    wanted = f"'.[{extra}]'" if extra else "."
    return f"in the repository: pip install --constraint constraints.txt {wanted}"


def comes_when_asked(package: str) -> bool:
    """Whether `provide` would install the package: the launchers set this Python up, with no fixed extras."""
    is_theirs = Path(sys.prefix) == _ENVIRONMENT and (_ENVIRONMENT / "stamp").is_file()
    return is_theirs and package in EXTRAS and "CRUX_EXTRAS" not in os.environ


def is_installed(package: str) -> bool:
    """Whether this Python has the package."""
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True


def provide(package: str) -> None:
    """Install a package that is missing where `comes_when_asked`; elsewhere its user says what is missing.

    Raises `UserError` if that fails. Progress goes to stderr.
    """
    with _lock:
        is_whole = is_installed(package) and not (_ENVIRONMENT / "adding").exists()
        if is_whole or not comes_when_asked(package):
            return
        command = ["bash", "-euo", "pipefail", "-c", _ADD, "crux", str(_ROOT), EXTRAS[package]]
        if subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).returncode:
            raise UserError(f"{package} is needed and could not be installed; {how_to_install(package)}")
        importlib.invalidate_caches()
