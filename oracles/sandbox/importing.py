"""Opening a foreign file where it can do no harm: its framework reads it, in a sandbox of its own."""

import base64
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from corpus.errors import UserError
from corpus.format import read_whole
from corpus.formats import find_format
from corpus.graphs.program import decode_values
from corpus.load import Imported
from corpus.target import Target
from oracles.abilities import Backend
from oracles.backends import backends
from oracles.extras import is_installed
from oracles.sandbox.sandbox import Sandbox, SandboxError
from oracles.verdict import Limits

MOST_BYTES = 128 << 20


def open_foreign(target: Target | None, limits: Limits, name: str, path: Path) -> Imported:
    """A file of a framework's own, opened as a program of the format `name`.

    It is read under the interpreter of the target where that has the framework, else under our own.
    """
    content = base64.b64encode(read_whole(path, MOST_BYTES, f"name a {name} program")).decode("ascii")
    opener = _opener(target, name)
    is_same = target is not None and backends()[target.backend].package == opener.package
    python = target.get("python") if target is not None and is_same else ""
    beside = [str(path.resolve().parent)] if path.suffix == ".py" else []  # a trusted script may import these
    with Sandbox(opener.name, python=python or None, limits=limits, shown=beside) as sandbox:
        found = imported(sandbox, name, path, content)
        return replace(found, notes=(*found.notes, *_lacks(sandbox)))


def _opener(target: Target | None, name: str) -> Backend:
    """A backend that opens such files: the target's own, else one that is installed."""
    openers = [each for each in backends().values() if any(name in graphs.opens for graphs in each.graphs)]
    own = (each for each in openers if target is not None and each.name == target.backend)
    ready = (each for each in openers if is_installed(each.package))
    return next(chain(own, ready, openers))


def _lacks(sandbox: Sandbox) -> tuple[str, ...]:
    """A remark on what the system refused while trusted code ran; none where everything is in force."""
    missing = [name for name, complaint in sandbox.facts["containment"].items() if complaint]
    return (f"opened without these layers of the sandbox: {', '.join(missing)}",) if missing else ()


def imported(sandbox: Sandbox, name: str, path: Path, content: str, *, most: int = 300) -> Imported:
    """Import a file (in base64) in a backend's worker; a refusal is cut at this many characters."""
    try:
        answer = sandbox.ask("open_program", str(path), content)
    except SandboxError:
        raise UserError(
            f"{path}: opening it did not end in {sandbox.limits.wall_seconds:g} seconds or ended its process,"
            f" and no {name} program was seen"
        ) from None
    if "error" in answer:
        raise UserError(f"{path}: {' '.join(str(answer['error']).split())[:most]}")
    return from_answer(name, answer, str(path))


def from_answer(name: str, answer: dict[str, Any], where: str) -> Imported:
    """The program as crux writes it, whatever the worker's dictionary looks like."""
    other = answer.get("format", "")  # of another language than it was opened as: PrimFuncs alone
    program = find_format(other or name).from_worker(answer, where)
    inputs, notes = decode_values(answer.get("inputs", {})), tuple(answer.get("notes", ()))
    return Imported(program, inputs, notes, other)
