"""torch as it runs without a compiler: an ONNX graph lowered to a module, operator by operator."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Callable  # noqa: UP035 (Python 3.8)

if TYPE_CHECKING:
    from corpus.target import Target
    from oracles.abilities import Backend
    from oracles.verdict import Config, Run

NAME = "torch"
PACKAGE = "torch"
LIBRARIES = (("torch/lib/libtorch_cpu.so", "at::native"),)

# In the worker


def load() -> str:
    """Import the framework (in the zygote); its version."""
    import torch

    torch.set_num_threads(1)
    return str(torch.__version__)


def run(
    program: Any, inputs: dict[str, Any], settings: dict[str, Any], outputs: Any, enter: Callable[[str], None]
) -> dict[str, Any]:
    """Lower one model (bytes or a path) and run it; `show=source` gives its text instead.

    With `via=gradients` the outputs are inputs under which more of it is finite (`torch_finite`).
    """
    if settings.get("via") == "gradients":
        from oracles.worker.lowered.finite import search
        from oracles.worker.onnx import read_model

        enter("execute")
        return search(read_model(program), inputs, settings)
    from oracles.worker.lowered.module import run_model

    return run_model(program, inputs, settings, outputs, enter)


def run_torch(
    program: Any, inputs: dict[str, Any], settings: dict[str, Any], outputs: Any, enter: Callable[[str], None]
) -> dict[str, Any]:
    """Run one program of torch."""
    from oracles.worker.torch.run import run_program

    return run_program(program, inputs, settings, outputs, enter)


def open_program(name: str, content: str) -> dict[str, Any]:
    """A user's script or exported program as data, or an `error` in words."""
    from oracles.worker.limits import opened
    from oracles.worker.torch.capture import capture

    return opened(capture, name, content)


def describe(program: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """The types in a program of the format `torch` on inputs of such dtypes and shapes, or an `error`."""
    from oracles.worker.torch import graph as torch_graph

    return torch_graph.describe(program.encode(), inputs)


# In crux


def configs(target: Target) -> tuple[Config, ...]:
    """Eagerly on the CPU; and on the GPU, which must come to the same."""
    from oracles.verdict import Config

    target.must_be_on(("cpu", "cuda"), "torch runs on cpu and cuda")
    eager = Config("eager")
    return (eager,) if target.device == "cpu" else (eager, Config("eager on cuda", (("device", "cuda"),)))


REFUSED = re.compile(r"ZeroDivisionError|out of (range|bounds)|negative integer powers")
UNAVAILABLE = re.compile(
    r"not compiled with CUDA enabled|No CUDA GPUs are available|no NVIDIA driver|CUDA driver version is"
    r" insufficient"
)
UNSUPPORTED = re.compile(
    r"not implemented for|not supported|has no lowering|no lowering for|takes no |"
    r"device type tensor to numpy|tensors to be on the same device"
)


def classify(run: Run) -> str:
    """Return `unsupported` if torch has no lowering or kernel for the program."""
    if run.is_ok:
        return ""
    if UNAVAILABLE.search(run.message):
        return "unavailable"
    if run.error == "Unsupported" or UNSUPPORTED.search(run.message):
        return "unsupported"
    return "invalid-input" if REFUSED.search(run.message) else ""


def backend() -> Backend:
    """Describe this backend."""
    from oracles.abilities import Backend, Graphs

    return Backend(
        NAME,
        PACKAGE,
        __file__,
        configs,
        classify,
        baseline="ort",
        compiler="inductor",
        reads_onnx=False,
        keeps_tolerances=True,
        written_as=("export",),
        libraries=LIBRARIES,
        graphs=(Graphs(("torch",), double=(("backend", "eager"), ("double", 1)), opens=("torch",)),),
    )
