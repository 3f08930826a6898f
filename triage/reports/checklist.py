"""What must hold before a report says that it is ready: each a line at its top, whether it holds or not."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from corpus.target import is_before
from oracles.extras import installed_release
from oracles.numerics.compare import compare_outputs
from oracles.numerics.input_noise import outputs_like
from oracles.verdict import Mark, Outcome, Run
from triage.bugs.failures import History
from triage.environment import package_line
from triage.reports.draft import Draft
from triage.titles import is_reference, whose
from triage.views.rendering import private_words_in

IN_DOUBLE = " in float64"
"""Said of a referee only where floats are compared."""


@dataclass(frozen=True)
class Check:
    """One line of the checklist: what was verified, or was not; `is_needed` for the report to be ready."""

    holds: bool
    text: str
    is_needed: bool = True


def missing(checks: Iterable[Check]) -> list[str]:
    """List what keeps a report from being ready."""
    return [check.text for check in checks if check.is_needed and not check.holds]


def checks(draft: Draft, files: Mapping[str, bytes]) -> Iterator[Check]:
    """Yield every check of a report with these files."""
    proof = draft.proof
    yield Check(proof.holds, draft.scripts.proven.said)
    shown, who = draft.exhibit, draft.exhibit.witness
    same = shown.is_built(proof.model)
    if same is not None:
        yield Check(same, f"the {who.noun} that `repro.py` builds is `{next(iter(shown.files))}`")
    if elsewhere := draft.verdict.marks.get(Mark.ELSEWHERE):
        yield Check(False, f"the bug is {draft.project.name}'s ({elsewhere})")
    verb = "accepts" if shown.complaint is None else "does not accept"
    yield Check(shown.complaint is None, f"{who.checked_by} {verb} the {who.noun}")
    yield _reference(draft)
    yield _release(draft)
    yield from _looked_up(draft)
    yield from sizes(draft.history, who.noun)
    private = sorted({word for content in files.values() for word in private_words_in(content)})
    yield Check(not private, "no home folder, user name or host name is in any file")


def sizes(history: History, noun: str) -> Iterator[Check]:
    """How small the program is known to be; a search that was cut off says nothing of what it did not ask."""
    found = history.reduction
    if not history.is_minimal:
        why = (
            f" (the search was ended after {found.get('checks', 0)} checks)"
            if found
            else " (it was not reduced)"
        )
        yield Check(False, f"the {noun} is as small as it can be{why}", is_needed=False)
        return
    covers = found.get("minimal_covers", "")
    words = f" (1-minimal{': ' if covers else ''}{covers})"
    if found.get("minimal_in_full", not found.get("cut_short")):
        yield Check(True, f"no reduction step makes the {noun} smaller{words}", is_needed=False)
        return
    yield Check(True, f"no single node of the {noun} can go{words}", is_needed=False)
    rest = "every other reduction step was asked to its end, too (`crux reduce --thorough` does)"
    yield Check(False, rest, is_needed=False)


def _reference(draft: Draft) -> Check:
    """Check that the reference confirms the claim; if it lacks an operator, another run must."""
    reference, expectation, who = draft.exhibit.reference, draft.expectation, draft.exhibit.witness
    if reference is None or not reference.is_ok:
        return _without_reference(draft, reference)
    if expectation.outcome is not Outcome.MISMATCH or expectation.is_unstable or expectation.passing is None:
        return Check(True, f"{who.referee.removesuffix(IN_DOUBLE)} runs the {who.noun}")
    is_right = expectation.right is not None and agrees(draft, reference, expectation.right)
    against = not is_right and agrees(draft, reference, expectation.at_fault)
    text = "agrees with the expected result" if is_right else "does not decide which result is right"
    name = who.referee if expectation.compares_floats else who.referee.removesuffix(IN_DOUBLE)
    return Check(not against, f"{name} {text if not against else 'agrees with the *other* result'}")


def agrees(draft: Draft, reference: Run, run: Run) -> bool:
    """Whether a run of the case gives what the reference gives."""
    told = outputs_like(reference, run) if reference.config.get("double") else reference.outputs
    return compare_outputs(told, run.outputs, draft.tolerance) is None


def _without_reference(draft: Draft, reference: Run | None) -> Check:
    passing, who = draft.expectation.passing, draft.exhibit.witness
    if passing is not None and is_reference(passing.config):
        return Check(True, f"{whose(passing.config)}, gives the expected result")
    stands_in = "; the run that gives a result stands in for it" if passing is not None else ""
    if reference is None:
        text = f"there is no {who.referee.removeprefix('an ')} to ask{stands_in}"
        return Check(bool(stands_in), text, False)
    reason = reference.error or reference.status.value
    holds = bool(stands_in) or draft.expectation.outcome is Outcome.CRASH
    text = f"{who.referee} does not run the {who.noun} ({reason}){stands_in}"
    return Check(holds, text if holds else f"{who.referee} runs the {who.noun} (it ends with {reason})")


def _release(draft: Draft) -> Check:
    """Check that the newest release shows it; where nobody may look, the newest one installed."""
    if draft.on_newest is not None:
        return Check(draft.on_newest.shows, draft.on_newest.words)
    shown = package_line(draft.environment, draft.package)
    newest = installed_release(draft.package) or draft.judge.release
    if is_before(draft.judge.release, newest):
        return Check(False, f"the newest release installed ({newest}) was tried; this is {shown}")
    return Check(True, f"{shown}, the newest release installed, shows it")


def _looked_up(draft: Draft) -> Iterator[Check]:
    """Check that the bug is new: not among known issues, nor like another cluster."""
    known = draft.known
    found = f"it is `{known.id}` ({known.issue or 'see above'})" if known else "none matches"
    yield Check(True, f"known issues were looked up: {found}")
    if not draft.library.signatures:
        return
    similar = draft.library.similar(draft.signature, draft.history.cluster)
    named = ", ".join(f"{name} (distance {distance:.2f})" for name, distance in list(similar.items())[:4])
    yield Check(True, f"similar clusters were looked up: {f'see {named}' if named else 'there is none'}")
