"""The short script of a report: some twenty lines that a maintainer reads at a glance.

It makes the model by `onnx.helper` (or is the framework's own code), runs the configurations in turn and
prints what each gives. Whether it shows the bug is told by how it ends and by what it prints.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from corpus.case import Case
from corpus.values import Value
from oracles.verdict import Outcome
from triage.claims.claim import Claim, Expectation
from triage.claims.words import in_short, is_reference
from triage.language import language_of, model_of
from triage.projects import Runner, runner_of
from triage.repro.helper_code import array_code, helper_code
from triage.repro.model_code import NotExpressible
from triage.repro.source import Source
from triage.views.rendering import template_of

MOST_LINES = 60
"""A longer script is not read at a glance."""
MOST_LINE = 200
TOLD = (Outcome.CRASH, Outcome.EXCEPTION, Outcome.MISMATCH)
"""The outcomes that such a script can show by itself."""


def short_script(case: Case, claim: Claim, source: Source | None) -> str:
    """Return the script; empty where the case cannot be shown in so few lines."""
    expectation = claim.expectation
    runner = runner_of(case.target.backend if case.target else "ort", case.format)
    is_told = expectation.outcome in TOLD and not expectation.is_unstable and not expectation.contradiction
    if not runner.short or not is_told or case.external:
        return ""
    try:
        text = _filled(case, runner, expectation, source)
    except NotExpressible:
        return ""
    text = re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"
    lines = text.splitlines()
    is_short = len(lines) <= MOST_LINES and max(map(len, lines)) <= MOST_LINE
    return text if is_short else ""


def _filled(case: Case, runner: Runner, expectation: Expectation, source: Source | None) -> str:
    passing = expectation.passing
    told = passing.outputs if passing is not None and is_reference(passing.config) else {}
    has_model = language_of(case.format).has_model
    is_of_other = passing is not None and bool(passing.config.backend)
    return template_of(runner.short).render(
        code=helper_code(model_of(case)) if has_model else "",
        inputs=_inputs(case) if has_model else "",
        source=source,
        baseline=is_of_other and expectation.outcome is Outcome.MISMATCH,
        expected=_value(next(iter(told.values()))) if len(told) == 1 else "",
        expected_by=in_short(passing.config) if passing is not None else "",
        **runner.settings(expectation.to_show(case.passes)),
    )


def _inputs(case: Case) -> str:
    """Return the dictionary of inputs that a session takes; one on a line where they are long."""
    given = {name: value for name, value in case.inputs.items() if value is not None}
    items = [f"{name!r}: {_value(value)}" for name, value in given.items()]
    line = f"{{{', '.join(items)}}}"
    return line if len(line) <= 90 else "{\n" + "".join(f"    {item},\n" for item in items) + "}"


def _value(value: Value) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(array_code, value))}]"
    if value is None:
        raise NotExpressible("an absent optional")
    return array_code(value)


def shows(claim: Claim) -> Callable[[int, str], bool]:
    """Return the test of a short script's exit code and text for the claim."""
    expectation = claim.expectation

    def is_shown(code: int, text: str) -> bool:
        if expectation.outcome is Outcome.CRASH:
            return code < 0 or code > 128
        if expectation.outcome is Outcome.EXCEPTION:
            wanted = expectation.fragment or expectation.failing.error
            return code == 1 and " ".join(wanted.split()) in " ".join(text.split())
        printed = printed_by(text, labels(expectation))
        passing = expectation.passing
        if passing is not None and is_reference(passing.config):  # whose values the script only holds
            failing = [" ".join(str(value).split()) for value in expectation.failing.outputs.values()]
            return code == 0 and printed[1:] == failing
        return code == 0 and len(printed) == 2 and len(set(printed)) == 2

    return is_shown


def labels(expectation: Expectation) -> tuple[str, ...]:
    """List the labels before each configuration's result in the script's output."""
    runs = (expectation.passing, expectation.failing)
    return tuple(in_short(run.config) for run in runs if run is not None)


def printed_by(text: str, names: Sequence[str]) -> list[str]:
    """List the text behind each of these labels, up to the next one."""
    marks = "|".join(re.escape(name) for name in names)
    pieces = re.split(rf"(?m)^(?:{marks}): ?", text)
    return [" ".join(piece.split()) for piece in pieces[1:]]
