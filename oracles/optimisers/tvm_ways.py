"""The ways in which TVM optimises a program: its pipelines, LLVM's levels, its executors."""

from __future__ import annotations

from dataclasses import replace

from corpus.errors import UserError
from corpus.target import Target
from oracles.run import Config

PIPELINES = ("default", "zero", "target")
EXECUTORS = ("bytecode", "compiled")
LEVELS = ("0", "1", "2", "3")


def configs(target: Target) -> tuple[Config, ...]:
    """Return the default compilation, then others with some settings changed.

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
    """Return the way under a label of its own: by the baseline's settings it runs the case's passes first."""
    return replace(way, label=f"{way.label} with its passes") if way == baseline else way


def _loop_way(target: Target, pipeline: str, level: int) -> Config:
    device = (("device", target.device),) if target.device != "cpu" else ()
    only = (("run", "off"),) if _choice(target, "run", ("on", "off")) == "off" else ()
    return Config(f"{pipeline} -O{level}", (("pipeline", pipeline), ("opt-level", level), *device, *only))


WAYS = ("pipeline", "opt-level", "executor")


def _written_out(target: Target, ways: list[tuple[str, str, str]]) -> tuple[Config, ...]:
    """Return each way as a configuration on the target's device."""
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
