"""`crux fuzz`: failing cases."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from triage.console.options import CaseOptions, command, next_command
from triage.console.output import Document, emit, in_columns, say
from triage.console.program_options import Bounds, Growth, Testing, own_tests, plan_of

if TYPE_CHECKING:
    from generators.mixture import Plan
    from triage.console.status import Progress
    from triage.store.failures import Failure

DEFAULT_MINUTES = 1.0
Tests = Annotated[int | None, typer.Option("--tests", metavar="N", help="Stop after N tests.", min=1)]
Minutes = Annotated[
    float | None, typer.Option("--minutes", metavar="M", help="Stop after so long. (default: 1)", min=0.01)
]


_show = in_columns({"id": "id", "cluster": "cluster", "outcome": "outcome", "what was seen": "title"})


@command(CaseOptions, unsaid=("inputs",))
def fuzz(
    options: CaseOptions,
    *,
    tests: Tests = None,
    minutes: Minutes = None,
    growth: Growth,
    bounds: Bounds,
    testing: Testing,
) -> int:
    """Generate programs and judge them; the failing ones are kept in the database.

    Most programs are valid; some have one violation each, which the target must refuse, or one dangerous
    value, which it must survive (--mode). --strategy says how they grow.

    Prints a JSON line for each failing case into a pipe, one summary with --json.

    Example: crux fuzz --tests 1000 --target ort
    """
    from triage.console.status import progress

    minutes = DEFAULT_MINUTES if tests is None and minutes is None else minutes
    summary: dict[str, Any] = {}
    with progress() as shown:
        plan = plan_of(growth, options.trust, bounds, testing.part)
        found = _failures(options, plan, tests, minutes, summary, shown, testing)
        told = found if options.json else emit(found, as_json=False, show=_show, lines_if_piped=True)
        failing = [document["id"] for document in told]
    _conclude(summary, failing, options)
    return 0


def _conclude(summary: Document, failing: list[str], options: CaseOptions) -> None:
    """Say how many tests there were and what of, and which command comes next."""
    if options.json:
        emit(iter([{**summary, "failing": failing}]), as_json=True, show=_show, single=True)
    else:
        say(_sentence(summary))
    say(f"next: {next_command('reduce --all' if failing else 'hunt', options)}")


def _failures(
    options: CaseOptions,
    plan: Plan,
    tests: int | None,
    minutes: float | None,
    summary: dict[str, Any],
    shown: Progress,
    testing: Testing,
) -> Iterator[Document]:
    """The documents of the failing cases as they come; fills in the summary at the end."""
    import time

    from triage.campaigns.target_campaigns import Fuzzer
    from triage.console.status import tally_text
    from triage.store.database import Store

    target = options.target_of(None)
    own = own_tests(plan, options.seed, tests) if tests else None
    start, clusters = time.monotonic(), set()
    native, cluster = testing.native_coverage, testing.cluster
    with (
        Store(options.database) as store,
        Fuzzer(store, options, target, "fuzz", plan, native=native, cluster=cluster) as fuzzer,
    ):
        for step in fuzzer.stretch(tests=own, seconds=60 * minutes if minutes else None):
            shown.status(tally_text(step.tally.tests, step.tally.failures, time.monotonic() - start))
            if step.failure:
                clusters.add(step.failure.cluster)
                if sys.stdout.isatty() or options.json:
                    shown.note(f"{step.failure.name}  {step.failure.title}")
                yield _document(step.failure, fuzzer.seed - 1)
        summary.update(summary_of(fuzzer, len(clusters), time.monotonic() - start))


OF_PATTERNS = ("patterns", "fired", "around", "triggering")
"""Patterns and those whose pass fires; the programs around them, and on how many one fires."""


def summary_of(fuzzer: Any, clusters: int, seconds: float) -> Document:
    """The counts of a fuzzing run as JSON shows them."""
    tally = fuzzer.tally
    return {
        "tests": tally.tests,
        "valid": tally.valid,
        "supported": tally.tests - tally.unsupported,
        "failures": tally.failures,
        "clusters": clusters,
        "seconds": round(seconds, 3),
        "tests_per_second": round(tally.tests / seconds, 1) if seconds else 0.0,
        **({name: getattr(tally, name) for name in OF_PATTERNS} if tally.patterns else {}),
        **({"native_blocks": fuzzer.native.blocks} if fuzzer.native else {}),
    }


def _document(failure: Failure, seed: int) -> Document:
    return {
        "id": failure.name,
        "case": failure.case_id,
        "seed": seed,
        "cluster": failure.cluster_name,
        "outcome": failure.outcome,
        "symptom": failure.symptom,
        "title": failure.title,
    }


def _sentence(summary: Document) -> str:
    patterns = ""
    if "patterns" in summary:
        share = summary["fired"] / summary["patterns"]
        graphs = summary["triggering"] / summary["around"]
        patterns = (
            f", {share:.1%} of {summary['patterns']:,} patterns make their pass fire, "
            f"{graphs:.1%} of {summary['around']:,} programs around them a pass"
        )
    return (
        f"{summary['tests']:,} tests in {summary['seconds']:.0f} s ({summary['tests_per_second']:.0f}/s), "
        f"{summary['supported'] / max(summary['tests'], 1):.1%} of what the target has, "
        f"{summary['failures']} failing, {summary['clusters']} clusters{patterns}"
    )
