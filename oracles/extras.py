"""Packages that may be missing: which extra of tensorcrux brings them, and how.

`bin/crux` sets up onnxruntime alone; what else a command needs is installed when it is asked for.
"""

import importlib
import os
import re
import sys
import threading
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from corpus.errors import UserError
from corpus.processes import INSTALLING, PLACES, end_group, environment, start

_BRINGS = {
    "tvm": "apache-tvm apache-tvm-ffi tvm tvm_ffi",
    "torch": "torch",
    "openvino": "openvino",
    "iree": "iree-base-compiler iree-base-runtime",
    "xla": "jax jaxlib",
    "smt": "z3-solver",
    "native": "iced-x86",
    "cluster": "ray",
    "mcp": "mcp",
}
EXTRAS = {package: extra for extra, packages in _BRINGS.items() for package in packages.split()}
"""The extra that brings a package, or a module of it; the others come with crux itself."""

BY_TARGET = frozenset(["openvino", "iree", "xla"])
"""The extras that only a target of theirs brings, and no look at all backends."""

_ROOT = Path(__file__).resolve().parents[1]
_ENVIRONMENT = _ROOT / ".venv"
_VARIABLES = re.compile(f"{PLACES.pattern}|{INSTALLING.pattern}|CRUX_PYTHON")
_ADD = '. "$1/bin/_environment.sh"; add_extra "${@:2}"'
lock = threading.Lock()
"""Held while packages are installed."""


def how_to_install(package: str) -> str:
    """The command that brings a package or module that is missing."""
    extra = EXTRAS.get(package)
    wanted = f"'.[{extra}]'" if extra else "."
    return f"in the repository: pip install --constraint constraints.txt {wanted}"


def comes_when_asked(package: str) -> bool:
    """Whether `provide` would install the package: the launchers set this Python up, with no fixed extras."""
    is_theirs = Path(sys.prefix) == _ENVIRONMENT and (_ENVIRONMENT / "stamp").is_file()
    return is_theirs and package in EXTRAS and "CRUX_EXTRAS" not in os.environ


def comes_with_others(package: str) -> bool:
    """Whether whoever looks at all backends may have the package installed, too."""
    return comes_when_asked(package) and EXTRAS[package] not in BY_TARGET


def is_installed(package: str) -> bool:
    """Whether this Python has the package."""
    return bool(installed_release(package))


def installed_release(package: str) -> str:
    """The release of the package that this Python has; empty if it has none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def provide(*packages: str) -> None:
    """Install the packages that are missing where they come when asked; elsewhere whoever needs one says so.

    Raises `UserError` if that fails. Progress goes to stderr.
    """
    with lock:
        is_changing = (_ENVIRONMENT / "adding").exists()
        missing = [each for each in packages if is_changing or not is_installed(each)]
        extras = sorted({EXTRAS[each] for each in missing if comes_when_asked(each)})
        if not extras:
            return
        command = ["bash", "-euo", "pipefail", "-c", _ADD, "crux", str(_ROOT), *extras]
        process = start(command, stderr=2, variables=environment(_VARIABLES), folder=_ROOT)
        try:
            has_ended_well = process.wait() == 0
        finally:
            end_group(process)
        if not has_ended_well:
            names = ", ".join(missing)
            raise UserError(f"{names} could not be installed; see {_ENVIRONMENT / 'install.log'}")
        importlib.invalidate_caches()
