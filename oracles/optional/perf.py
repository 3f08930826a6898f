"""Performance: the optimised program runs clearly longer than the un-optimised one, again and again."""

from collections.abc import Iterator
from dataclasses import replace

from corpus.case import Case
from corpus.target import Target
from oracles.backends import find_backend
from oracles.optional import Asking, VariantRun, named
from oracles.probes.context import Context
from oracles.verdict import Config, Outcome, Phase, Run, Symptom, Verdict

NAME = "perf"
TIMES = 3
FACTOR = 2.0
LEAST_SECONDS = 0.02
"""What the optimised run must take longer by, in CPU seconds of its execution alone."""


WARM = ("warm", 1)
"""The setting by which a backend that compiles at the first call makes that one before it is timed."""


def ways(case: Case, asking: Asking) -> Iterator[VariantRun]:
    """Yield the un-optimised way and the optimised one in turn; none if the target has but one."""
    sides = _sides(asking)
    for time in range(TIMES if sides else 0):
        for side in sides:
            config = replace(side, settings=(*side.settings, WARM))
            yield VariantRun(named(NAME, config, f"measured ({time + 1})"))


def _sides(asking: Asking) -> tuple[Config, ...]:
    """Choose the two configurations to compare: both are the target's own, or its own compiler's.

    Frameworks differ in speed for reasons of their own. If the baseline is another framework's, the target's
    own configuration with the least of LLVM takes its place. A target that only runs programs is compared
    with the backend that compiles for it.
    """
    own = tuple(config for config in asking.configs if not config.backend)
    compiler = find_backend(asking.target.backend).compiler
    if compiler and own:
        compiled = find_backend(compiler).configs(Target(compiler, asking.target.device))[1]
        return (own[-1], replace(compiled, backend=compiler))
    if own == asking.configs:
        return own[:2] if len(own) > 1 else ()
    plain = next((config for config in own[1:] if str(config.get("opt-level")) == "0"), None)
    return (plain, own[0]) if plain is not None else ()


def judge(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """The least time of each side counts: what disturbs a run only makes it longer."""
    if len(runs) < 3 or not all(run.is_ok for run in runs[1:]):
        return None
    plain, optimised = runs[1::2], runs[2::2]
    before, after = (min(run.execute_seconds for run in side) for side in (plain, optimised))
    if after < FACTOR * before or after < before + LEAST_SECONDS:
        return None
    symptom = Symptom(Outcome.PERF, Phase.EXECUTE, "slower", side="optimised")
    title = f"slower when optimised: {after:.3f} s of CPU time against {before:.3f} s"
    return Verdict(Outcome.PERF, Phase.EXECUTE, title, symptom, (plain[0], optimised[0]))
