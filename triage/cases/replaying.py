"""What a case shows elsewhere: of the regression corpus now, on several targets, and behind what stops it.

Behind a failure that stops a program lies what shows once its node is cut out and its value stands in for it.
"""

from collections.abc import Iterator, Mapping, Sequence
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
from oracles.verdict import HARMLESS, Mark, Outcome, Verdict
from reducer.language import open_nodes
from reducer.subject.base import NodeSubject
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
    return side.verdict.texts | {"target": str(side.target)}


MOST_STOPS = 20
"""Failures that are looked past, at most."""


@dataclass(frozen=True, slots=True)
class Stop:
    """A failure that stops a program, and its node; `alone` is that node by itself, if that fails, too."""

    node: str
    operator: str
    case: Case
    verdict: Verdict
    alone: Case | None

    @property
    def is_limit(self) -> bool:
        """Whether the compiler says itself that it does not do this."""
        return Mark.LIMIT in self.verdict.marks or self.verdict.outcome is Outcome.UNSUPPORTED


def stops_in(case: Case, judge: Judge, verdict: Verdict) -> Iterator[Stop | Verdict]:
    """Yield each failure in turn, the first with this verdict, and at last the verdict on what is left.

    Nothing comes for a program that is not made of nodes.
    """
    opened = open_nodes(case, judge)
    if opened is None:
        return
    subject, left = opened[0], tuple(range(len(opened[0].nodes)))
    for _ in range(MOST_STOPS):
        if not (verdict.is_bug or verdict.outcome is Outcome.UNSUPPORTED):
            break
        place = _culprit(subject, left, case, judge, verdict)
        node = subject.nodes[place]
        alone = _cut(subject, (place,), case)
        shows = alone is not None and _is_same(judge.verdict(alone), verdict)
        yield Stop(node.name or node.output[0], node.op_type, case, verdict, alone if shows else None)
        left, found = _without(subject, left, place, case)
        if found is None:
            return
        verdict = judge.verdict(found)
    yield verdict


def _is_same(one: Verdict, other: Verdict) -> bool:
    return one.outcome is other.outcome and (one.symptom == other.symptom or one.title == other.title)


def _cut(subject: NodeSubject, keep: Sequence[int], case: Case) -> Case | None:
    found = subject.keep_nodes(frozenset(keep)) if keep else None
    return None if found is None else found.case(case)


def _culprit(subject: NodeSubject, left: Sequence[int], case: Case, judge: Judge, verdict: Verdict) -> int:
    """The last node of the shortest beginning of the program that fails so."""
    fine, fails = 0, len(left)
    while fails - fine > 1:
        middle = (fine + fails) // 2
        begun = _cut(subject, left[:middle], case)
        if begun is not None and _is_same(judge.verdict(begun), verdict):
            fails = middle
        else:
            fine = middle
    return left[fails - 1]


def _without(
    subject: NodeSubject, left: Sequence[int], place: int, case: Case
) -> tuple[tuple[int, ...], Case | None]:
    """What is left without a node; without all that reads it, if nothing can stand in for its value."""
    rest = tuple(each for each in left if each != place)
    found = _cut(subject, rest, case)
    if found is not None:
        return rest, found
    gone = set(subject.nodes[place].output)
    kept: list[int] = []
    for each in rest:
        if gone.isdisjoint(subject.reads[each]):
            kept.append(each)
        else:
            gone |= set(subject.nodes[each].output)
    return tuple(kept), _cut(subject, kept, case)
