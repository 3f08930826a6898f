"""The text of `issue.md`: a project's form, filled with what the draft knows."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from corpus.target import order_of
from oracles.numerics.compare import compare_outputs
from oracles.numerics.input_noise import outputs_like
from oracles.verdict import Outcome, Phase, Run, Verdict, WrongResult
from triage.cases.patterns import advice
from triage.claim import OPTIMISED, Expectation
from triage.environment import package_line
from triage.language import language_of
from triage.projects import runner_of
from triage.reports import limit_request, sentences
from triage.reports.checklist import Check, agrees, missing
from triage.reports.draft import Draft
from triage.reports.sentences import RunEvidence
from triage.repro.short import is_at_a_glance
from triage.store.artifacts import map_of
from triage.titles import in_short, in_words, is_reference
from triage.views.listing import describe_values, legend, mermaid
from triage.views.rendering import as_code, render, scrub

MOST_PRINTED = 12
WARNED = re.compile(r"(?m)^(?:\S+:\d+: \w*Warning: .*\n(?: +.*\n)?|W\d{4} [\d:.]+ .*\n)")
"""Warnings of Python's and of torch's log: of the machine, not of the bug."""
MOST_NEAR = 8
"""Nodes of a program in which the first tensor that differs is near the cause. In a larger one it can be far
away, since no tensor within a fused kernel is compared."""
MOST_VALUES = 160
"""Characters of a result that a sentence may hold."""
SHOWN_FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16", "fma", "asimd", "sve")


def issue_text(draft: Draft, checks: Sequence[Check], extra: str) -> str:
    """The filled form; `extra` is what the project's own tool says of the environment."""
    names = {
        **_head(draft, checks),
        **_claimed(draft),
        **_program(draft),
        **_evidence(draft),
        "varies": list(_varies(draft)),
        "releases": _releases(draft),
        "advice": _advice(draft),
        **_steps(draft),
        "environment": dict(_environment_rows(draft)),
        "extra": extra,
        "found": draft.history.sentences(),
        "origin": origin_text(draft),
    }
    return render(draft.form.template, **names)


def _head(draft: Draft, checks: Sequence[Check]) -> dict[str, Any]:
    """The title with the checklist, whose form it is, under which labels it is filed, what it is known as."""
    may_be_reader = language_of(draft.case.format).has_model and draft.expectation.wrong != OPTIMISED
    labels = draft.form.labels(draft.expectation.failing, may_be_reader)
    labels = limit_request.request_labels(labels, draft.verdict)
    return {
        "form": draft.form,
        "title": draft.title,
        "checks": checks,
        "missing": missing(checks),
        "labels": [
            each for each in labels if draft.history.is_generated or each not in draft.form.of_fuzzers
        ],
        "known": draft.known,
    }


def _claimed(draft: Draft) -> dict[str, Any]:
    """What happened and what was expected, a sentence or two each."""
    expectation = draft.expectation
    package = package_line(draft.environment, draft.package)
    return {
        "happened": sentences.happened(expectation, package, _own_runs(draft))
        + sentences.after(draft.case, expectation),
        "expected": _expected(draft),
        "package": draft.package,
    }


def _own_runs(draft: Draft) -> list[Run]:
    """The runs of the target's own configurations."""
    return [run for run in draft.runs if not run.config.backend]


def _expected(draft: Draft) -> str:
    """What is expected, and what the reference does, said once."""
    witness, did = _witness(draft), _referee_did(draft)
    text = sentences.expected(draft.expectation, draft.verdict, draft.tolerance, witness)
    return f"{text.removesuffix(f': {witness.bears_out}.').rstrip('.')}.{did}" if did else text


def _referee_did(draft: Draft) -> str:
    """Describe the reference's result, or its exception, for a program that no configuration runs."""
    reference, expectation = draft.exhibit.reference, draft.expectation
    if reference is None or expectation.passing is not None or expectation.outcome is Outcome.MISMATCH:
        return ""
    return referee_did(reference, draft.exhibit.witness.referee)


def referee_did(reference: Run, referee: str) -> str:
    """The sentence about a reference's run; empty where it is long, or there is nothing to tell."""
    who = f"{referee[0].upper()}{referee[1:]}"
    if not reference.is_ok:
        return f" {who} raises {as_code(reference.error)}." if reference.error else ""
    values = ", ".join(f"{name} = {text}" for name, text in describe_values(reference.outputs).items())
    return f" {who} gives {as_code(values)}." if 0 < len(values) <= MOST_VALUES else ""


def _program(draft: Draft) -> dict[str, Any]:
    """The program as text in a language and as a picture; `sequence` are passes that it runs itself."""
    shown = draft.exhibit
    inputs = [f"{name} = {text}" for name, text in describe_values(draft.case.inputs).items()]
    return {
        "noun": shown.witness.noun,
        "is_onnx": language_of(draft.case.format).has_model,
        "listing": shown.listing,
        "language": shown.language,
        "inputs": "\n".join(inputs) or "(none)",
        "graph": mermaid(shown.drawn),
        "attached": list(shown.files),
        "sequence": draft.case.passes,
    }


def _evidence(draft: Draft) -> dict[str, Any]:
    """Each configuration's result, the values that differ and where they part; or the trace.

    `error` is what an exception says in full, whether or not the short script shows it as well.
    """
    expectation = draft.expectation
    rows = sentences.value_rows(expectation, draft.tolerance)
    is_of_values = expectation.outcome is Outcome.MISMATCH and expectation.passing is not None
    has_trace = not (rows or expectation.is_unstable or is_of_values)
    trace = sentences.short_trace(sentences.trace_text(expectation, rows)) if has_trace else ""
    return {
        "levels": [*_levels(draft), *_in_double(draft)],
        "rows": rows,
        "passing": in_short(expectation.passing.config) if expectation.passing else "",
        "failing": in_short(expectation.failing.config),
        "errors": _errors(draft.verdict),
        "divergence": _parting(draft.verdict.wrong) if draft.case.measure.nodes <= MOST_NEAR else "",
        "trace": trace,
        "error": trace,
        "notes": [limit_request.in_words(note) for note in draft.verdict.notes if is_apt(note, expectation)],
    }


def _steps(draft: Draft) -> dict[str, Any]:
    """The way to run the scripts, and their output; `short` is empty if only `whole` shows the bug."""
    return {
        "needs": ", ".join(runner_of(draft.judge.target.backend, draft.case.format).needs),
        "printed": scrub(draft.proof.text),
        "short": draft.short,
        "short_printed": short_output(scrub(draft.scripts.proven.printed)),
        "short_is_long": not is_at_a_glance(draft.short),
        "whole": "" if draft.short else draft.script,
    }


def _levels(draft: Draft) -> list[tuple[str, str]]:
    """A row for each configuration; none where the importer fails, which comes before all of them."""
    if draft.expectation.failing.phase is Phase.IMPORT:
        return []
    passing = draft.expectation.passing
    reference = (passing,) if passing is not None and is_reference(passing.config) else ()
    return sentences.level_rows((*reference, *draft.runs), draft.expectation, draft.tolerance)


def short_output(text: str) -> str:
    """The end of what a short script printed: from the exception on, without frames and warnings."""
    lines = WARNED.sub("", text).strip().splitlines() or ["(nothing: the process dies)"]
    shown = [line.rstrip() for line in lines[_raised_at(lines) :] if line.strip()]
    return "\n".join([*shown[:MOST_PRINTED], *(["..."] if len(shown) > MOST_PRINTED else [])])


def _raised_at(lines: Sequence[str]) -> int:
    """Find the line that names the exception, behind the last traceback of a file's own frames."""
    starts = [at for at, line in enumerate(lines) if line.startswith("Traceback (most recent call last)")]
    if not starts:
        return max(0, len(lines) - MOST_PRINTED)
    plain = (at for at in range(starts[-1] + 1, len(lines)) if lines[at] and not lines[at][0].isspace())
    return next(plain, 0)


def _advice(draft: Draft) -> str:
    """Say what to disable; nothing if every configuration fails, or the importer fails before any pass."""
    is_everywhere = all(_shows(draft, each) for each in _own_runs(draft))
    found = draft.expectation
    if found.failing.phase is Phase.IMPORT or found.broken_rule or found.is_baseline_wrong or is_everywhere:
        return ""
    passes = draft.judge.backend.passes
    return advice(draft.passes, passes.disabled_by if passes is not None else "")


def _witness(draft: Draft) -> RunEvidence:
    """Name the witness of the expected result: the reference if it bears that out, else float64."""
    reference, witness, found = draft.exhibit.reference, draft.exhibit.witness, draft.expectation
    right = found.right
    if reference is None or (reference.is_ok and (right is None or agrees(draft, reference, right))):
        return witness
    return replace(witness, referee="the same program in float64")


def is_apt(note: str, expectation: Expectation) -> bool:
    """Whether a remark on a verdict says something of this claim; distances are of floats."""
    passing = expectation.passing
    is_of_sides = passing is None or not is_reference(passing.config)  # they are the target's own
    return "float64" not in note or (expectation.compares_floats and is_of_sides)


def _errors(verdict: Verdict) -> str:
    """The map of errors of one output, with what its signs mean."""
    rows = map_of(verdict)
    return "\n".join([legend(rows), "", *rows]) if len(rows) > 1 else ""


def _parting(wrong: WrongResult | None) -> str:
    """Say where in the graph the two results part, if not at the output itself."""
    if wrong is None or wrong.first in ("", wrong.output):
        return ""
    maker = f", made by `{wrong.operator}`" if wrong.operator else ""
    text = f"The first tensor that differs, in the order of the graph, is {as_code(wrong.first)}{maker}."
    if wrong.times is not None and 1 < wrong.times < float("inf"):
        text += f" The wrong side is {wrong.times:,.3g} times further from {wrong.truth} than the other."
    return text


def origin_text(draft: Draft) -> str:
    """Whose the attached model is."""
    name = next(iter(draft.exhibit.files))
    if draft.history.is_generated:
        return (
            f"`{name}` was generated and reduced by `crux`; nobody else's work is in it, and it may be "
            "used freely, also as a test (CC0)."
        )
    cut = "what a reduction left of" if draft.history.reduction else "a copy of"
    return (
        f"`{name}` is {cut} a {draft.exhibit.witness.noun} that the reporter brought, "
        "without its documentation and metadata."
    )


def _in_double(draft: Draft) -> Iterator[tuple[str, str]]:
    """Say which of the two results float64 confirms; only values are compared."""
    found, passing = draft.in_double, draft.expectation.passing
    if found is None or passing is None or not draft.expectation.compares_floats or _is_wide(passing):
        return
    told = {in_short(run.config): _near(run, found, draft) for run in (passing, draft.expectation.failing)}
    words = [f"{'agrees with' if near else '**differs** from'} `{name}`" for name, near in told.items()]
    yield f"{in_short(passing.config)}, in float64", ", ".join(words)


def _is_wide(run: Run) -> bool:
    """Whether a run gives float64: the same again in float64 says nothing more."""
    arrays = [value for value in run.outputs.values() if isinstance(value, np.ndarray)]
    return bool(arrays) and all(value.dtype == np.float64 for value in arrays)


def _near(run: Run, wide: Run, draft: Draft) -> bool:
    """Whether a result is what float64 gives, to the tolerance."""
    return compare_outputs(outputs_like(wide, run), run.outputs, draft.tolerance) is None


def _varies(draft: Draft) -> Iterator[tuple[str, str, str]]:
    """List what was varied: under what the failure shows, and under what it does not."""
    ways = list(_shows_in(draft)) if not draft.expectation.is_by_chance else []
    if len({shows for _, shows in ways}) == 2 and not _levels(draft):
        yield ("configuration", *_both(ways))
    is_of_passes = not (draft.expectation.is_by_chance or draft.expectation.is_baseline_wrong)
    if draft.passes is not None and draft.passes.minimal and is_of_passes:
        cures = ", ".join(f"without `{name}`" for name in draft.passes.cures) or "-"
        yield "passes", " and ".join(f"`{name}`" for name in draft.passes.minimal), cures
    if tried := tried_releases(draft.history.bisection):
        yield ("release", *_both(tried))
    for what, variants in (("element type", draft.variations), ("size of the empty dim", draft.empty_dims)):
        found = [(f"`{each.name}`", each.shows) for each in variants if each.shows is not None]
        if len(found) > 1:
            yield (what, *_both(found))


def tried_releases(bisection: Mapping[str, Any]) -> list[tuple[str, bool]]:
    """The releases that bisection looked at, and whether what the first bad one shows is there."""
    tried = bisection.get("tried") or []
    first = bisection.get("first_bad")
    wanted = next((each["shows"] for each in tried if each["release"] == first), None)
    if not wanted:
        return []
    return [(str(each["release"]), each["shows"] == wanted) for each in tried]


def _both(found: Sequence[tuple[str, bool | None]]) -> tuple[str, str]:
    return _named(found, True), _named(found, False)


def _named(found: Sequence[tuple[str, bool | None]], wanted: bool) -> str:
    return ", ".join(name for name, shows in found if shows is wanted) or "-"


def _shows_in(draft: Draft) -> Iterator[tuple[str, bool]]:
    baseline, *others = draft.runs
    for run in (baseline, *others[1:], *others[:1]):
        if not run.config.backend:
            yield f"`{in_short(run.config)}`", _shows(draft, run)


def _shows(draft: Draft, run: Run) -> bool:
    expectation = draft.expectation
    if expectation.outcome is not Outcome.MISMATCH:
        return run.status is expectation.failing.status
    if not run.is_ok:
        return False
    if expectation.passing is None or expectation.is_baseline_wrong:
        return run.config == draft.runs[0].config
    return sentences.differs(run, expectation.passing, draft.tolerance)


def _releases(draft: Draft) -> list[tuple[str, str]]:
    """List what bisection found, and the releases on which it was seen."""
    found = draft.history.bisection
    names = {
        "last good release": "last_good",
        "first bad release": "first_bad",
        "last bad release": "last_bad",
        "first fixed release": "first_fixed",
    }
    rows = [(words, str(found[key])) for words, key in names.items() if found.get(key)]
    newest = draft.on_newest
    if newest is not None and newest.fixed:
        rows.append(("gone on", newest.fixed))
    showing = {each.release for each in newest.tried if each.shows} if newest is not None else set()
    seen = sorted({*draft.history.releases, draft.judge.release, *showing} - {""}, key=order_of)
    return [*rows, ("seen on", ", ".join(seen))]


def _environment_rows(draft: Draft) -> Iterator[tuple[str, str]]:
    found = draft.environment
    packages = found["packages"]
    project = draft.expectation.project
    own = next((name for name in project.own_packages if name in packages), draft.package)
    runner = runner_of(draft.judge.target.backend, draft.case.format)
    every = dict.fromkeys((*project.packages, *runner.needs))
    others = [f"{name} {packages[name]}" for name in every if name in packages and name != own]
    yield "package", package_line(found, draft.package) + " (Python API)"
    yield "version", packages.get(own, draft.judge.release)
    yield "other packages", ", ".join(others)
    yield "Python", found["python"]
    yield "system", found["system"]
    yield "C library", found["libc"]
    yield "architecture", found["architecture"]
    yield "processor", found["processor"]["model"]
    yield "instruction sets", " ".join(flag for flag in found["processor"]["flags"] if flag in SHOWN_FLAGS)
    providers = draft.expectation.failing.config.get("providers")
    yield "provider", ", ".join(providers) if isinstance(providers, tuple) else ""
    yield "device", "" if isinstance(providers, tuple) else found["device"].upper()
    yield "how it was run", in_words(draft.expectation.at_fault.config, project)
