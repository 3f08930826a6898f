"""The oracles that only run when a target names them: `ort@oracles=perf`, or `--oracles perf`.

Each knows further ways to run a case that passes otherwise. What they give is compared with the un-optimised
run by the ordinary rules, unless the oracle judges its runs itself.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from corpus.case import Case
from corpus.errors import UserError
from corpus.target import Target
from corpus.values import Value
from oracles.abilities import language_of
from oracles.backends import backends, find_backend
from oracles.extras import comes_with_others, is_installed
from oracles.numerics.compare import compare
from oracles.probes.context import Context
from oracles.rules import Judging
from oracles.rules.wrong_results import mismatch
from oracles.verdict import Config, Outcome, Phase, Run, Symptom, Verdict

SETTING = "oracles"
"""The setting of a target that names them."""

GPU = "/dev/nvidiactl"
REPEATS = 3
"""How many times `determinism` and `perf` run a program."""
SLOWER = 2.0
LEAST_SECONDS = 0.02
"""What the optimised run must take longer by, in CPU seconds of its execution alone."""
WARM = ("warm", 1)
"""The setting by which a backend runs a program many times; its shortest execution counts."""
FACTOR, AGAINST = "slower", "against"
"""The settings of a target of which slowness alone is asked: how many times as long, and the interpreter with
the release that it is held against, where that is not its own un-optimised way."""
TICK = 2e-5
"""What it must take longer by then: a reduced program is short."""


@dataclass(frozen=True, slots=True)
class Asking:
    """The part of the target that an oracle may use: its configurations, the un-optimised one first.

    `describe` asks the framework for the types in a graph (`Judge.describe`).
    """

    target: Target
    configs: tuple[Config, ...]
    describe: Callable[[bytes, Mapping[str, Value]], Mapping[str, Any]] = lambda program, inputs: {}
    release_under: Callable[[str], str] = lambda python: ""

    @property
    def optimised(self) -> Config:
        """The first way that is not the baseline."""
        return self.configs[min(1, len(self.configs) - 1)]

    def optimised_with(self, setting: str, value: str | int) -> Config:
        """The optimised way with one more setting."""
        return replace(self.optimised, settings=(*self.optimised.settings, (setting, value)))


@dataclass(frozen=True, slots=True)
class VariantRun:
    """One more way to run a case: a configuration, and another program or inputs where it has them."""

    config: Config
    program: bytes | None = None
    inputs: Mapping[str, Value] | None = None


@dataclass(frozen=True)
class Asked:
    """An oracle to ask for: its name, further ways to run a case, and how it judges if the rules do not."""

    name: str
    ways: Callable[[Case, Asking], Iterator[VariantRun]]
    judge: Judging | None = None


def named(oracle: str, config: Config, what: str = "") -> Config:
    """The configuration as this oracle runs it."""
    label = f"{config.label}, {what}" if what else config.label
    return replace(config, label=label, asked_by=f"{oracle}: {what}" if what else oracle)


def asked_oracles() -> dict[str, Asked]:
    """Every oracle by its name."""
    return {oracle.name: oracle for oracle in ORACLES}


def find_asked(names: str) -> tuple[Asked, ...]:
    """Find the oracles of a list with commas; raises `UserError` for an unknown name."""
    known = asked_oracles()
    chosen = [name for name in names.split(",") if name]
    for name in chosen:
        if name not in known:
            raise UserError(f"oracle {name!r}: there is no such oracle; known are {', '.join(sorted(known))}")
    return tuple(known[name] for name in chosen)


def on_other_backends(case: Case, asking: Asking) -> Iterator[VariantRun]:
    """Yield the first way of every other backend that is installed; those of one framework count as one."""
    own = backends()[asking.target.backend]
    seen = {own.package}
    if own.baseline:
        seen.add(backends()[own.baseline].package)
    for name, backend in sorted(backends().items()):
        if backend.package not in seen and (
            is_installed(backend.package) or comes_with_others(backend.package)
        ):
            seen.add(backend.package)
            config = replace(backend.configs(Target(name))[0], backend=name)
            yield VariantRun(named("backends", replace(config, label=f"{name} {config.label}")))


def again(case: Case, asking: Asking) -> Iterator[VariantRun]:
    """The same several times over: memory is dirty from the second time on."""
    for time in range(REPEATS):
        yield VariantRun(named("determinism", asking.optimised, f"again ({time + 2})"))


def on_the_gpu(case: Case, asking: Asking) -> Iterator[VariantRun]:
    """Yield the optimised way on CUDA; none without a GPU, or for a backend that runs on the CPU only."""
    if asking.target.device != "cpu" or not os.path.exists(GPU):
        return
    try:
        configs = find_backend(asking.target.backend).configs(replace(asking.target, device="cuda"))
    except UserError:
        return
    yield VariantRun(named("devices", configs[min(1, len(configs) - 1)], "cuda"))


def rewritten(case: Case, asking: Asking) -> Iterator[VariantRun]:
    """The same function written otherwise, optimised; by all ways where the language says so."""
    for each in language_of(case.format).rewrites(case, asking.describe):
        configs = (asking.optimised, *asking.configs) if each.everywhere else (asking.optimised,)
        for config in dict.fromkeys(configs):
            yield VariantRun(named("metamorphic", config, each.what), each.program, each.inputs)


def with_checks_of_passes(case: Case, asking: Asking) -> Iterator[VariantRun]:
    """Yield the optimised way once more, with three checks around each pass of the case's own sequence.

    Passes of a TIR program may not change their input, break it, or fail on their own work: Tzer,
    section 3.4, and its bugs of immutable modules (section 5.5.3).
    """
    if case.passes and language_of(case.format).checks_passes:
        yield VariantRun(named("passes", asking.optimised_with("checks", True)))


def written_and_read(case: Case, asking: Asking) -> Iterator[VariantRun]:
    """Yield the optimised way by each form that the backend writes and reads, such as TVMScript and JSON."""
    for form in find_backend(asking.target.backend).written_as:
        yield VariantRun(named("round-trip", asking.optimised_with("via", form), f"via {form}"))


def with_types_compared(case: Case, asking: Asking) -> Iterator[VariantRun]:
    """Run the optimised way again with types compared after every pass, the case's own included."""
    if setting := find_backend(asking.target.backend).typed_by:
        yield VariantRun(named("types", asking.optimised_with(setting, True)))


def with_modules_checked(case: Case, asking: Asking) -> Iterator[VariantRun]:
    """Run the optimised way again with a check after every pass, so that the one that broke it is named."""
    if setting := find_backend(asking.target.backend).checked_by:
        yield VariantRun(named("well-formed", asking.optimised_with(setting, True)))


def by_reference(case: Case, asking: Asking) -> Iterator[VariantRun]:
    """Yield the program by the backend's referee, where it has one for such programs.

    What all of a compiler's ways agree on may still be wrong: they share the lowering of operators.
    """
    graphs = find_backend(asking.target.backend).graphs_of(case.format)
    referee = graphs.referee if graphs is not None else ""
    if referee and find_backend(referee).graphs_of(case.format) is not None:
        yield VariantRun(named("golden", Config(referee, backend=referee)))


def unlike_reference(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """A difference that rounding does not explain; each result in the element type of the run's own."""
    baseline, *others = runs
    for other in others:
        if other.is_ok and baseline.is_ok:
            outputs = {name: _typed(baseline.outputs.get(name), each) for name, each in other.outputs.items()}
            same = replace(other, outputs=outputs)
            verdict = mismatch(case, (baseline, same), context)
            return None if verdict is None else _titled(verdict, baseline, same, context)
    return None


def _titled(verdict: Verdict, baseline: Run, other: Run, context: Context) -> Verdict:
    """Rewrite the verdict's text so that the reference's value is the expected one."""
    name = verdict.wrong.output if verdict.wrong else ""
    expected, actual = other.outputs.get(name), baseline.outputs.get(name)
    if not isinstance(expected, np.ndarray) or not isinstance(actual, np.ndarray):
        return verdict
    difference = compare(name, expected, actual, context.tolerance)
    if difference is None:
        return verdict
    title = f"wrong {difference.kind} of {difference} ({baseline.config.label} against {other.config.label})"
    return replace(verdict, title=title)


def _typed(like: Value | None, value: Value) -> Value:
    """Floats in the type of the other result, which is the program's."""
    if not isinstance(like, np.ndarray) or not isinstance(value, np.ndarray):
        return value
    is_float = value.dtype == np.float64 and like.dtype.kind in "fV"
    with np.errstate(over="ignore"):
        return value.astype(like.dtype) if is_float else value


def timed(case: Case, asking: Asking) -> Iterator[VariantRun]:
    """Yield the un-optimised way and the optimised one in turn; none if the target has but one."""
    sides = _sides(asking)
    factor = asking.target.get(FACTOR)
    asked = (WARM, (FACTOR, factor)) if factor else (WARM,)
    for time in range(REPEATS if sides else 0):
        for side in sides:
            config = replace(side, settings=(*side.settings, *asked))
            yield VariantRun(named("perf", config, f"measured ({time + 1})"))


def _sides(asking: Asking) -> tuple[Config, ...]:
    """Choose the two configurations to compare: both are the target's own, or its own compiler's.

    Frameworks differ in speed for reasons of their own. If the baseline is another framework's, the target's
    own configuration with the least of LLVM takes its place. A target that only runs programs is compared
    with the backend that compiles for it. One that names another release is held against that.
    """
    if python := asking.target.get(AGAINST):
        label = f"{asking.optimised.label} of {asking.release_under(python)}"
        return (replace(asking.optimised_with("python", python), label=label), asking.optimised)
    own = tuple(config for config in asking.configs if not config.backend)
    compiler = find_backend(asking.target.backend).compiler
    if compiler and own:
        compiled = find_backend(compiler).configs(Target(compiler, asking.target.device))[1]
        return (own[-1], replace(compiled, backend=compiler))
    if own == asking.configs:
        return own[:2] if len(own) > 1 else ()
    plain = next((config for config in own[1:] if str(config.get("opt-level")) == "0"), None)
    return (plain, own[0]) if plain is not None else ()


def slower(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """A program that is clearly slower when optimised, by each side's least time: noise only adds to it."""
    if len(runs) < 3 or not all(run.is_ok for run in runs[1:]):
        return None
    plain, optimised = runs[1::2], runs[2::2]
    before, after = (min(run.execute_seconds for run in side) for side in (plain, optimised))
    factor = optimised[0].config.get(FACTOR)
    times, least = (float(str(factor)), TICK) if factor else (SLOWER, LEAST_SECONDS)
    if after < times * before or after < before + least:
        return None
    is_release = plain[0].config.get("python") is not None
    site = "another release" if is_release else ""
    symptom = Symptom(Outcome.PERF, Phase.EXECUTE, "slower", site, side="optimised")
    rival = f"than {plain[0].config.label.partition(',')[0]}" if is_release else "when optimised"
    title = f"slower {rival}: {_seconds(after)} of CPU time against {_seconds(before)}"
    return Verdict(Outcome.PERF, Phase.EXECUTE, title, symptom, (plain[0], optimised[0]))


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f} s" if seconds >= LEAST_SECONDS else f"{1e6 * seconds:.0f} µs"


ORACLES = (
    Asked("backends", on_other_backends),
    Asked("determinism", again),
    Asked("devices", on_the_gpu),
    Asked("golden", by_reference, unlike_reference),
    Asked("metamorphic", rewritten),
    Asked("passes", with_checks_of_passes),
    Asked("perf", timed, slower),
    Asked("round-trip", written_and_read),
    Asked("types", with_types_compared),
    Asked("well-formed", with_modules_checked),
)
