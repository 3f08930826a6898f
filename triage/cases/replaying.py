"""Replaying the regression corpus: what a case shows now against what its release should show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

from corpus.case import CASE_FILE, Case
from corpus.outputs import own, put
from corpus.regression import EXPECTED_FILE, Regression, Shown, load_regression
from oracles.judge import Judge
from oracles.verdict import Outcome, Verdict
from triage.cases.judging import Judges
from triage.console.options import CaseOptions
from triage.console.output import Document, printable


def shown_by(verdict: Verdict) -> Shown:
    """Keep the part of a verdict that is the same wherever the bug shows; the signal may vary."""
    is_crash = verdict.outcome is Outcome.CRASH
    kind = "" if verdict.symptom is None or is_crash else verdict.symptom.kind
    return verdict.outcome.value, verdict.phase.value, kind


def replay_one(regression: Regression, judge: Judge) -> Document:
    """One case on the judge's target: `as expected`, `differs`, or `new` for a release not heard of."""
    verdict = judge.verdict(regression.case)
    expected, seen = regression.shown.get(judge.release), shown_by(verdict)
    status = "new" if expected is None else "as expected" if expected == seen else "differs"
    return {
        "case": regression.name,
        "title": regression.title,
        "target": str(judge.target),
        "release": judge.release,
        "status": status,
        "expected": _words(expected) if expected else "",
        "seen": _words(seen),
    }


def record_release(folder: Path, options: CaseOptions, judges: Judges) -> Document:
    """Add what the case shows now to its `expected.json`."""
    if (folder / EXPECTED_FILE).is_file():
        regression = load_regression(folder)
    else:
        case = Case.load(folder)
        regression = Regression(folder.name, "", replace(case, origin=""), "")
    judge = judges.of(options.target_of(regression.case.target), regression.case.format)
    verdict = judge.verdict(regression.case)
    recorded = replace(
        regression,
        title=regression.title or verdict.title,
        package=judge.backend.package,
        shown={**regression.shown, judge.release: shown_by(verdict)},
    )
    own(folder, [CASE_FILE], is_known=True)  # it was read as a case just now
    recorded.save(folder)
    return replay_one(recorded, judge)


def write_junit(path: Path, documents: Sequence[Document]) -> None:
    """One test a case, so that a CI system shows which bug came back or went."""
    failures = [document for document in documents if document["status"] == "differs"]
    suite = ElementTree.Element(
        "testsuite", name="crux replay", tests=str(len(documents)), failures=str(len(failures))
    )
    for document in ({key: printable(str(value)) for key, value in each.items()} for each in documents):
        test = ElementTree.SubElement(
            suite, "testcase", classname=f"replay.{document['target']}", name=document["case"]
        )
        if document["status"] == "differs":
            text = f"expected {document['expected']}, saw {document['seen']}"
            ElementTree.SubElement(test, "failure", message=text).text = document["title"]
        elif document["status"] == "new":
            ElementTree.SubElement(test, "skipped", message=f"nothing known of {document['release']}")
    ElementTree.indent(suite)
    put(path, ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True))


def _words(shown: Shown) -> str:
    return " ".join(part for part in shown if part) if shown[0] != "pass" else "pass"
