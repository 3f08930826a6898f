"""TVM with wrong rewrites of TIR programs, in a backend of its own.

One of `wrong_loops` or `wrong_memory` is the first pass of its default pipeline: the optimised configurations
name it, and the un-optimised baseline stays as it is. Or its table has the passes of `PASSES` more.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # a worker is started without it

from corpus.tir.tree import For, Function
from corpus.tir.values import Binary, Call, Const, Expr
from corpus.tir.walk import map_expressions, map_statements
from oracles.backends import tvm as real
from oracles.worker.tvm import passes as table
from oracles.worker.tvm.sequences import Pass

NAME = "planted"
WRONG = "wrong"
"""The setting that names the rewrite."""
MARK = "planted.ready"
MARKING = "Prepares"
"""The pass without which `AfterAnother` does nothing."""


def _instead(callee: str, change: Callable[[Call], Expr]) -> Callable[[Function], Function]:
    def changed(expr: Expr) -> Expr:
        return change(expr) if isinstance(expr, Call) and expr.callee == callee else expr

    return lambda function: replace(function, body=map_expressions(function.body, changed))


def _refuse(expr: Call) -> Expr:
    raise RuntimeError("Check failed: the expression has no rule")


def _run_over(function: Function) -> Function:
    def changed(stmt: Any) -> Any:
        return replace(stmt, extent=Binary("add", stmt.extent, Const(1))) if isinstance(stmt, For) else stmt

    return replace(function, body=map_statements(function.body, changed))


def _after_another(function: Function) -> Function:
    wrong = _instead("cos", lambda call: replace(call, callee="sin"))
    return wrong(function) if MARK in function.attrs else function


PASSES: dict[str, Callable[[Function], Function]] = {
    "OtherBase": _instead("exp2", lambda call: replace(call, callee="exp")),
    "RefusesTangents": _instead("tanh", _refuse),
    "RunsOver": _run_over,
    "AfterAnother": _after_another,
    MARKING: lambda function: replace(function, attrs={**function.attrs, MARK: 1}),
}
"""By pass what it makes of a function."""


def register() -> None:
    """Let the table of TVM's passes have these, too."""
    names = tuple(f"tirx.{name}" for name in PASSES)
    table.PASSES.update({name: Pass(name, needs=frozenset(("primfuncs",))) for name in names})
    table.AT_WILL |= frozenset(names)


def spoil(module: Any, name: str) -> Any:
    """The module after the wrong rewrite of that name."""
    from corpus.tir.program import from_json, to_json
    from oracles.worker.tvm.tir.build import build_module
    from oracles.worker.tvm.tir.read import read_module
    from tests.helpers.wrong_loops import WRONG, spoilt
    from tests.helpers.wrong_memory import MISUSES

    rewrite = {**WRONG, **MISUSES, **PASSES}[name]
    return build_module(to_json(spoilt(from_json(read_module(module)), rewrite)))


def load() -> str:
    """Start TVM; the rewrites are imported before the worker is shut in."""
    import tvm

    from tests.helpers import wrong_loops, wrong_memory  # noqa: F401

    def made(name: str) -> Callable[[], Any]:
        def change(module: Any, context: Any) -> Any:
            return spoil(module, name)

        return lambda: tvm.transform.module_pass(change, opt_level=0, name=f"tirx.{name}")

    register()
    for name in PASSES:
        setattr(tvm.tirx.transform, name, made(name))
    return real.load()


run, run_relax = real.run, real.run_relax
about, open_program, describe = real.about, real.open_program, real.describe


def run_tir(
    program: Any, inputs: dict[str, Any], settings: dict[str, Any], outputs: Any, enter: Callable[[str], None]
) -> dict[str, Any]:
    """Run as TVM does, but what its default pipeline is given has been rewritten."""
    from oracles.worker.tvm.tir import batch
    from oracles.worker.tvm.tir import run as tir

    lowered, name = tir.lowered, settings.get(WRONG, "")

    def wrongly(module: Any, target: Any, pipeline: str) -> Any:
        return lowered(spoil(module, name) if name else module, target, pipeline)

    tir.lowered = batch.lowered = wrongly
    try:
        return real.run_tir(program, inputs, settings, outputs, enter)
    finally:
        tir.lowered = batch.lowered = lowered


def backend(name: str = "") -> Any:
    """TVM's from this file, with that rewrite in its pipeline; without a name with the passes."""
    plain = real.backend()
    if not name:
        register()
        return replace(plain, name=NAME, file=__file__)

    def wrong(graphs: Any) -> Any:
        if graphs.configs is None or "tir" not in graphs.formats:
            return graphs

        def configs(target: Any) -> Any:
            baseline, *others = graphs.configs(target)
            return (baseline, *(replace(each, settings=(*each.settings, (WRONG, name))) for each in others))

        return replace(graphs, configs=configs)

    return replace(plain, name=NAME, file=__file__, graphs=tuple(map(wrong, plain.graphs)))
