"""Rules of results: of optimised against un-optimised runs, and against other ways to the same values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from corpus.case import Case
from corpus.values import Value
from oracles.abilities import language_of
from oracles.backends import find_backend
from oracles.naming import symptom_of_difference
from oracles.numerics.compare import Difference, compare, compare_outputs, in_parts, part_of
from oracles.numerics.mismatch_kind import finest_kind, left_open
from oracles.probes.context import EXACT_LEVELS, INTERPRETER, Context, Divergence, evidence
from oracles.probes.wrong_side import NEITHER, OPTIMISED, UN_OPTIMISED, Judgement, judge_sides
from oracles.rules import Rule
from oracles.verdict import Mark, Outcome, Phase, Run, Symptom, Verdict, WrongResult


def lossy(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """A pass where one of the case's own gives other results by design, such as mixed precision.

    Every run ends well, and its results are of the right shapes and dtypes.
    """
    sequences = find_backend(case.target.backend).sequences if case.target is not None else None
    own = sequences.lossy.intersection(case.passes) if sequences is not None else frozenset()
    if not own or not all(run.is_ok for run in runs):
        return None
    for run in runs[1:]:
        difference = compare_outputs(runs[0].outputs, run.outputs, context.screen)
        if difference is not None and difference.kind in ("shape", "dtype", "presence"):
            return None
    note = f"left open: {' and '.join(sorted(own))} gives other results by design"
    return Verdict(Outcome.PASS, Phase.COMPARE, "passes", runs=runs, notes=(note,))


def nondeterminism(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """The un-optimised program, run again on the same inputs, gives another result.

    Memory that a kernel never wrote shows like this. Asked only where the runs do not agree anyway: it takes
    several more of them.
    """
    baseline = runs[0]
    if not all(run.is_ok for run in runs) or context.is_random:
        return None
    for again in context.repeats:
        difference = compare_outputs(baseline.outputs, again.outputs, context.tolerance)
        if again.is_ok and difference is not None:
            if reason := context.left_open(difference.output):
                context.noise.notes.add(f"left open: {reason}")
                return None
            symptom = symptom_of_difference("nondeterministic", "un-optimised")
            title = f"another result on every run: {difference} ({baseline.config.label})"
            wrong = WrongResult(difference.output, "un-optimised", "nondeterministic", difference.magnitude)
            return Verdict(Outcome.MISMATCH, Phase.COMPARE, title, symptom, (baseline, again), wrong=wrong)
    return None


def mismatch(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """Optimised and un-optimised give different results, beyond what rounding explains.

    What noise does not explain counts where one side is clearly further from the truth in float64 than the
    other.
    """
    baseline = runs[0]
    if not baseline.is_ok:
        return None
    for run in runs[1:]:
        if run.is_ok and compare_outputs(baseline.outputs, run.outputs, context.screen) is not None:
            verdict = _weigh(run, runs, context)
            if verdict is not None:
                return verdict
    return None


def _weigh(run: Run, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    baseline = runs[0]
    steps = run.config.get("level") not in EXACT_LEVELS
    lefts, rights = in_parts(baseline.outputs, run.outputs)
    suspected = {
        name: value for name, value in lefts.items() if not _is_refuted(name, value, rights[name], context)
    }
    for difference in context.noise.beyond_noise(suspected, rights, context.screen, steps=steps):
        if reason := context.left_open(difference.output):
            context.noise.notes.add(f"left open: {reason}")
            continue
        judgement = _sides(baseline, run, context, difference)
        divergence = _parting(baseline, run, context, difference, judgement)
        reason = left_open(divergence.node, context.noise.recording.values) if divergence is not None else ""
        if divergence is not None and (baseline.config.backend or not judgement.truth):
            judgement = _sides_of_node(divergence, context) or judgement
        if reason:
            context.noise.notes.add(f"left open: {reason}")
        elif judgement.side == NEITHER:
            context.noise.notes.add(*_why_neither(difference, judgement))
        elif unknown := _unknown(difference, judgement, context):
            context.noise.notes.add(f"undecided: how {unknown} rounds is not known", Mark.UNDECIDED)
        elif judgement.side == UN_OPTIMISED and baseline.config.backend:
            context.notes.add(f"{baseline.config.label} is the wrong side: {difference}")
        else:
            return _mismatch(difference, judgement, run, runs)
    return None


def _is_refuted(name: str, expected: Value, actual: Value, context: Context) -> bool:
    """Whether a small difference is none by the un-optimised backend's own results in float64.

    That is one run, where noise takes ten: most small differences end here.
    """
    if compare(name, expected, actual, context.screen) is None:
        return True
    difference = compare(name, expected, actual, context.tolerance)
    if difference is not None or context.own_truth is None:
        return False
    small = compare(name, expected, actual, context.screen)
    assert small is not None
    judgement = judge_sides(replace(small, is_small=True), expected, actual, [context.own_truth])
    if judgement.side == NEITHER and judgement.truth:
        context.noise.notes.add("rounding")
        return True
    return False


def _why_neither(difference: Difference, judgement: Judgement) -> tuple[str, Mark | None]:
    """The note for a difference where neither side is to blame, and what it means."""
    if difference.unconfirmed is not None and difference.unconfirmed.any():
        return "nonfinite", Mark.NONFINITE
    if judgement.truth and difference.is_small:
        return "rounding", None
    if judgement.truth:
        return f"undecided: no side is clearly nearer to {judgement.truth}", Mark.UNDECIDED
    without = "undecided: noise explains nothing and no other implementation gives a value to compare"
    return without, Mark.UNDECIDED


def _parting(
    baseline: Run, run: Run, context: Context, difference: Difference, judgement: Judgement
) -> Divergence | None:
    """Find where the results first differ, if that can decide.

    It can if no truth decides, or an operator leaves its result open. If the baseline is another framework's,
    everything behind a node at which it is wrong is its fault.
    """
    if judgement.side == NEITHER or difference.kind in ("dtype", "presence"):
        return None
    is_open = context.has_open_operators
    decides = is_open or baseline.config.backend or not judgement.truth
    return context.divergence(run.config, difference.output) if decides else None


def _unknown(difference: Difference, judgement: Judgement, context: Context) -> str:
    """The operator whose unknown rounding may explain a difference that no truth decides."""
    is_decided = judgement.truth or difference.kind != "value"
    return "" if is_decided else context.noise.unknown_before(difference.output)


def _sides_of_node(divergence: Divergence, context: Context) -> Judgement | None:
    """Find the wrong side by running this node alone; None if that does not decide."""
    difference = compare(divergence.name, divergence.expected, divergence.actual, context.tolerance)
    if difference is None:
        return None
    found = judge_sides(difference, divergence.expected, divergence.actual, context.truths_of(divergence))
    return found if found.truth else None


def _mismatch(difference: Difference, judgement: Judgement, run: Run, runs: tuple[Run, ...]) -> Verdict:
    symptom = symptom_of_difference(difference.kind, judgement.side, run.config.asked_by)
    title = f"wrong {difference.kind} of {difference} ({run.config.label} against {runs[0].config.label})"
    notes = (judgement.note,) if judgement.note else ()
    name = difference.output
    wrong = WrongResult(
        name,
        judgement.side,
        finest_kind(difference, part_of(runs[0].outputs, name), part_of(run.outputs, name)),
        difference.magnitude,
        judgement.truth,
        judgement.errors,
    )
    return Verdict(Outcome.MISMATCH, Phase.COMPARE, title, symptom, evidence(runs, run), notes, wrong)


def _sides(baseline: Run, run: Run, context: Context, difference: Difference) -> Judgement:
    """Who is wrong: of two shapes the one that was not inferred, otherwise as the truth has it."""
    expected, actual = (part_of(each.outputs, difference.output) for each in (baseline, run))
    if difference.kind == "shape" and isinstance(expected, np.ndarray) and isinstance(actual, np.ndarray):
        inferred = context.shape_of(difference.output)
        if inferred in (expected.shape, actual.shape):
            return Judgement(OPTIMISED if inferred == expected.shape else UN_OPTIMISED, "the inferred shape")
    return judge_sides(difference, expected, actual, context.truths_for(difference.output))


def has_functions(case: Case, runs: tuple[Run, ...]) -> bool | None:
    """Where there are functions: optimised and un-optimised runs handle them alike."""
    return language_of(case.format).has_functions(case) or None


def functions(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """A program that calls functions of its own gives other results than with them written out.

    HirFuzz's equivalent variants (§3.3): a function in another one, a wrapper that calls it or copies its
    results. Whatever the form, inlining may not change anything, so the un-optimised runs are compared.
    """
    baseline = runs[0]
    if not baseline.is_ok or baseline.config.backend:
        return None
    plain = context.written_out()
    if plain is None or context.is_random:
        return None
    job, noise = plain
    again = context.rerun(job)[0]
    if not again.is_ok or compare_outputs(again.outputs, baseline.outputs, context.tolerance) is None:
        return None
    found = noise.beyond_noise(again.outputs, baseline.outputs, context.tolerance)
    difference = next(iter(found), None)
    if difference is None:
        if Mark.UNDECIDED in noise.notes.marks:
            context.noise.notes.add(noise.notes.marks[Mark.UNDECIDED], Mark.UNDECIDED)
        return None
    symptom = Symptom(Outcome.MISMATCH, Phase.COMPARE, difference.kind, "functions", side=UN_OPTIMISED)
    told = f"with functions {difference}, not as inlined"
    truth = "the functions written out"
    wrong = WrongResult(difference.output, UN_OPTIMISED, difference.kind, truth=truth, contradiction=told)
    title = f"wrong {difference.kind} of {difference.output!r}: {told}"
    return Verdict(
        Outcome.MISMATCH, Phase.COMPARE, f"{title} ({baseline.config.label})", symptom, runs[:1], wrong=wrong
    )


def contradicts_interpreter(case: Case, runs: tuple[Run, ...]) -> bool | None:
    """Whether the un-optimised result contradicts the interpreter; no word where there is none."""
    if not runs[0].is_ok or not runs[0].outputs:
        return None
    return language_of(case.format).is_suspect(case, runs[0]) or None


def interpreted(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """Every way gives the same, and another thing than an interpreter of the program's language.

    Where the ways differ among themselves, the mismatch rule tells which is wrong by the same truth.
    """
    found = context.contradicted_by_interpreter(runs[0]) if runs[0].is_ok else None
    if found is None:
        return None
    difference, expected = found
    name = difference.output
    title = f"wrong {difference.kind} of {difference} ({runs[0].config.label} against {INTERPRETER})"
    wrong = WrongResult(
        name,
        UN_OPTIMISED,
        finest_kind(difference, expected, runs[0].outputs.get(name)),
        difference.magnitude,
        INTERPRETER,
    )
    symptom = symptom_of_difference(difference.kind, UN_OPTIMISED)
    return Verdict(Outcome.MISMATCH, Phase.COMPARE, title, symptom, runs[:1], wrong=wrong)


RULES = (
    Rule(52, lossy),
    Rule(55, nondeterminism),
    Rule(57, functions, has_functions, is_thorough=True),
    Rule(60, mismatch),
    Rule(65, interpreted, contradicts_interpreter),
)
