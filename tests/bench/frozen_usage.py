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

from tests.bench.frozen_calls import REGRESSIONS, Facts, Take, run

COMMAND = re.compile(r"^│ ([a-z]+)  +\S", re.MULTILINE)
OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z-]*")

# Commands of one room, in their order: the case `bad` fails, `good` passes, `tir` is of another language.
ORDINARY = """
--version
check good
check good --json
check bad --json --db crux.db
check good bad --json
check bad good tir --json
check bad --json --repeat 2
check bad --json --locate
check bad --json --targets ort,reference
check bad --json --oracles metamorphic,types
check tir --json
check bad --json --rtol 1e-2 --atol 1e-3
show bad
show bad --json
show tir --json
diff good bad --json
diff good good
passes bad --json
passes good --json
reduce bad -o least --json
reduce bad -o least --json
reduce good -o none --json
reduce tir -o least
report bad -o bundles --json
report bad --db crux.db -o bundles --html --json
generate -o programs --count 2 --json
generate -o trees --strategy tir --count 2 --json
fuzz --tests 60 --db fuzz.db --json
hunt --tests 70 --db hunt.db -o hunted --json
triage --db crux.db
triage --db crux.db --json
triage mark C0001 wontfix --db crux.db --json
triage mark C0001 new --db crux.db
triage why F00001 C0001 --db crux.db --json
triage traces texts --json
triage traces texts
db check --db crux.db --json
db gc --db crux.db --json
db export copy --db crux.db --json
db import copy --db other.db --json
patterns list --json
conformance --only ^test_add$ --json
replay bad --json
replay bad tir --json
doctor
doctor --json
"""
WRONG = """
none-such
check
check none-such
check good --none-such
check good --target none-such
check good --target ort@none=such
check good --target ort:none-such
check good --inputs none.npz
check good --timeout 0
check good --repeat 0
check good --oracles none-such
check good --rtol x
check text.onnx
check empty.onnx
check folder
check script.py
check script.py --json
check F00099 --db crux.db
check - --json
reduce
reduce bad
reduce none-such -o x
reduce good -o least
reduce bad -o none-such/a --check
reduce bad -o x --check false
reduce --all --db none.db
reduce bad -o x --max-checks 0
passes none-such
generate
generate -o x --count 0
generate -o x --mode none-such
generate -o x --strategy none-such
generate -o x --strategy mine.py:programs
fuzz --tests 0
fuzz --strategy none-such
fuzz --target none-such --tests 1
hunt --minutes x
hunt --shard 3/2
report
report none-such
report C0099 --db crux.db
report bad -o x --for none-such
report good -o x
triage --db none.db
triage --db text.onnx
triage none-such
triage why C0001 C0099 --db crux.db
triage mark C0001 none-such --db crux.db
triage traces none-such
bisect bad --versions x
bisect none-such
show none-such
diff good
diff good none-such
db check --db none.db
db check --db text.onnx
db export copy --db crux.db
db import none-such
patterns list --from none-such
patterns extract none-such
conformance --target none-such
watch --package none-such
wrap
replay none-such
replay good
"""


def usage() -> dict[str, Take]:
    return {
        "help": lambda room: dict(_helps(room, ())),
        "ordinary": lambda room: _exits(_furnished(room), ORDINARY),
        "wrong": lambda room: _exits(_furnished(room), WRONG),
    }


def _helps(room: Path, words: tuple[str, ...]) -> Iterator[tuple[str, Facts]]:
    """The help of a command and of all below it."""
    text = run(room, *words, "--help").stdout
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    yield " ".join(("crux", *words)), {"text": digest, "options": sorted(set(OPTION.findall(text)))}
    for command in COMMAND.findall(text) if "COMMAND [ARGS]" in text else ():
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
    facts: Facts = {}
    for line in table.strip().splitlines():
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
