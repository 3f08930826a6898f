"""Minimal pass sets for the command line and for reports."""

from __future__ import annotations

from typing import Any

from corpus.errors import UserError
from reducer.pass_sets import PassSet, counted, find_pass_set
from triage.cases.sources import open_to_run
from triage.console.options import CaseOptions


def find_passes(word: str, options: CaseOptions) -> dict[str, Any] | None:
    """The JSON document of `crux passes`; None when the case shows no failure."""
    case = open_to_run(word, options)
    assert case.target is not None
    with options.judge(case.target, format=case.format) as judge:
        if judge.backend.passes is None:
            raise UserError(f"target {judge.target}: has no passes that can be disabled one by one")
        verdict = judge.verdict(case).must_be_of_a_program(case.origin or case.case_id[:12])
        found = find_pass_set(judge, case, verdict)
    if found is None:
        return None
    return {"case": word, **counted(found, 1).to_json(), "symptom": str(verdict.symptom)}


def advice(found: PassSet | None, disabled_by: str) -> str:
    """One sentence for an issue: what to disable for the failure to go away, or that nothing helps.

    `disabled_by` is how users of the backend disable the pass `{}`.
    """
    if found is None or not (found.minimal or found.beyond_passes):
        return ""
    if found.beyond_passes:
        return "Disabling every pass that can be disabled by name does not make it go away."
    if not found.cures:
        return f"It takes {_list(found.minimal)}, and no single pass's being disabled makes it go away."
    settings = " or ".join(disabled_by.format(name) for name in found.cures)
    text = f"Disabling only {_list(found.cures, 'or')} makes it go away: {settings}."
    others = [name for name in found.minimal if name not in found.cures]
    return f"{text} It takes {_list(others)}, or what does the same, as well." if others else text


def _list(names: tuple[str, ...] | list[str], word: str = "and") -> str:
    *most, last = [f"`{name}`" for name in names]
    return f"{', '.join(most)} {word} {last}" if most else last
