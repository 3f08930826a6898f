"""The part of the record on the command line itself: help, options, the keys of `--json`, exit codes."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench.frozen_calls import RECORD, REGRESSIONS, Facts, Take, run

COMMAND = re.compile(r"^  ([a-z]+)  +\S", re.MULTILINE)
OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z-]*")


def usage() -> dict[str, Take]:
    return {
        "help": lambda room: dict(_helps(room, ())),
        "ordinary": lambda room: _exits(_furnished(room), "ordinary"),
        "wrong": lambda room: _exits(_furnished(room), "wrong"),
    }


def _helps(room: Path, words: tuple[str, ...]) -> Iterator[tuple[str, Facts]]:
    """The help of a command and of all below it."""
    text = run(room, *words, "--help-all").stdout
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    yield " ".join(("crux", *words)), {"text": digest, "options": sorted(set(OPTION.findall(text)))}
    for command in COMMAND.findall(text.partition("\nCommands\n")[2].partition("\n\n")[0]):
        yield from _helps(room, (*words, command))


def _furnished(room: Path) -> Path:
    for name, case in (("bad", "div-mul-fusion-rank"), ("tir", "tir-clz-of-few-bits")):
        shutil.copytree(REGRESSIONS / case, room / name)
    run(room, "generate", "-o", "seeds", "--count", "1", "--ops", "3")
    shutil.copytree(room / "seeds" / "seed-0", room / "good")
    run(room, "check", "bad", "--db", "crux.db")
    (room / "folder").mkdir()
    (room / "texts").mkdir()
    (room / "texts" / "one.txt").write_text("RuntimeError: the rank of v1 is 3, not 2")
    (room / "text.onnx").write_text("no model")
    (room / "empty.onnx").write_bytes(b"")
    (room / "script.py").write_text("print('hello')\n")
    return room


def _exits(room: Path, table: str) -> Facts:
    """Each line of a table, in order, in one room: `bad` fails, `good` passes, `tir` is another language."""
    facts: Facts = {}
    for line in (RECORD / f"{table}.txt").read_text().splitlines():
        done = run(room, *shlex.split(line))
        again = " again" * (line in facts)
        facts[line + again] = {"exit": done.returncode, "keys": _keys_printed(done.stdout)}
    return facts


def _keys_printed(text: str) -> list[str]:
    try:
        return sorted(set(_keys(json.loads(text), "")))
    except ValueError:
        return []


def _keys(value: Any, path: str) -> Iterator[str]:
    """Where something stands in a document; a key that is data, such as an operator's name, reads `*`."""
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from _keys(each, f"{path}.{key if re.fullmatch('[a-z_]+', key) else '*'}")
    elif isinstance(value, list) and value:
        for each in value:
            yield from _keys(each, f"{path}[]")
    else:
        yield path
