"""`python -m tests.bench.realbugs.score OUT [--aside] [--bare] [--skip STEP] [ID…]` scores real bugs.

Each bug stands in its host and is checked, reduced, checked on the release that mended it, bisected and run
as a script, by the command line and on the release that had it. `OUT/score.json` and `OUT/score.md` hold
the table; what is there already is not done again. `--bare` leaves out the hosts.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from corpus.target import Range, Target, numbers
from oracles.naming import Signature
from tests.bench.realbugs.bug import Bug
from tests.bench.realbugs.bugs import ASIDE, BUGS
from tests.bench.realbugs.host import within_host
from tests.bench.realbugs.page import write_page
from tests.bench.realbugs.torch_host import TorchBug
from triage.bisection.environments import EnvironmentCache, cache_folder, starting
from triage.bisection.package_index import list_releases
from triage.cases.sources import open_one
from triage.clustering.similarity import MERGE, compare
from triage.console.options import CaseOptions
from triage.reductions.explained import name_reduced

CRUX = str(Path(sys.executable).with_name("crux"))
SECONDS = 1200
PEERS = "peers.json"
"""In a bug's folder: by tool what it left of the model."""
Row = dict[str, Any]


def main(arguments: Sequence[str]) -> None:
    """Fill the folder and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("ids", nargs="*")
    parser.add_argument("--aside", action="store_true")
    parser.add_argument("--bare", action="store_true")
    parser.add_argument("--skip", action="append", default=[])
    asked = parser.parse_intermixed_args(arguments)
    chosen = [bug for bug in BUGS if bug.id in asked.ids or (not asked.ids and (bug in ASIDE) == asked.aside)]
    chosen = [replace(bug, is_hosted=False) for bug in chosen] if asked.bare else chosen
    rows = [_scored(bug, asked.out / bug.id, asked.skip) for bug in chosen]
    rows = [{**row, "grouped": _is_grouped(row, rows)} for row in rows]
    lines = cells(rows, asked.out)
    text = table(lines)
    write_page(asked.out, chosen, rows, lines)
    (asked.out / "score.json").write_text(json.dumps(rows, indent=1))
    (asked.out / "score.md").write_text(text)
    print(text)


def _scored(bug: Bug, folder: Path, skipped: Sequence[str]) -> Row:
    kept = folder / "row.json"
    row: Row = json.loads(kept.read_text()) if kept.exists() else {"id": bug.id, "cause": bug.name_of_cause}
    steps = {
        "check": _check, "reduce": _reduce, "group": _group, "fixed": _fixed, "bisect": _bisect,
        "script": _script,
    }  # fmt: skip
    for name, step in steps.items():
        if name not in skipped and not any(each.startswith(f"{name}.") for each in row):
            facts = step(bug, folder, row)
            row.update({f"{name}.{key}": value for key, value in facts.items()})
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(row, indent=1))
    print(
        bug.id, {key: value for key, value in row.items() if isinstance(value, bool | int)}, file=sys.stderr
    )
    return row


@cache
def python_of(bug: Bug, release: str) -> str:
    """An interpreter with a release of the bug's package, made where there is none."""
    if not bug.package:
        return sys.executable
    offer = list_releases(bug.package, Range(release, release))
    made = EnvironmentCache(cache_folder(), bug.package, partial(starting, bug.target))
    with made.environment(release, offer.runnable[release]) as environment:
        return str(environment.python)


def _crux(*words: object) -> tuple[Row, float]:
    """What a command prints as JSON, and its CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [CRUX, *map(str, words), "--json", "--quiet", "--offline"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {"error": "timeout"}, float(SECONDS)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    line = done.stdout[done.stdout.find("{") :] or "{}"
    found: Row = json.loads(line) if line else {}
    return found or {"error": done.stderr[-300:]}, round(spent, 1)


def _on(bug: Bug, release: str) -> list[str]:
    oracles = ["--oracles", bug.oracles] if bug.oracles else []
    where = f"{bug.target}@python={python_of(bug, release)}" if bug.package else bug.target
    if bug.against:
        where, oracles = f"{where}@against={python_of(bug, bug.against)}", ["--symptom", "slow"]
    return ["--target", where, *oracles]


def _check(bug: Bug, folder: Path, row: Row) -> Row:
    if isinstance(bug, TorchBug):
        bug.write_script(folder)
    else:
        bug.write(folder, *(within_host(bug) if bug.is_hosted else (bug.build(), bug.inputs())))
    found, spent = _crux("check", *bug.opened(folder), *_on(bug, bug.release))
    said = (found.get("outcome", ""), found.get("phase", ""))
    seen = said[0] == bug.outcome and said[1].startswith(bug.phase)
    title = found.get("title", found.get("error", ""))
    return {"seen": seen, "said": " ".join(said), "title": title, "cpu": spent}


def _reduce(bug: Bug, folder: Path, row: Row) -> Row:
    if row.get("check.said", "").startswith(("pass", " ")):
        return {"nodes": None, "least": bug.least, "is_least": False}
    found, spent = _crux("reduce", *bug.opened(folder), "-o", folder / "least", *_on(bug, bug.release))
    nodes = found.get("nodes_after")
    facts = {"symptom": found.get("symptom", found.get("error", "")), "passes": found.get("passes", [])}
    sizes = {"nodes": nodes, "least": bug.least, "is_least": nodes is not None and nodes <= bug.least}
    costs = {"checks": found.get("checks", 0), "cpu": spent, "named": _named(bug, found)}
    return {**sizes, **costs, "signature": found.get("signature", ""), "ops": found.get("ops", []), **facts}


def _named(bug: Bug, found: Row) -> bool:
    """Whether the passes, the symptom or the one operator that is left name what the fix changed."""
    words = [*found.get("passes", []), *found.get("passes_cures", []), found.get("symptom", "")]
    if len(found.get("ops", [])) == 1:
        words += found["ops"]
    said = _letters(" ".join(map(str, words)))
    return any(_letters(each) in said for each in bug.culprits)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def _fixed(bug: Bug, folder: Path, row: Row) -> Row:
    if not bug.first_fixed or not (folder / "least").exists():
        return {"faithful": None}
    found, _ = _crux("check", folder / "least", *_on(bug, bug.first_fixed))
    return {"faithful": found.get("bug") is False, "fixed_says": found.get("title", "")}


def _bisect(bug: Bug, folder: Path, row: Row) -> Row:
    if not bug.package:
        return {"right": None}
    if not (folder / "least").exists():
        return {"right": False}
    asked = ["--package", bug.package, "--seen-on", bug.release]
    span = ["--versions", f"{bug.releases[0]}..{bug.releases[-1]}", *_on(bug, bug.release)[2:]]
    found, spent = _crux("bisect", folder / "least", *asked, *span)
    bad, fixed = found.get("first_bad") or "", found.get("first_fixed") or ""
    began = _is_between(bug.last_good, bad, bug.span[0])
    right = began and _is_between(bug.span[1], fixed, bug.first_fixed)
    return {"first_bad": bad, "first_fixed": fixed, "right": right, "cpu": spent}


def _is_between(before: str, release: str, last: str) -> bool:
    """Whether a release comes behind one and not behind another; "" is before, or behind, all."""
    if not release or not last:
        return release == last
    return (not before or numbers(before) < numbers(release)) and numbers(release) <= numbers(last)


def _script(bug: Bug, folder: Path, row: Row) -> Row:
    script = folder / "least" / "repro.py"
    if not script.exists():
        return {"runs": False}
    command = [python_of(bug, bug.release), str(script.absolute())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=folder)
    return {"runs": done.returncode == 1}


def _group(bug: Bug, folder: Path, row: Row) -> Row:
    """What names the reduced bug, as clustering compares it."""
    if not (folder / "least").exists():
        return {"components": []}
    case = open_one(str(folder / "least"), CaseOptions())
    where = case.target or Target(bug.target)
    with CaseOptions().judge(where, format=case.format) as judge:
        verdict = judge.verdict(case)
        found = name_reduced(case, verdict, tuple(row["reduce.passes"]), judge) if verdict.is_bug else None
    return {"version": found.version, "components": found.components} if found else {"components": []}


def _is_grouped(row: Row, rows: Iterable[Row]) -> bool | None:
    """Whether clustering takes a bug for one with all tellings of its cause, and with none of another."""
    told = [each for each in rows if each.get("group.components")]
    if row not in told:
        return None
    return all(_is_one(row, each) == (each["cause"] == row["cause"]) for each in told)


def _is_one(one: Row, other: Row) -> bool:
    compared = compare(_signature(one), _signature(other))
    return not compared.obstacle and compared.distance <= MERGE


def _signature(row: Row) -> Signature:
    components = tuple((str(name), str(text)) for name, text in row["group.components"])
    return Signature(row["group.version"], components, "")


COLUMNS = {
    "seen": "check.seen",
    "at least": "reduce.is_least",
    "culprit": "reduce.named",
    "faithful": "fixed.faithful",
    "grouped": "grouped",
    "releases": "bisect.right",
    "script": "script.runs",
}


def cells(rows: Sequence[Row], folder: Path) -> list[list[str]]:
    """The score as a table: its heads, one row a bug with what other tools left of it, and the shares."""
    peers = {str(row["id"]): _peers(folder / row["id"]) for row in rows}
    tools = list(dict.fromkeys(tool for told in peers.values() for tool in told))
    made = [["bug", *COLUMNS, "nodes", "checks", "CPU s", *tools]]
    for row in rows:
        marks = [{True: "yes", False: "NO", None: "–"}[row.get(key)] for key in COLUMNS.values()]
        left = row.get("reduce.nodes")
        nodes = "–" if left is None else f"{left} of {row['reduce.least']}"
        costs = [str(row.get(f"reduce.{key}", "")) for key in ("checks", "cpu")]
        made.append([row["id"], *marks, nodes, *costs, *(peers[row["id"]].get(tool, "–") for tool in tools)])
    shares = []
    for key in COLUMNS.values():
        known = [row[key] for row in rows if row.get(key) is not None]
        shares.append(f"{sum(known)} of {len(known)}")
    medians = [_median(rows, key) for key in ("reduce.checks", "reduce.cpu")]
    return [*made, ["all", *shares, "", *medians, *("" for _ in tools)]]


def _peers(folder: Path) -> dict[str, str]:
    path = folder / PEERS
    kept = json.loads(path.read_text()) if path.exists() else {}
    return {tool: told(each) for tool, each in kept.items()}


def told(left: Sequence[Any]) -> str:
    """What a tool left, in words: nodes, checks, CPU seconds, how it ended."""
    nodes, checks, seconds, end = left
    return f"{'no' if nodes is None else nodes} nodes, {checks} checks, {seconds:g} s {end}".rstrip()


def table(lines: Sequence[Sequence[str]]) -> str:
    """The cells as Markdown."""
    heads, *rows = (f"| {' | '.join(each)} |\n" for each in lines)
    return "".join([heads, f"|{'---|' * len(lines[0])}\n", *rows])


def _median(rows: Sequence[Row], key: str) -> str:
    values = [row[key] for row in rows if row.get(key)]
    return f"median {statistics.median(values):g}" if values else ""


if __name__ == "__main__":
    main(sys.argv[1:])
