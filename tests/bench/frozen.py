"""What crux does, frozen: `python -m tests.bench.frozen make` writes it down, `compare` says what differs.

The record lies in `tests/bench/record`, a file for each part; `--only PART` or `--only PART/GROUP` takes
some of it. Nothing of ours is imported: all that is written down came through the command line, so that
modules may move and names change. `compare` prints a line for each difference, and exits with 1 when there
is one.

`CRUX_CASES_BENCH`, `CRUX_FAILURES_BENCH` and `CRUX_TRACES_BENCH` name folders of real cases, of labelled
failures and of labelled traces; without them those groups are left out, and their part of the record stays.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.bench.frozen_calls import RECORD, Absent, Facts, NoAnswer, Take
from tests.bench.frozen_parts import PARTS

MANY = 40  # a longer list is compared by counting


def main() -> int:
    asked = _arguments()
    differences = 0
    for part, groups in PARTS.items():
        wanted = {name: take for name, take in groups().items() if _is_wanted(asked.only, part, name)}
        if wanted:
            differences += _run_part(asked.do, part, wanted, bool(asked.only))
    if asked.do == "compare":
        print(f"{differences} differences from the record")
    return int(differences > 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.frozen", description=__doc__)
    parser.add_argument("do", choices=["make", "compare"])
    parser.add_argument("--only", action="append", default=[], metavar="PART[/GROUP]", help=", ".join(PARTS))
    return parser.parse_args()


def _is_wanted(only: list[str], part: str, group: str) -> bool:
    return not only or any(f"{part}/{group}/".startswith(f"{word.rstrip('/')}/") for word in only)


def _run_part(do: str, part: str, groups: Mapping[str, Take], some: bool) -> int:
    spent, differences = _cpu(), 0
    if not some:
        differences += _settle(do, part, lambda key: key.split(" ")[0] not in groups, {})
    for name, take in groups.items():
        now = _take(f"{part}/{name}", take)
        if now is not None:
            named = {f"{name} {key}": fact for key, fact in now.items()}
            differences += _settle(do, part, lambda key, name=name: key.split(" ")[0] == name, named)
    print(f"{part}: {_cpu() - spent:.0f} s of CPU", file=sys.stderr)
    return differences


def _settle(do: str, part: str, is_of: Callable[[str], bool], now: Facts) -> int:
    """Compare or replace those facts of the record; a group at a time: an end in the middle loses one."""
    record = _read(part)
    old = {key: fact for key, fact in record.items() if is_of(key)}
    if do == "make":
        _write(part, {key: fact for key, fact in record.items() if key not in old} | now)
        return 0
    lines = [f"{part}/{line}" for line in _differences(old, now)]
    print("".join(f"{line}\n" for line in lines), end="", flush=True)
    return len(lines)


def _take(name: str, take: Take) -> Facts | None:
    """The facts of a group, or None where it cannot be taken here."""
    spent = _cpu()
    try:
        with tempfile.TemporaryDirectory(prefix="frozen-") as room:
            facts = take(Path(room))
    except Absent as reason:
        print(f"skipped {name}: {reason}", file=sys.stderr)
        return None
    except NoAnswer as reason:
        print(f"{name}: {reason}", file=sys.stderr)
        return {"broke": True}
    print(f"{name}: {len(facts)} facts, {_cpu() - spent:.0f} s of CPU", file=sys.stderr)
    return facts


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _read(part: str) -> Facts:
    path = RECORD / f"{part}.json"
    return json.loads(path.read_text()) if path.is_file() else {}


def _write(part: str, facts: Facts) -> None:
    lines = (f"{json.dumps(key)}: {json.dumps(facts[key])}" for key in sorted(facts))
    RECORD.mkdir(exist_ok=True)
    (RECORD / f"{part}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _differences(old: Facts, now: Facts) -> Iterator[str]:
    for key in sorted(old.keys() | now.keys()):
        if key not in now or key not in old:
            yield f"{key}: only {'now' if key in now else 'in the record'}"
        elif old[key] != now[key]:
            yield f"{key}: {_change(old[key], now[key])}"


def _change(old: object, now: object) -> str:
    if isinstance(old, dict) and isinstance(now, dict):
        fields = sorted(field for field in old.keys() | now.keys() if old.get(field) != now.get(field))
        return "; ".join(f"{field} {_change(old.get(field), now.get(field))}" for field in fields)
    if isinstance(old, list) and isinstance(now, list):
        if max(len(old), len(now)) > MANY and len(old) == len(now):
            apart = [at for at, pair in enumerate(zip(old, now, strict=True)) if pair[0] != pair[1]]
            return f"{len(apart)} of {len(old)} differ, the first at {apart[0]}"
        gone, new = ([each for each in one if each not in other] for one, other in ((old, now), (now, old)))
        return f"without {gone[:MANY]}, with {new[:MANY]}"
    return f"{json.dumps(old)} → {json.dumps(now)}"


if __name__ == "__main__":
    sys.exit(main())
