"""Functions: a program that calls functions of its own gives other results than with them written out.

HirFuzz's equivalent variants (§3.3): a function in another one, a wrapper that calls it or copies its
results. Whatever the form, inlining may not change anything, so the un-optimised runs are compared.
"""

from corpus.case import Case
from oracles.abilities import language_of
from oracles.numerics.compare import compare_outputs
from oracles.probes.context import Context
from oracles.verdict import Mark, Outcome, Phase, Run, Symptom, Verdict, WrongResult

ORDER = 57
SIDE = "un-optimised"


def is_suspect(case: Case, runs: tuple[Run, ...]) -> bool | None:
    """Always, where there are functions: optimised and un-optimised runs handle them alike."""
    return language_of(case.format).has_functions(case) or None


def judge(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """Wrong values, if the program without its functions gives others."""
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
    symptom = Symptom(Outcome.MISMATCH, Phase.COMPARE, difference.kind, "functions", side=SIDE)
    told = f"with functions {difference}, not as inlined"
    truth = "the functions written out"
    wrong = WrongResult(difference.output, SIDE, difference.kind, truth=truth, contradiction=told)
    title = f"wrong {difference.kind} of {difference.output!r}: {told}"
    return Verdict(
        Outcome.MISMATCH, Phase.COMPARE, f"{title} ({baseline.config.label})", symptom, runs[:1], wrong=wrong
    )
