"""What `judge-cases` says of the cases that it judged: annotations at their files, a table, the exit code.

usage: summarise.py OUT new|regressed|any

Reads verdicts.jsonl, replay.json and bugs.sarif below OUT. The table goes to GITHUB_STEP_SUMMARY, or to
summary.md below OUT.
"""

import json
import os
import sys
from pathlib import Path

FAILING = {"any": ("regressed", "new", "known"), "new": ("regressed", "new"), "regressed": ("regressed",)}


def read(path: Path) -> list[dict]:
    """The documents of a file of JSON lines or of one list; none where there is no file."""
    text = path.read_text(encoding="utf-8").strip() if path.is_file() else ""
    return json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines()]


def known_failures(sarif: Path) -> set[str]:
    """The failures whose bug is known or settled, by their ids."""
    runs = json.loads(sarif.read_text(encoding="utf-8"))["runs"] if sarif.is_file() else []
    found = [result for run in runs for result in run["results"] if result.get("suppressions")]
    return {result["properties"]["failure"] for result in found}


def state_of(verdict: dict, replays: dict[str, str], known: set[str]) -> str:
    """`regressed` differs from its record, `known` is as recorded or a known issue, `gone` fails no more."""
    status = replays.get(Path(verdict["case"]).name, "")
    if not verdict["bug"]:
        return "gone" if status == "differs" else "passes"
    if status == "differs":
        return "regressed"
    return "known" if status == "as expected" or verdict.get("id") in known else "new"


def annotation(verdict: dict, state: str, policy: str) -> str:
    """A command of GitHub's runner: a mark at the case's file."""
    level = "error" if state in FAILING[policy] else "notice"
    place = Path(verdict["case"])
    file = place / "case.json" if place.is_dir() else place
    text = verdict["title"].replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return f"::{level} file={str(file).replace(',', '%2C').replace(':', '%3A')},title=crux {state}::{text}"


def table(rows: list[tuple[str, dict]]) -> str:
    """The rows in Markdown, those that regressed first, and where the bundles are."""
    order = ("regressed", "new", "known", "gone", "passes")
    lines = ["## tensorcrux", "", "| case | state | verdict | what |", "|---|---|---|---|"]
    for state, verdict in sorted(rows, key=lambda row: order.index(row[0])):
        cells = (f"`{verdict['case']}`", state, verdict["outcome"], verdict["title"])
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    run = "/".join(os.environ.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY"))
    number = os.environ.get("GITHUB_RUN_ID")
    link = f"[Reports, scripts and the page of bugs]({run}/actions/runs/{number}#artifacts)" if number else ""
    return "\n".join([*lines, "", link, ""])


def main(out: Path, policy: str) -> int:
    """Write all of it; 1 where the policy says so."""
    replays = {each["case"]: each["status"] for each in read(out / "replay.json")}
    known = known_failures(out / "bugs.sarif")
    rows = [(state_of(each, replays, known), each) for each in read(out / "verdicts.jsonl")]
    for state, verdict in rows:
        if state in FAILING["any"]:
            print(annotation(verdict, state, policy))
    with open(os.environ.get("GITHUB_STEP_SUMMARY") or out / "summary.md", "a", encoding="utf-8") as summary:
        summary.write(table(rows))
    return int(any(state in FAILING[policy] for state, _ in rows))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
