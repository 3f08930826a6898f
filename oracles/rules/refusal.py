"""Refusal: the un-optimised backend turned the case down, and it was right to."""

from corpus.case import Case
from corpus.errors import UserError
from oracles.naming.signature import symptom_of_run
from oracles.probes.context import Context
from oracles.text.normalise import parse_message
from oracles.verdict import Outcome, Run, Status, Verdict

ORDER = 40
WHOM = {
    Outcome.INVALID: "a matter for the exporter, or whoever made the model",
    Outcome.UNSUPPORTED: "a matter for the target, which lacks it",
}
"""Whom to ask about a refusal."""


def judge(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """Invalid or unsupported, if the un-optimised run is refused, or a mark by the pass that reads it.

    Raises `UserError` if a device is missing.
    """
    for run in runs:
        if run.status is Status.EXCEPTION and context.classify(run) == "unavailable":
            raise UserError(
                f"target {case.target}: {_first_line(run.message)}; choose another target or build"
            )
        if run.status is Status.EXCEPTION and context.classify(run) == "ill-marked":
            return _refused(Outcome.UNSUPPORTED, "its marks do not fit", run, runs, context)
    baseline = runs[0]
    if baseline.status is not Status.EXCEPTION:
        return None
    kind = context.classify(baseline)
    if kind == "unsupported":
        return _refused(Outcome.UNSUPPORTED, "not supported", baseline, runs, context)
    if kind == "invalid-input":
        return _refused(Outcome.INVALID, "the data are not allowed", baseline, runs, context)
    if context.complaint is not None:
        return _refused(
            Outcome.INVALID, f"the checker agrees: {_first_line(context.complaint)}", baseline, runs, context
        )
    return _unsupported_within(baseline, runs, context)


def _unsupported_within(baseline: Run, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """Unsupported, if the program with its functions written out is: the call is only refused first."""
    plain = context.written_out()
    inlined = context.rerun(plain[0])[0] if plain is not None else baseline
    if inlined is baseline or inlined.status is not Status.EXCEPTION:
        return None
    if context.classify(inlined) != "unsupported":
        return None
    why = f"not supported outside of its function either ({_first_line(inlined.message)})"
    return _refused(Outcome.UNSUPPORTED, why, baseline, runs, context)


def _refused(outcome: Outcome, why: str, run: Run, runs: tuple[Run, ...], context: Context) -> Verdict:
    symptom = symptom_of_run(outcome, run, context.names)
    # what was repaired on the way must not move the blame: the words are those of the model as it came
    plain = context.plain
    said = plain.message if plain is not None and plain.status is Status.EXCEPTION else run.message
    return Verdict(outcome, run.phase, f"{why}: {_first_line(said)} ({WHOM[outcome]})", symptom, runs)


def _first_line(text: str) -> str:
    """The first line of what is said, without the C++ function and file that say it."""
    return (parse_message(text.strip()).rest or text).strip().split("\n")[0][:200]
