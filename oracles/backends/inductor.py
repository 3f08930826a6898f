"""torch.compile: an ONNX graph lowered to a module, traced by dynamo and compiled by inductor for the CPU."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Callable  # noqa: UP035 (Python 3.8)

if TYPE_CHECKING:
    from corpus.target import Target
    from oracles.run import Config, Run

NAME = "inductor"
PACKAGE = "torch"
WRITTEN_AS = ("export",)
FORK_PER_TEST = True

# In the worker


def load() -> str:
    """Import the framework (in the zygote) and compile one program: headers once, for all workers."""
    import torch
    import torch._dynamo
    import torch._inductor.compile_fx
    import torch._inductor.config

    import oracles.in_worker.torch_graph
    import oracles.in_worker.torch_program  # noqa: F401 (here, so that no worker has to)

    torch.set_num_threads(1)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(os.getcwd(), "kept")
    torch._inductor.config.fallback_random = True
    torch._inductor.config.fx_graph_cache = False
    with torch.no_grad():
        torch.compile(torch.exp, backend="inductor")(torch.ones(1))
    torch._dynamo.reset()
    return str(torch.__version__)


def run(
    program: Any, inputs: dict[str, Any], settings: dict[str, Any], outputs: Any, enter: Callable[[str], None]
) -> dict[str, Any]:
    """Lower one model (bytes or a path), compile and run it; setting: `backend` of `torch.compile`.

    `show=source` gives the module's text instead.
    """
    import torch

    from oracles.in_worker.onnx_program import read_model
    from oracles.in_worker.torch_program import build, exported, from_torch

    if settings.get("format") == "torch":
        from oracles.in_worker.torch_graph import run_program

        return run_program(program, inputs, settings, outputs, enter)

    model = read_model(program)
    if settings.get("show") == "source":
        from oracles.in_worker.torch_source import source

        return source(model, inputs)
    backend = settings.get("backend", "inductor")
    if backend == "eager":
        enter("execute")
    with torch.no_grad():
        module, feeds = build(model, inputs, lenient=backend != "eager")
        if settings.get("via") == "export":
            module = exported(module, feeds)
        if backend != "eager":
            enter("codegen")
            torch._dynamo.reset()
            module = torch.compile(module, backend=backend, fullgraph=True, dynamic=False)
        values = module(*feeds)
    names = [value.name for value in model.graph.output]
    wanted = names if outputs is None else outputs
    return {name: from_torch(values[names.index(name)]) for name in wanted}


def describe(program: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """The types in a program of the format `torch` on inputs of such dtypes and shapes, or an `error`."""
    from oracles.in_worker import torch_graph

    return torch_graph.describe(program.encode(), inputs)


# In crux

FORMATS = ("torch",)
DOUBLE = (("backend", "eager"), ("double", 1))

WAYS = ("inductor", "aot_eager")


def configs(target: Target) -> tuple[Config, ...]:
    """Eager, then compiled by inductor (or `@backend=aot_eager`), then only traced and decomposed."""
    from corpus.errors import UserError
    from oracles.run import Config

    if target.device != "cpu":
        raise UserError(f"target {target}: ONNX graphs are lowered to torch for the CPU only")
    first = target.get("backend", WAYS[0])
    if first not in WAYS:
        raise UserError(f"target {target}: @backend= is one of {', '.join(WAYS)}")
    ways = ("eager", *WAYS[WAYS.index(first) :])
    return tuple(Config(way, (("backend", way),)) for way in ways)


REFUSED = re.compile(r"ZeroDivisionError|out of (range|bounds)|negative integer powers")
UNSUPPORTED = re.compile(r"not implemented for|not supported|has no lowering|no lowering for|takes no ")


def classify(run: Run) -> str:
    """What the table of lowerings or torch's kernels do not have; of a compiled run, nothing."""
    if run.is_ok or run.config.get("backend") != "eager":
        return ""
    if run.error == "Unsupported" or UNSUPPORTED.search(run.message):
        return "unsupported"
    return "invalid-input" if REFUSED.search(run.message) else ""
