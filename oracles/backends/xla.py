"""XLA on the CPU: StableHLO, and ONNX models lowered to jax; a part in the worker, and one in crux."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Callable  # noqa: UP035 (Python 3.8)

if TYPE_CHECKING:
    from corpus.target import Target
    from oracles.abilities import Backend
    from oracles.verdict import Config, Run

NAME = "xla"
PACKAGE = "jaxlib"
LIBRARIES = (("jaxlib/libjax_common.so", "xla"),)
DISABLED_BY = "`xla_disable_hlo_passes={}`"
LEVELS = ("3", "2", "1", "0")
"""XLA's levels for its backend: what LLVM does; HLO's passes run at each."""

FLUSHES = frozenset({"float32", "float64", "bfloat16"})
"""The types of which it takes subnormal numbers for 0 on the CPU."""

CHANGED = "crux: changed "

# In the worker


def load() -> str:
    """Import jax, which starts no thread as long as nothing is lowered; jaxlib's version."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    from importlib.metadata import version

    import jax

    jax.config.update("jax_enable_x64", True)
    from oracles.worker.xla import module, program  # noqa: F401

    return version(PACKAGE)


def run(
    program: Any, inputs: dict[str, Any], settings: dict[str, Any], outputs: Any, enter: Callable[[str], None]
) -> dict[str, Any]:
    """Lower, compile and run one ONNX model (bytes or a path) on the CPU; settings: those of `run_module`.

    `show=source` gives the module's text instead.
    """
    from oracles.worker.onnx import read_model
    from oracles.worker.xla.module import run_module
    from oracles.worker.xla.program import Lowered, bytecode

    lowered = Lowered(read_model(program), inputs)
    if settings.get("show") == "source":
        return lowered.source()
    results = run_module(bytecode(lowered.traced), lowered.arrays, settings, enter)
    found = dict(zip(lowered.names, results))  # noqa: B905 (Python 3.8)
    return found if outputs is None else {name: found[name] for name in outputs}


def run_stablehlo(
    program: Any, inputs: dict[str, Any], settings: dict[str, Any], outputs: Any, enter: Callable[[str], None]
) -> dict[str, Any]:
    """Compile and run one module of StableHLO; `show=source` gives its text.

    With `interpret` StableHLO's own interpreter runs it where it can, and where that does not take long;
    `double` computes in float64.
    """
    from jaxlib.mlir import ir

    from oracles.worker.stablehlo.build import prepared, source
    from oracles.worker.xla.interpreter import context, interpreted
    from oracles.worker.xla.module import run_module

    if settings.get("show") == "source":
        return source(ir, context(), program, inputs)
    text, values, results = prepared(ir, context(), program, inputs, settings, outputs)
    found = interpreted(text, values, results, enter) if settings.get("interpret") else None
    if found is None:
        found = run_module(text, values, settings, enter)
    return {name: array for (name, _), array in zip(results, found)}  # noqa: B905 (Python 3.8)


def open_program(name: str, content: str) -> dict[str, Any]:
    """A module's text (in base64) as data, or an `error` in words."""
    import base64

    from jaxlib.mlir import ir

    from oracles.worker.stablehlo.read import capture
    from oracles.worker.xla.interpreter import context

    return capture(ir, context(), base64.b64decode(content))


def describe(program: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """The types in a program of the format `stablehlo`, or an `error`."""
    from jaxlib.mlir import ir

    from oracles.worker.stablehlo import build
    from oracles.worker.xla.interpreter import context

    return build.describe(ir, context(), program)


def vocabulary() -> list[str]:
    """The operators of ONNX models that have a lowering, or a body that ONNX writes out."""
    from oracles.worker.xla.program import TABLE, WRITTEN_OUT

    return sorted({*TABLE, *WRITTEN_OUT})


# In crux


def configs(target: Target) -> tuple[Config, ...]:
    """XLA's own level, then its least; or one by `@opt=`."""
    from oracles.verdict import Config

    target.must_be_on(("cpu",), "crux runs XLA on the CPU only")
    chosen = target.get("opt") and target.chosen("opt", LEVELS)
    return tuple(
        Config(f"O{level}", (("level", int(level)),)) for level in ([chosen] if chosen else ["3", "0"])
    )


INTERPRETED = (("level", 0), ("interpret", 1))


def graph_configs(target: Target) -> tuple[Config, ...]:
    """StableHLO's own interpreter, then XLA's levels."""
    from oracles.verdict import Config

    return (Config("interpreter", INTERPRETED), *configs(target))


UNSUPPORTED = re.compile(
    r"has no lowering|no lowering for|takes no input of|UNIMPLEMENTED|[Nn]ot (yet )?implemented"
)
"""Our own words, and XLA's, for what there is not."""


def classify(run: Run) -> str:
    """Return `unsupported` for an operator or form without a lowering, and for what XLA says it lacks."""
    return "unsupported" if not run.is_ok and UNSUPPORTED.search(run.message) else ""


# Passes

NEEDED = re.compile(
    r"layout|dot-library|dynamic|flatten|copy|legaliz|decompos|expand|normaliz|convert|call-?graph|inline"
    r"|canonicalizer|size-setter|subbyte|wrapper|scatter|conv|sort|topk|pipeline|dce|rewrit|while|gather"
)
"""HLO passes that make what XLA's code generator takes: without them it fails in other ways."""


def fired(run: Run) -> tuple[str, ...]:
    """The HLO passes that changed the module, in order, by the modules that XLA wrote out."""
    return tuple(line.removeprefix(CHANGED) for line in run.log if line.startswith(CHANGED))


def suspects(run: Run) -> tuple[str, ...]:
    """Those of them that XLA's code generator can do without."""
    return tuple(name for name in fired(run) if not NEEDED.search(name))


def stages(config: Config) -> tuple[Config, ...]:
    """XLA's least level, if this one is above it."""
    from oracles.verdict import Config as Way

    return (Way("O0", (("level", 0),)),) if config.get("level") else ()


def backend() -> Backend:
    """Describe this backend."""
    from oracles.abilities import Backend, Graphs, Passes

    double = (*INTERPRETED, ("double", 1))
    return Backend(
        NAME,
        PACKAGE,
        __file__,
        configs,
        classify,
        baseline="ort",  # HLO's passes run at its least level, too
        reads_onnx=False,
        tells_operators=True,
        libraries=LIBRARIES,
        flushes=FLUSHES,
        passes=Passes(DISABLED_BY, fired, suspects, suspects, stages=stages),
        graphs=(Graphs(("stablehlo",), double=double, opens=("stablehlo",), configs=graph_configs),),
    )
