"""The bugs of a database for other tools: SARIF 2.1.0, a rule a bug and a result a failure; code quality."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from corpus.outputs import put
from triage.bugs.known import KnownIssue
from triage.bugs.overview import is_filed, overview
from triage.language import list_case
from triage.store.database import Store

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
CLOSED = ("fixed", "wontfix", "invalid", "duplicate")


def write_sarif(
    store: Store, path: Path, issues: tuple[KnownIssue, ...], version: str, only: Collection[str] = ()
) -> int:
    """Write the log of these clusters, or all; how many there are."""
    bugs = [facts for facts in overview(store, issues) if not only or facts["id"] in only]
    results = [_result(store, bug, failure) for bug in bugs for failure in bug["failures"]]
    driver = {"name": "crux", "version": version, "rules": [_rule(bug) for bug in bugs]}
    run = {"tool": {"driver": driver}, "results": results, "columnKind": "unicodeCodePoints"}
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    put(path, json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    return len(bugs)


def write_code_quality(
    store: Store, path: Path, issues: tuple[KnownIssue, ...], only: Collection[str] = ()
) -> None:
    """Write the open ones as GitLab's code quality: an entry for each failure of a file."""
    found = [
        {
            "description": bug["title"],
            "check_name": bug["id"],
            "fingerprint": f"{failure['signature']}-{failure['case'][:12]}",
            "severity": "critical" if failure["outcome"] == "crash" else "major",
            "location": {"path": Path(origin).as_posix(), "lines": {"begin": 1}},
        }
        for bug in overview(store, issues)
        for failure in bug["failures"]
        for origin in failure["origins"][:1]
        if (not only or bug["id"] in only) and not (is_settled(bug) or origin.startswith("seed:"))
    ]
    put(path, json.dumps(found, indent=2, ensure_ascii=False) + "\n")


def is_settled(bug: Mapping[str, Any]) -> bool:
    """Whether nothing is to be done: decided, filed or known."""
    return bug["status"] in CLOSED or is_filed(bug)


def _rule(bug: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": bug["id"],
        "shortDescription": {"text": bug["title"]},
        "properties": {
            "status": bug["status"],
            "known": bug["known"],
            "issue": bug["issue"],
            "signatures": bug["signatures"],
            "failures": bug["count"],
            "related": sorted(bug["related"]),
        },
    }


def _result(store: Store, bug: Mapping[str, Any], failure: Mapping[str, Any]) -> dict[str, Any]:
    """A failure; its place is the program that it was seen in, with the smallest case's text."""
    text = list_case(store.load_case(failure["case"]))
    found: dict[str, Any] = {
        "ruleId": bug["id"],
        "level": "error",
        "message": {"text": f"{failure['outcome']}: {bug['title']}"},
        "fingerprints": {"cruxSignature/v1": failure["signature"]},
        "locations": [_location(origin, text) for origin in failure["origins"][:1]],
        "occurrenceCount": max(int(failure["seen"]), 1),
        "properties": {"failure": failure["id"], "case": failure["case"], "status": failure["status"]},
    }
    if is_settled(bug):
        why = bug["known"] or f"{bug['status']} {bug['note']}".strip()
        found["suppressions"] = [{"kind": "external", "justification": why}]
    return found


def _location(origin: str, text: str) -> dict[str, Any]:
    """A file where the case was one; else the seed that makes it, by name."""
    if origin.startswith("seed:"):
        return {"logicalLocations": [{"fullyQualifiedName": origin, "kind": "resource"}]}
    region = {"startLine": 1, "snippet": {"text": text}}
    return {
        "physicalLocation": {"artifactLocation": {"uri": quote(Path(origin).as_posix())}, "region": region}
    }
