"""Replaying the regression corpus: what a case shows now against what its release should show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from corpus.case import CASE_FILE, Case
from corpus.load import EXPECTED_FILE, Regression, Shown, load_regression
from corpus.outputs import own, put
from corpus.target import Target
from corpus.values import Value
from oracles.judge import Judge
from oracles.numerics.compare import Tolerance, compare_outputs
from oracles.optional import SETTING
from oracles.probes.record import backend_configs
from oracles.verdict import HARMLESS, Outcome, Verdict
from triage.cases.sources import Judges
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


SAYS_NOTHING = HARMLESS - {Outcome.PASS}
"""A target with such an outcome neither agrees nor disagrees with the others."""


@dataclass(frozen=True)
class Side:
    """One target's result for a case; `outputs` are its users' values, None if there are none."""

    target: Target
    verdict: Verdict
    outputs: Mapping[str, Value] | None

    @property
    def says(self) -> bool:
        """Whether it has anything to say: it runs the program, or fails in a way that is a bug."""
        return self.verdict.outcome not in SAYS_NOTHING


def side_of(case: Case, target: Target, judge: Judge) -> Side:
    """Judge the case on a target and run it as the target's users do."""
    held = replace(case, target=target)
    verdict = judge.verdict(held)
    (run,) = judge.runs(held, (backend_configs(target),))
    return Side(target, verdict, run.outputs if run.is_ok else None)


def compare_sides(case: Case, targets: Sequence[Target], judges: Judges) -> dict[str, Any]:
    """Judge a case on every target; the document is that of who stands alone, else of the first bug.

    A target stands alone if all others agree with each other and not with it. If each target by itself shows
    nothing, the one that stands alone is judged once more against the other backends, rounding accounted for.
    """
    sides = [side_of(case, target, judges.of(target, case.format)) for target in targets]
    lonely = alone([side for side in sides if side.says], judges.options.tolerances.plain)
    if lonely is not None and not lonely.verdict.is_bug:
        target = lonely.target.with_setting(SETTING, "backends")
        verdict = judges.of(target, case.format).verdict(replace(case, target=target))
        sides = [replace(each, verdict=verdict) if each is lonely else each for each in sides]
        lonely = replace(lonely, verdict=verdict) if verdict.is_bug else None
    shown = lonely or next((side for side in sides if side.verdict.is_bug), sides[0])
    return {
        **_facts(shown),
        "bug": shown.verdict.is_bug,
        "alone": str(lonely.target) if lonely is not None else "",
        "targets": [_facts(side) for side in sides],
        "notes": list(shown.verdict.notes),
    }


def alone(sides: Sequence[Side], tolerance: Tolerance) -> Side | None:
    """Find the one side that differs from all others, if these agree; two sides have no majority."""
    if len(sides) < 3:
        return None
    for lonely in sides:
        first, *others = (side for side in sides if side is not lonely)
        if all(_agree(first, other, tolerance) for other in others) and not _agree(lonely, first, tolerance):
            return lonely
    return None


def _agree(left: Side, right: Side, tolerance: Tolerance) -> bool:
    if left.outputs is None or right.outputs is None:
        return left.outputs is right.outputs
    return compare_outputs(left.outputs, right.outputs, tolerance) is None


def _facts(side: Side) -> dict[str, Any]:
    verdict = side.verdict
    return {
        "outcome": verdict.outcome.value,
        "phase": verdict.phase.value,
        "symptom": str(verdict.symptom or ""),
        "title": verdict.title,
        "target": str(side.target),
    }
