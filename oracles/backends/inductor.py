"""torch.compile: an ONNX graph lowered to a module, traced by dynamo and compiled by inductor for the CPU."""

from __future__ import annotations

import os
import re
import tempfile
from typing import TYPE_CHECKING, AbstractSet, Any, Callable, Iterable  # noqa: UP035 (Python 3.8)

if TYPE_CHECKING:
    from corpus.target import Target
    from oracles.abilities import Backend
    from oracles.verdict import Config, Run

NAME = "inductor"
PACKAGE = "torch"
LIBRARIES = (("torch/lib/libtorch_cpu.so", "at::native"),)
DISABLED_BY = "the hook of `torch._inductor.compiler_bisector` (a pattern: its `extra_check`) at `{}`"

# In the worker


HEADERS = "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS"
"""Set to 0 by a caller that compiles only a few programs: headers compiled ahead pay from four on."""
LATE = "amx"
"""Vectors that compilers in use may not know yet; any compiler knows the others."""


def load() -> str:
    """Import the framework (in the zygote) and compile one program: headers once, for all workers.

    For a few programs without such headers nothing is compiled ahead. What is compiled lies where no worker's
    crash takes it away; inductor asks for a place as it is imported, and would take one outside of the
    sandbox that crux's own environment names.
    """
    kept = os.path.join(os.getcwd(), "kept")
    os.makedirs(kept, exist_ok=True)
    tempfile.tempdir = kept
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = kept
    os.environ.setdefault("SYMPY_CACHE_SIZE", "100000")  # of 1,000 a program needs more: 8 % of its CPU time
    import torch
    import torch._dynamo
    import torch._inductor.compile_fx
    import torch._inductor.config

    import oracles.worker.lowered.batch  # noqa: F401 (here, so that no worker has to)

    tempfile.tempdir = None
    torch.set_num_threads(1)
    torch._inductor.config.fallback_random = True
    torch._inductor.config.fx_graph_cache = False
    if os.environ.get(HEADERS) == "0" and not has_late_vectors():
        torch._inductor.config.cpp.vec_isa_ok = True
        _compile_one("aot_eager_decomp_partition")
        torch._dynamo.reset()
    else:
        _warm_up()
    return str(torch.__version__)


def _warm_up() -> None:
    """Compile one program for the processor's widest vectors.

    Inductor tries seven kinds of vectors first, for up to two seconds each. That the compiler knows the
    widest shows in this program; where it does not, inductor tries them all.
    """
    import torch

    try:
        torch._inductor.config.cpp.vec_isa_ok = True
        _compile_one()
    except Exception:
        torch._dynamo.reset()
        torch._inductor.cpu_vec_isa.valid_vec_isa_list.cache_clear()
        torch._inductor.config.cpp.vec_isa_ok = None
        _compile_one()
    torch._dynamo.reset()


def has_late_vectors() -> bool:
    """Whether the processor has vectors that a compiler may not know."""
    try:
        with open("/proc/cpuinfo") as told:
            return LATE in told.read()
    except OSError:
        return True


def _compile_one(backend: str = "inductor") -> None:
    import torch

    with torch.no_grad():
        torch.compile(torch.relu, backend=backend)(torch.ones(2))


def run(
    program: Any, inputs: dict[str, Any], settings: dict[str, Any], outputs: Any, enter: Callable[[str], None]
) -> dict[str, Any]:
    """Lower one model (bytes or a path), compile and run it; setting: `backend` of `torch.compile`.

    `disabled_passes` are left out. `show=source` gives the module's text instead. With `batch` the program is
    many models, which are compiled together.
    """
    from oracles.worker.lowered.module import run_model
    from oracles.worker.torch.run import watched

    if settings.get("batch"):
        from oracles.worker.lowered.batch import run_batch

        return run_batch(program, inputs, settings, enter)
    with watched(settings):
        backend = settings.get("backend", "inductor")
        return run_model(program, inputs, settings, outputs, enter, backend)


def run_torch(
    program: Any, inputs: dict[str, Any], settings: dict[str, Any], outputs: Any, enter: Callable[[str], None]
) -> dict[str, Any]:
    """Compile and run one program of torch, by the settings of `run`."""
    from oracles.worker.torch.run import run_program, watched

    with watched(settings):
        return run_program(program, inputs, settings, outputs, enter)


def describe(program: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """The types in a program of the format `torch` on inputs of such dtypes and shapes, or an `error`."""
    from oracles.worker.torch import graph as torch_graph

    return torch_graph.describe(program.encode(), inputs)


def vocabulary() -> list[str]:
    """The operators of ONNX models that have a lowering, and all of torch's own."""
    from oracles.worker.lowered.module import TABLE
    from oracles.worker.onnx import DOMAIN

    return [*TABLE, f"{DOMAIN}.*"]


# In crux

WAYS = ("inductor", "aot_eager_decomp_partition", "aot_eager")


def configs(target: Target) -> tuple[Config, ...]:
    """Eager, then compiled by inductor (or `@backend=`), then without code generation, then only traced.

    On the GPU, too, eager on the CPU comes first: both devices must agree.
    """
    from oracles.verdict import Config

    target.must_be_on(("cpu", "cuda"), "torch runs on cpu and cuda")
    first = target.chosen("backend", WAYS)
    ways = ("eager", *WAYS[WAYS.index(first) :])
    if target.device == "cpu":
        return tuple(Config(way, (("backend", way),)) for way in ways)
    there = tuple(Config(f"{way} on cuda", (("backend", way), ("device", "cuda"))) for way in ways)
    return (Config("eager", (("backend", "eager"),)), *there)


def classify(run: Run) -> str:
    """Return `unsupported` if torch has no lowering or kernel for the program; empty for a compiled run."""
    from oracles.backends import torch

    if not run.is_ok and "Cannot find a working triton" in run.message:
        return "unavailable"
    found = torch.classify(run)
    return found if found == "unavailable" or run.config.get("backend") == "eager" else ""


# Passes

APPLIES = "crux: applies "
SETTINGS = tuple(
    f"config.{name}"
    for name in ("emulate_precision_casts", "layout_optimization", "comprehensive_padding", "max_fusion_size")
)
"""Parts of inductor that settings switch off; each is called after its setting."""

NEEDED = re.compile(r"decomposition\.|pre_grad_graph\.")
"""What inductor cannot do without: it has lowerings for what is left after decomposition only."""


def stages(config: Config) -> tuple[Config, ...]:
    """The backends of `torch.compile` that do a part of what this one does, the least first."""
    from dataclasses import replace

    way = str(config.get("backend"))
    earlier = WAYS[WAYS.index(way) + 1 :][::-1] if way in WAYS else ()
    return tuple(replace(config, label=name, settings=(("backend", name),)) for name in earlier)


def fired(run: Run) -> tuple[str, ...]:
    """List what was applied, as it first was: passes by subsystem and name, lowerings by operator."""
    return tuple(dict.fromkeys(line.removeprefix(APPLIES) for line in run.log if line.startswith(APPLIES)))


def suspects(run: Run) -> tuple[str, ...]:
    """All of it that can be left out, and the settings: no log tells what changed the graph."""
    return optimizers(run)


def optimizers(run: Run) -> tuple[str, ...]:
    """List what can be left out: decompositions without a later lowering, else everything but these."""
    if run.config.get("backend") != "inductor":
        return fired(run)
    return (*(name for name in fired(run) if not NEEDED.match(name)), *SETTINGS)


def likely(names: Iterable[str], operators: AbstractSet[str]) -> tuple[str, ...]:
    """The lowerings, the settings: most failures are theirs."""
    return tuple(name for name in names if name.startswith(("lowerings.", "config.")))


def backend() -> Backend:
    """Describe this backend."""
    from oracles.abilities import Backend, Graphs, Passes, Sequences
    from oracles.worker.torch.options import OPTIONS

    return Backend(
        NAME,
        PACKAGE,
        __file__,
        configs,
        classify,
        reads_onnx=False,
        keeps_tolerances=True,
        forks=True,
        batches=frozenset({"onnx"}),
        dialect="aten",
        written_as=("export",),
        tells_operators=True,
        programs=("g++", "clang++", "c++"),
        libraries=LIBRARIES,
        passes=Passes(DISABLED_BY, fired, suspects, optimizers, likely, stages=stages),
        sequences=Sequences.of_options(OPTIONS, of_blocks=True),
        graphs=(Graphs(("torch",), double=(("backend", "eager"), ("double", 1))),),
    )
