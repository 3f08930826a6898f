"""TVM with a pass of its own that makes programs slow: what `RemoveNoOp` leaves runs many times over.

A backend like any other, for tests of the oracle `perf`. Only code for LLVM's level 3 is spoilt, so that the
un-optimised side stays as it was; the functions of the tests may run twice without another result.
"""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))  # a worker is started without it

from oracles.worker.tvm import passes as table

NAME = "slowed_tvm"
ROUNDS = 20_000


def _real() -> ModuleType:
    """TVM's backend from its file: a worker has no package of backends."""
    path = Path(table.__file__).parents[2] / "backends" / "tvm.py"
    spec = importlib.util.spec_from_file_location("slowed_real_tvm", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


real = _real()


def load() -> str:
    """Start TVM with the slow pass in its pipelines."""
    import tvm
    from tvm import tirx

    def again(function: Any, module: Any, context: Any) -> Any:
        target, name = function.attrs["target"], str(function.attrs.get("global_symbol", ""))
        if int(target.attrs.get("opt-level", 0)) != 3 or "vmtir" in name:  # what calls all others
            return function
        loop = tirx.For(tirx.Var("again", "int32"), 0, ROUNDS, tirx.ForKind.SERIAL, function.body)
        return function.with_body(loop)

    plain = tirx.transform.RemoveNoOp

    def slow() -> Any:
        repeat = tirx.transform.prim_func_pass(again, opt_level=0, name="tirx.RunsAgain")
        return tvm.transform.Sequential([plain(), repeat])

    release: str = real.load()
    tirx.transform.RemoveNoOp = slow
    return release


run, run_tir, run_relax = real.run, real.run_tir, real.run_relax
about = real.about
open_program, describe = real.open_program, real.describe


def backend() -> Any:
    """TVM's, from this file."""
    return replace(real.backend(), name=NAME, file=__file__)
