"""The words of `issue.md`: what happened, what was expected, and the evidence for it, from plain runs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from corpus.case import Case
from corpus.values import Tensor, Value
from oracles.numerics.compare import Tolerance, compare_outputs, differing, shown
from oracles.verdict import Outcome, Phase, Run, Status, Verdict
from triage.claim import ACCEPTED, UNOPTIMISED, Expectation, essence, signal_text
from triage.projects import Project
from triage.titles import in_short, in_words, pairs_of, while_doing
from triage.views.rendering import scrub

GUARDED = "With a page that may not be touched behind each block, and fresh memory filled with one byte:"
KEEPS_TO_MEMORY = (
    "It writes to its own memory only, and no result depends on memory that was never written. `repro.py` "
    "puts buffers between pages that nobody may touch, fills them with a byte, and looks at them afterwards."
)
FAR = ("nan", "inf")
"""Kinds of differences that no tolerance decides."""
MOST_ROWS = 8
MOST_LINES = 60


ORDINALS = {1: "second", 2: "third", 3: "fourth"}


def after(case: Case, expectation: Expectation) -> str:
    """Say which runs of what is compiled come before the one that counts; empty if none does."""
    sizes = [", ".join(f"{name}={size}" for name, size in run.items()) for run in case.earlier]
    if not sizes:
        return ""
    runs = f"{'a run' if len(sizes) == 1 else 'runs'} with {' and with '.join(f'`{each}`' for each in sizes)}"
    if expectation.outcome is not Outcome.MISMATCH:
        return f" What is compiled once makes {runs} before."
    place = ORDINALS.get(len(sizes), f"{len(sizes) + 1}th")
    return f" It fails in the {place} run of what is compiled once, after {runs}."


@dataclass(frozen=True)
class Row:
    """One row of the table of differing values."""

    output: str
    index: str
    passing: str
    failing: str


@dataclass(frozen=True)
class RunEvidence:
    """Who speaks for a program: what that is called, who finds it valid, whose run the reference is.

    `bears_out` is what says that a program should run of which only the target's run fails, `refuses` that
    one should not; if that is empty, the verdict's own words do.
    """

    noun: str
    checked_by: str
    referee: str
    bears_out: str
    refuses: str = ""


OF_ONNX = RunEvidence(
    "model",
    "ONNX's checker with strict shape inference",
    "ONNX's reference evaluator",
    "ONNX's reference evaluator runs the model",
    "ONNX's checker and its reference evaluator both reject the model",
)


def happened(expectation: Expectation, package: str, runs: Sequence[Run] = ()) -> str:
    """What the package does, and in which configuration; what a guarded run shows of memory.

    Of `runs` in every configuration each must end alike, if the failure is said to be in every one.
    """
    is_noted = expectation.memory and not expectation.misuse
    guarded = f" {GUARDED} {expectation.memory}." if is_noted else ""
    return _happened(expectation, package, runs) + guarded


def _happened(expectation: Expectation, package: str, runs: Sequence[Run]) -> str:
    run = expectation.failing
    if expectation.broken_rule:
        return f"With {package} {essence(run.message)}."
    if expectation.is_unstable:
        return f"With {package} two runs {in_words(run.config, expectation.project)} give different results."
    if expectation.outcome is Outcome.MISMATCH:
        return _happened_to_values(expectation, package)
    if expectation.outcome is Outcome.PERF:
        return f"{package} takes {expectation.slowness}, {in_words(run.config, expectation.project)}."
    what = {
        Outcome.CRASH: f"dies of {signal_text(run)}",
        Outcome.EXCEPTION: run.misuse or "raises an exception",
        Outcome.TIMEOUT: "does not end",
        Outcome.OUT_OF_MEMORY: "runs out of memory",
    }[expectation.outcome]
    project = expectation.project
    is_alike = all(_ends(each) == _ends(run) for each in runs)
    every = project.words.every if is_alike and not expectation.passing else ""
    return f"{package} {what} {while_doing(run, project)}, {every or in_words(run.config, project)}."


def _ends(run: Run) -> tuple[Status, Phase]:
    """How and where a run ends; what optimises cannot always be told from what loads."""
    return run.status, Phase.IMPORT if run.phase is Phase.OPTIMISE else run.phase


def _happened_to_values(expectation: Expectation, package: str) -> str:
    run = expectation.failing
    if expectation.kind == ACCEPTED:
        return f"{package} runs a program that is invalid: {expectation.contradiction}."
    if expectation.contradiction:
        return f"With {package} the un-optimised result is wrong: {expectation.contradiction}."
    differ = f"the results {in_words(run.config, expectation.project)} and {_other(expectation)} differ"
    if expectation.wrong == UNOPTIMISED:
        return f"With {package} the un-optimised result is wrong; {differ}."
    return f"With {package} {differ}."


def expected(
    expectation: Expectation, verdict: Verdict, tolerance: Tolerance, witness: RunEvidence = OF_ONNX
) -> str:
    """One or two sentences; says only what the runs or the reference bear out."""
    if expectation.broken_rule:
        return expectation.broken_rule
    if expectation.is_unstable:
        return "The same values in every run of the same model on the same inputs."
    if expectation.misuse:
        return KEEPS_TO_MEMORY
    if expectation.kind == ACCEPTED:
        return f"A refusal: {witness.refuses or expectation.contradiction}."
    if expectation.contradiction:
        inferred = "ONNX's shape inference and its reference evaluator both give it"
        return f"The {expectation.kind} that the operator's inputs fix: {inferred}."
    if expectation.outcome is Outcome.MISMATCH:
        return _expected_values(expectation, verdict, tolerance, witness.referee)
    what = "A result" if expectation.outcome is not Outcome.CRASH else "A result, or at least an exception"
    if expectation.passing:
        return f"{what}: {_other(expectation)} the same {witness.noun} runs."
    if expectation.outcome is Outcome.EXCEPTION:
        return f"{what}: {witness.bears_out}."
    return f"{what}: whatever the {witness.noun} is, the process should go on."


def _expected_values(expectation: Expectation, verdict: Verdict, tolerance: Tolerance, referee: str) -> str:
    what = {"shape": "shape", "dtype": "type"}.get(expectation.kind, "values")
    is_near = expectation.compares_floats and expectation.kind not in FAR
    within = f" (rtol={tolerance.rtol:g}, atol={tolerance.atol:g})" if is_near else ""
    right = expectation.right
    same_as = in_words(right.config, expectation.project) if right else "un-optimised"
    text = f"The same {what} as {same_as}{within}."
    is_presumed = verdict.wrong is not None and verdict.wrong.is_presumed
    if is_presumed or not expectation.wrong or expectation.passing is None:
        return text
    if "float64" in referee and not expectation.compares_floats:
        return text
    return f"{text} {referee[0].upper()}{referee[1:]} agrees."


def level_rows(runs: Sequence[Run], expectation: Expectation, tolerance: Tolerance) -> list[tuple[str, str]]:
    """List each optimisation level's result in order, compared with the un-optimised or the right one.

    The runs come as a backend orders its configurations: none, all, and those between.
    """
    if expectation.is_unstable or expectation.broken_rule:
        return []
    baseline, *others = runs
    ordered = [baseline, *others[1:], *others[:1]]
    right = expectation.failing if expectation.is_baseline_wrong else baseline
    base = next((run for run in ordered if run.config == right.config), baseline)
    return [(in_short(run.config), _level_text(run, base, tolerance, expectation.project)) for run in ordered]


def _level_text(run: Run, baseline: Run, tolerance: Tolerance, project: Project) -> str:
    if run.status is Status.CRASH:
        return f"dies of {signal_text(run)} {while_doing(run, project)}"
    if run.status is Status.EXCEPTION and run.misuse:
        return run.misuse
    if run.status is Status.EXCEPTION:
        return f"{run.error}: {essence(run.message)}"
    if not run.is_ok:
        return run.status.value
    if run is baseline or not baseline.is_ok:
        return "gives a result"
    difference = compare_outputs(baseline.outputs, run.outputs, tolerance)
    return f"**differs**: {difference}" if difference else f"the same as `{in_short(baseline.config)}`"


def differs(run: Run, other: Run, tolerance: Tolerance) -> bool:
    """Whether the results of two runs are not the same."""
    return compare_outputs(other.outputs, run.outputs, tolerance) is not None


def value_rows(expectation: Expectation, tolerance: Tolerance) -> list[Row]:
    """The first differing elements of a mismatch, over all outputs; of a stable one only."""
    if expectation.outcome is not Outcome.MISMATCH or expectation.passing is None or expectation.is_unstable:
        return []
    passing, failing = expectation.passing.outputs, expectation.failing.outputs
    rows = [
        row
        for name in passing
        for place, pair in enumerate(pairs_of(passing[name], failing.get(name)))
        for row in _rows_of(f"{name}#{place}" if isinstance(passing[name], list) else name, *pair, tolerance)
    ]
    return rows[:MOST_ROWS]


def _rows_of(name: str, passing: Value, failing: Value, tolerance: Tolerance) -> list[Row]:
    if not isinstance(passing, np.ndarray) or not isinstance(failing, np.ndarray):
        return []
    if passing.shape != failing.shape or passing.dtype != failing.dtype:
        return [Row(name, "all", _kind(passing), _kind(failing))]
    places = np.argwhere(differing(passing, failing, tolerance))[:MOST_ROWS]
    return [
        Row(name, _place(place), shown(passing[tuple(place)]), shown(failing[tuple(place)]))
        for place in places
    ]


def trace_text(expectation: Expectation, rows: Sequence[Row]) -> str:
    """The evidence in full: what the failing run wrote, its native frames, or the differing values."""
    run = expectation.failing
    parts = [f"{run.config.label}: {run.status.value} during {run.phase.value}"]
    if run.status is Status.CRASH:
        parts.append(f"signal: {signal_text(run)}")
    told = run.misuse or without_worker(scrub(run.trace or run.message)).strip()
    parts += [told] if told else []
    parts += [frames_text(run)] if run.frames else []
    passing, failing = expectation.passing_label, expectation.failing_label
    parts += [
        f"{row.output}{row.index}: {row.passing} at {passing}, {row.failing} at {failing}" for row in rows
    ]
    return "\n\n".join(parts) + "\n"


def without_worker(trace: str) -> str:
    """The trace without the Python frames of crux's worker; what that raised itself in its words alone."""
    trace = re.sub(r"(?s)Fatal Python error:.*?(?=\Z|\n\n(?!Stack|Extension|Current|Thread))", "", trace)
    trace = re.sub(r"(?m)^at \S+\+\S+[^\n]*\n?", "", trace)  # the frames follow with their places
    trace = re.sub(r"\n*Extension modules: [^\n]*", "", trace)
    trace = re.sub(r'(?m)^ *File "[^"\n]*/oracles/[^"\n]*", line [^\n]*\n(?:    [^\n]*\n)*', "", trace)
    return re.sub(r"(?m)^(?:Traceback \(most recent call last\):\n)?oracles(?:\.\w+)+: ", "", trace)


def frames_text(run: Run) -> str:
    """Native frames, a line each: library, offset, function if known."""
    lines = [
        f"#{place:<2} {frame.library}+{frame.offset:#x} {frame.function}".rstrip()
        for place, frame in enumerate(run.frames)
    ]
    return "\n".join(lines)


def short_trace(text: str) -> str:
    """The trace as the issue shows it; the whole stands in `trace.txt`."""
    lines = text.rstrip().splitlines()
    if len(lines) <= MOST_LINES:
        return "\n".join(lines)
    left_out = len(lines) - MOST_LINES
    return "\n".join([*lines[: MOST_LINES // 2], f"... {left_out} lines ...", *lines[-MOST_LINES // 2 :]])


def _other(expectation: Expectation) -> str:
    passing = expectation.passing
    return in_words(passing.config, expectation.project) if passing else "un-optimised"


def _kind(tensor: Tensor) -> str:
    return f"{tensor.dtype.name}{list(tensor.shape)}"


def _place(place: Tensor) -> str:
    return f"[{', '.join(str(int(each)) for each in place)}]"
