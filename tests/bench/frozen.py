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
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.bench.frozen_calls import RECORD, Absent, Facts, NoAnswer, Take
from tests.bench.frozen_parts import DEAR, PARTS

MANY = 40  # a longer list is compared by counting


def main() -> int:
    asked = _arguments()
    parts = [part for part in PARTS if not asked.only or any(word.startswith(part) for word in asked.only)]
    differences = sum(_run_part(asked, part, PARTS[part]()) for part in parts)
    if asked.do == "compare":
        print(f"{differences} differences from the record")
    return int(differences > 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.frozen", description=__doc__)
    parser.add_argument("do", choices=["make", "compare"])
    parser.add_argument("--only", action="append", default=[], metavar="PART[/GROUP]", help=", ".join(PARTS))
    parser.add_argument("--all", action="store_true", help="the dear groups, too")
    return parser.parse_args()


def _is_wanted(asked: argparse.Namespace, part: str, group: str) -> bool:
    named = [word.rstrip("/") for word in asked.only]
    if f"{part}/{group}" in named:
        return True
    is_cheap = asked.all or f"{part}/{group}" not in DEAR
    return is_cheap and (not named or part in named)


def _run_part(asked: argparse.Namespace, part: str, groups: Mapping[str, Take]) -> int:
    spent = _cpu()
    gone = {key.split(" ")[0] for key in _read(part)} - groups.keys()
    differences = sum(_settle(asked.do, part, group, {}) for group in sorted(gone) if not asked.only)
    for group, take in groups.items():
        now = _take(f"{part}/{group}", take) if _is_wanted(asked, part, group) else None
        differences += 0 if now is None else _settle(asked.do, part, group, now)
    print(f"{part}: {_cpu() - spent:.0f} s of CPU", file=sys.stderr)
    return differences


def _settle(do: str, part: str, group: str, taken: Facts) -> int:
    """Compare or replace a group of the record; each when it is done, so that an end loses only one."""
    record, now = _read(part), {f"{group} {key}": fact for key, fact in taken.items()}
    old = {key: fact for key, fact in record.items() if key.split(" ")[0] == group}
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
