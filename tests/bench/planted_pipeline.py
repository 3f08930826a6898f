"""TVM with one wrong rewrite of `wrong_loops` as the first pass of its default pipeline.

A backend like any other: TVM's, whose optimised configurations name the rewrite. The un-optimised baseline
stays as it is.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable  # noqa: UP035 (as the worker's own files)

sys.path.insert(0, str(Path(__file__).parents[2]))  # a worker is started without it

from oracles.backends import tvm as real

NAME = "planted_pipeline"
WRONG = "wrong"
"""The setting that names the rewrite."""
PLAIN, UNGUARDED = "", "unguarded"
"""In place of a rewrite: none, and none with workspaces as TVM takes them."""


def spoil(module: Any, name: str) -> Any:
    """The module after the wrong rewrite of that name."""
    from corpus.tir.program import from_json, to_json
    from oracles.worker.tvm.tir.build import build_module
    from oracles.worker.tvm.tir.read import read_module
    from tests.helpers.wrong_loops import WRONG, spoilt
    from tests.helpers.wrong_memory import MISUSES

    return build_module(to_json(spoilt(from_json(read_module(module)), {**WRONG, **MISUSES}[name])))


def load() -> str:
    """Start TVM; the rewrites are imported before the worker is shut in."""
    from tests.helpers import wrong_loops, wrong_memory  # noqa: F401

    return real.load()


run, run_relax = real.run, real.run_relax
about, open_program, describe = real.about, real.open_program, real.describe


def run_tir(
    program: Any, inputs: dict[str, Any], settings: dict[str, Any], outputs: Any, enter: Callable[[str], None]
) -> dict[str, Any]:
    """Run as TVM does, but what its default pipeline is given has been rewritten."""
    from oracles.worker.tvm.tir import batch
    from oracles.worker.tvm.tir import run as tir

    lowered, is_watched, name = tir.lowered, tir.is_watched, settings.get(WRONG, PLAIN)

    def wrongly(module: Any, target: Any, pipeline: str) -> Any:
        return lowered(module if name in (PLAIN, UNGUARDED) else spoil(module, name), target, pipeline)

    tir.lowered = batch.lowered = wrongly
    tir.is_watched = batch.is_watched = lambda each: name != UNGUARDED and is_watched(each)
    try:
        return real.run_tir(program, inputs, settings, outputs, enter)
    finally:
        tir.lowered = batch.lowered = lowered
        tir.is_watched = batch.is_watched = is_watched


def backend(name: str) -> Any:
    """TVM's with that rewrite, from this file."""
    plain = real.backend()

    def wrong(graphs: Any) -> Any:
        if graphs.configs is None or "tir" not in graphs.formats:
            return graphs

        def configs(target: Any) -> Any:
            baseline, *others = graphs.configs(target)
            return (baseline, *(replace(each, settings=(*each.settings, (WRONG, name))) for each in others))

        return replace(graphs, configs=configs)

    return replace(plain, name=NAME, file=__file__, graphs=tuple(map(wrong, plain.graphs)))
