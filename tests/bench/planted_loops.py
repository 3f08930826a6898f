"""TVM with wrong passes of our own over its loop IR, for measuring and testing the reducer.

A backend like any other: TVM's, whose table has ten passes more. Each rewrites one kind of expression
wrongly, or refuses it; one is wrong only after another one has run.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # a worker is started without it

from oracles.backends import tvm as real
from oracles.worker.tvm import passes as table
from oracles.worker.tvm.sequences import Pass

NAME = "planted_loops"
MARK = "planted.ready"
Rewrite = Callable[[list[Any]], Any]


def _refuse(item: list[Any]) -> Any:
    raise RuntimeError("Check failed: the expression has no rule")


WRONG: dict[str, tuple[str, Rewrite]] = {
    "ShiftsTooFar": ("shr", lambda item: ["shr", item[1], ["add", item[2], 1]]),
    "SwapsBranches": ("select", lambda item: ["select", item[1], item[3], item[2]]),
    "TakesTheLeast": ("max", lambda item: ["min", *item[1:]]),
    "OtherBase": ("exp2", lambda item: ["exp", *item[1:]]),
    "OrsExclusively": ("bitxor", lambda item: ["bitor", *item[1:]]),
    "DropsRemainder": ("floormod", lambda item: item[1]),
    "LosesTheSign": ("atan", lambda item: ["fabs", item]),
    "RoundsUp": ("floor", lambda item: ["ceil", *item[1:]]),
    "RefusesTangents": ("tanh", _refuse),
    "AfterAnother": ("cos", lambda item: ["sin", *item[1:]]),
    "RunsOver": ("for", lambda item: [*item[:4], ["add", item[4], 1], *item[5:]]),
}
"""By pass the kind of expression that it spoils, and what it makes of one."""

MARKING = "Prepares"
"""The pass without which `AfterAnother` does nothing."""
NAMES = tuple(f"tirx.{name}" for name in (*WRONG, MARKING))


def rewritten(item: Any, kind: str, rewrite: Rewrite) -> Any:
    """A document's part with every such expression rewritten."""
    if isinstance(item, dict):
        return {key: rewritten(each, kind, rewrite) for key, each in item.items()}
    if not isinstance(item, list):
        return item
    inside = [rewritten(each, kind, rewrite) for each in item]
    return rewrite(inside) if inside and inside[0] == kind else inside


def spoil(name: str, module: Any) -> Any:
    """What a wrong pass makes of a module."""
    from oracles.worker.tvm.tir.build import build_module
    from oracles.worker.tvm.tir.read import read_module

    document = read_module(module)
    for function in document["functions"].values():
        if name == MARKING:
            function["attrs"][MARK] = 1
        elif name != "AfterAnother" or MARK in function["attrs"]:
            kind, rewrite = WRONG[name]
            function["body"] = rewritten(function["body"], kind, rewrite)
    return build_module(document)


for each in NAMES:
    table.PASSES[each] = Pass(each, needs=frozenset(("primfuncs",)))
table.AT_WILL |= frozenset(NAMES)


def load() -> str:
    """Start TVM with the wrong passes among its own."""
    import tvm

    def made(name: str) -> Callable[[], Any]:
        def build() -> Any:
            def change(module: Any, context: Any) -> Any:
                return spoil(name, module)

            return tvm.transform.module_pass(change, opt_level=0, name=f"tirx.{name}")

        return build

    for name in (*WRONG, MARKING):
        setattr(tvm.tirx.transform, name, made(name))
    return real.load()


run, run_tir, run_relax = real.run, real.run_tir, real.run_relax
about = real.about
open_program, describe = real.open_program, real.describe


def backend() -> Any:
    """TVM's, from this file."""
    return replace(real.backend(), name=NAME, file=__file__)
