"""Settings with a home: `crux.toml` or `[tool.crux]` in `pyproject.toml`, and `CRUX_…` in the environment.

A file of settings may come with a stranger's repository, so it is data: it runs nothing, names no Python
and reaches no file outside its folder. The environment and the command line are the user's own.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpus.errors import UserError

TABLE = ("tool", "crux")
LARGEST = 1 << 20
"""Bytes of a file of settings."""
NUMBER = (int, float)
KINDS: Mapping[str, tuple[type, ...]] = {
    "target": (str,),
    "database": (str,),
    "known": (str,),
    "tolerance": (str,),
    "rtol": NUMBER,
    "atol": NUMBER,
    "timeout": NUMBER,
    "memory": (int,),
    "seed": (int,),
    "jobs": (int,),
    "oracles": (str,),
    "color": (str,),
    "quiet": (bool,),
    "offline": (bool,),
}
"""Each setting, and what a file may say for it."""
OPTIONS = {"target": "usual_target", "database": "usual_database"}
"""The settings that are no defaults of an option of their name: they stand in for `ort` and `./crux.db`."""
PATHS = frozenset({"database", "known"})
RUNNING = frozenset({"trust", "check", "also", "python", "strategy", "plugin", "library", "cluster"})
"""Options that run code or name a program: for the command line alone."""
NAMES = re.compile(r"[\w ,-]*")


@dataclass(frozen=True, slots=True)
class Setting:
    """A value, and where it comes from: a file's path, or a variable of the environment."""

    value: Any
    source: str


def read_settings(start: Path, environment: Mapping[str, str]) -> dict[str, Setting]:
    """The settings that hold in a folder, those of the environment before those of the nearest file.

    Raises `UserError` for a setting that there is not, that is of a wrong kind, or that a file may not have.
    """
    path = settings_file(start)
    found = {} if path is None else {key: _of_file(path, key, value) for key, value in _table(path).items()}
    for key in KINDS:
        if environment.get(variable(key)):
            found[key] = Setting(environment[variable(key)], variable(key))
    return found


def variable(key: str) -> str:
    """The variable of the environment for a setting."""
    return f"CRUX_{key.upper()}"


def settings_file(start: Path) -> Path | None:
    """The nearest file of settings from a folder up to the root of its repository; outside of one, there."""
    folders = [start, *start.parents]
    roots = [at for at, folder in enumerate(folders) if (folder / ".git").exists()]
    for folder in folders[: roots[0] + 1 if roots else 1]:
        if (folder / "crux.toml").is_file():
            return folder / "crux.toml"
        project = folder / "pyproject.toml"
        if project.is_file() and _table(project):
            return project
    return None


def _table(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > LARGEST:
            raise UserError(f"{path}: larger than {LARGEST >> 20} MB, so no file of settings")
        found: Any = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read as settings ({error})") from error
    for key in TABLE if path.name == "pyproject.toml" else ():
        found = found.get(key, {}) if isinstance(found, dict) else {}
    return found if isinstance(found, dict) else {}


def _of_file(path: Path, key: str, value: Any) -> Setting:
    where = f"{path}: {key}"
    kinds = KINDS.get(key, ())
    if key in RUNNING:
        raise UserError(f"{where}: runs code, so it counts on the command line only")
    if key not in KINDS:
        raise UserError(f"{where}: no such setting; there are {', '.join(KINDS)}")
    if type(value) not in kinds:
        raise UserError(f"{where}: {value!r} is no {' or '.join(each.__name__ for each in kinds)}")
    if key in PATHS:
        value = _within(path, key, value)
    elif key == "target":
        _must_run_nothing(where, value)
    elif key == "oracles" and not NAMES.fullmatch(value):
        raise UserError(f"{where}: {value!r} is no list of names")
    return Setting(value, str(path))


def _within(path: Path, key: str, value: str) -> str:
    """A file beside the settings or below, as a path."""
    found = (path.parent / value).resolve()
    if not found.is_relative_to(path.parent.resolve()):
        raise UserError(f"{path}: {key}: {value!r} leaves the folder; give it on the command line")
    return str(found)


def _must_run_nothing(where: str, text: str) -> None:
    from corpus.target import Target

    if complaint := Target.of_data(text).complaint:
        raise UserError(f"{where}: {complaint} may say what to run, so it counts on the command line only")


def defaults(command: Any, settings: Mapping[str, Setting]) -> dict[str, Any]:
    """The settings as the defaults of a command's options and of those below it, as its parser takes them."""
    named = {OPTIONS.get(key, key): each.value for key, each in settings.items()}
    own = {param.name: named[param.name] for param in command.params if param.name in named}
    children = getattr(command, "commands", {})
    return own | {name: defaults(child, settings) for name, child in children.items()}


def here() -> dict[str, Setting]:
    """The settings of the working directory and the environment."""
    try:
        return read_settings(Path.cwd(), os.environ)
    except FileNotFoundError as error:
        raise UserError("the folder in which crux was started is gone; go to another") from error
