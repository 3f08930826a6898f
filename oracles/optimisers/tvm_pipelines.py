"""The ways in which TVM optimises a program: its pipelines and levels, and sequences of its passes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from corpus.errors import UserError
from corpus.target import Target
from oracles.abilities import Sequences
from oracles.language import language_of
from oracles.run import Config
from oracles.worker.tvm import passes as tvm_passes
from oracles.worker.tvm.options import OPTIONS, config_of, is_option

PIPELINES = ("default", "zero", "target")
EXECUTORS = ("bytecode", "compiled")
LEVELS = ("0", "1", "2", "3")


def configs(target: Target) -> tuple[Config, ...]:
    """The default compilation, then others with some settings changed.

    Settings: `@pipeline=default|zero|target`, `@opt-level=0…3` of LLVM, `@executor=bytecode|compiled`; if any
    of them is given, that configuration only. `@run=off` compiles only.
    """

    if target.device not in ("cpu", "cuda"):
        raise UserError(f"target {target}: tvm runs on cpu and cuda")
    chosen = (
        _choice(target, "pipeline", PIPELINES),
        _choice(target, "opt-level", LEVELS[::-1]),
        _choice(target, "executor", EXECUTORS),
    )
    ways = [chosen]
    if not any(target.get(key) for key in WAYS) and target.device == "cpu":
        ways += OTHER_WAYS
    return _written_out(target, ways)


OTHER_WAYS = (("zero", "0", "compiled"), ("target", "3", "bytecode"), ("default", "0", "compiled"))
GRAPH_WAYS = (("zero", "3", "bytecode"), ("default", "3", "compiled"), ("target", "3", "bytecode"))


LOOP_PIPELINES = ("default", "least")
LEAST_WAY = ("least", 0)
LOOP_WAYS = (("default", 3), LEAST_WAY, ("default", 0))
"""The ways of a module of PrimFuncs: `least` runs the case's own passes and lowers, and that alone."""


def configs_of_relax(target: Target) -> tuple[Config, ...]:
    """The configurations of a Relax module: without optimisers first, then with them.

    The first does only what any compilation must do, without LLVM's optimiser. The settings are those of
    `configs`.
    """
    own = configs(target)
    ways = own if any(target.get(key) for key in WAYS) else _written_out(target, list(GRAPH_WAYS))
    (baseline,) = _written_out(target, [("default", "0", "bytecode")])
    return (baseline, *(way for way in ways if way != baseline))


def configs_of_tir(target: Target) -> tuple[Config, ...]:
    """The configurations of a module of PrimFuncs, by the settings of `configs` but for an executor.

    The baseline lowers, no more, and without the case's own passes, which the judge leaves out there.
    """
    pipeline = _choice(target, "pipeline", LOOP_PIPELINES)
    level = int(_choice(target, "opt-level", LEVELS[::-1]))
    asked = any(target.get(key) for key in WAYS)
    baseline = _loop_way(target, *LEAST_WAY)
    ways = [_loop_way(target, *way) for way in (((pipeline, level),) if asked else LOOP_WAYS)]
    return (baseline, *(_apart(way, baseline) for way in ways))


def _apart(way: Config, baseline: Config) -> Config:
    """The way under a label of its own: by the baseline's settings it runs the case's passes first."""
    return replace(way, label=f"{way.label} with its passes") if way == baseline else way


def _loop_way(target: Target, pipeline: str, level: int) -> Config:
    device = (("device", target.device),) if target.device != "cpu" else ()
    only = (("run", "off"),) if _choice(target, "run", ("on", "off")) == "off" else ()
    return Config(f"{pipeline} -O{level}", (("pipeline", pipeline), ("opt-level", level), *device, *only))


WAYS = ("pipeline", "opt-level", "executor")


def _written_out(target: Target, ways: list[tuple[str, str, str]]) -> tuple[Config, ...]:
    """Each way as a configuration on the target's device."""
    return tuple(
        Config(
            f"{pipeline} -O{level} {executor}",
            (("pipeline", pipeline), ("opt-level", int(level)), ("executor", executor))
            + ((("device", target.device),) if target.device != "cpu" else ())
            + ((("run", "off"),) if _choice(target, "run", ("on", "off")) == "off" else ()),
        )
        for pipeline, level, executor in ways
    )


def _choice(target: Target, key: str, allowed: tuple[str, ...]) -> str:
    value = target.get(key, allowed[0])
    if value not in allowed:
        raise UserError(f"target {target}: @{key}= is one of {', '.join(allowed)}")
    return value


LOOP_PASSES = ("tirx.", "s_tir.")
"""How the names of passes over PrimFuncs begin, and of the options of their context."""

SEQUENCEABLE = tuple(name for name in tvm_passes.PASSES if name not in tvm_passes.UNDRAWN)


def code_of_least() -> tuple[str, ...]:
    """The expressions that make the passes of the pipeline `least`."""
    return tuple(f"tvm.{code}" for code in tvm_passes.LEAST)


def facts_of(format: str, program: bytes) -> frozenset[str]:
    """What holds of a program at the start: it has operators, where its language says nothing else."""
    facts = language_of(format).facts
    return tvm_passes.START if facts is None else facts(program)


def sequences_on_loops(facts: frozenset[str]) -> Sequences:
    """The sequences of passes for modules of PrimFuncs of which these facts hold."""
    all_of_them = sequences()
    names = tuple(name for name in all_of_them.names if name.startswith(LOOP_PASSES))
    fitting = partial(tvm_passes.repaired, facts=facts)
    return replace(all_of_them, names=names, seldom=tvm_passes.IDLE_ON_LOOPS, repaired=fitting)


def misplaced(names: Iterable[str], facts: frozenset[str] = tvm_passes.START) -> str:
    """Say why these passes cannot stand in this order; without a Relax function only passes of loops can."""
    names = tuple(names)
    others = [name for name in names if not name.startswith(LOOP_PASSES)]
    options = [name for name in names if is_option(name)]
    if options and "operators" in facts:
        return f"{options[0]} is an option for modules of PrimFuncs alone"
    if others and "operators" not in facts:
        return f"{others[0]} works on Relax functions, and there is none"
    return tvm_passes.misplaced(names, facts)


def code_of(names: Iterable[str]) -> tuple[str, ...]:
    """The expressions that make these passes; options among them are none."""
    return tuple(tvm_passes.PASSES[name].code for name in names if not is_option(name))


def options_of(names: Iterable[str]) -> dict[str, Any]:
    """The configuration of the pass context that the options among these make."""
    return config_of(names)


def sequences() -> Sequences:
    """What sequences of passes are made of, and which orders there are."""
    return Sequences(
        SEQUENCEABLE,
        (*tvm_passes.ASKED_ABOUT, *sorted(tvm_passes.UNDRAWN)),
        tvm_passes.SELDOM,
        facts_of,
        misplaced,
        tvm_passes.repaired,
        sequences_on_loops,
        OPTIONS,
    )
