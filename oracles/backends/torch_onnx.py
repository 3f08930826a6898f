"""torch's ONNX exporters: a module as a model, which un-optimised onnxruntime runs, against eager torch.

The module is an ONNX graph lowered to torch, operator by operator, as the backend `torch` runs it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Callable  # noqa: UP035 (Python 3.8)

if TYPE_CHECKING:
    from corpus.target import Target
    from oracles.abilities import Backend
    from oracles.run import Config, Run

NAME = "torch-onnx"
PACKAGE = "torch"

# In the worker


def load() -> str:
    """Import both frameworks (in the zygote); torch's version."""
    import onnxruntime
    import torch

    torch.set_num_threads(1)
    onnxruntime.set_default_logger_severity(4)
    return str(torch.__version__)


def run(
    program: Any, inputs: dict[str, Any], settings: dict[str, Any], outputs: Any, enter: Callable[[str], None]
) -> dict[str, Any]:
    """Lower one model, export it by `exporter` (`dynamo` or `torchscript`), run the exported one."""
    import torch

    from oracles.in_worker.lowered.module import build
    from oracles.in_worker.onnx.program import read_model
    from oracles.in_worker.torch.exported import export, run_exported

    model = read_model(program)
    with torch.no_grad():
        module, feeds = build(model, inputs)
        enter("optimise")
        exported = export(module, feeds, settings["exporter"])
    enter("execute")
    values = run_exported(exported, feeds)
    names = [value.name for value in model.graph.output]
    wanted = names if outputs is None else outputs
    return {name: values[names.index(name)] for name in wanted}


def vocabulary() -> list[str]:
    """Return the operators of ONNX models that have a lowering."""
    from oracles.in_worker.lowered.table import TABLE

    return list(TABLE)


# In crux

EXPORTERS = ("torchscript", "dynamo")


def configs(target: Target) -> tuple[Config, ...]:
    """Return the exporter by tracing, then the one by `torch.export`; `@exporter=` chooses one."""
    from corpus.errors import UserError
    from oracles.run import Config

    if target.device != "cpu":
        raise UserError(f"target {target}: ONNX graphs are lowered to torch for the CPU only")
    chosen = target.get("exporter")
    if chosen and chosen not in EXPORTERS:
        raise UserError(f"target {target}: @exporter= is one of {', '.join(EXPORTERS)}")
    return tuple(Config(name, (("exporter", name),)) for name in EXPORTERS if chosen in ("", name))


UNSUPPORTED = re.compile(
    r"not implemented for|(is )?not (currently )?supported|has no lowering|takes no |No ONNX function found"
    r"|NOT_IMPLEMENTED|Could not find an implementation|Unsupported|unsupported"
    r"|Type '?tensor\(\w+\)'? of input parameter"
)
"""What neither the exporter nor onnxruntime has: an operator, or one with such element types."""


def classify(run: Run) -> str:
    """Return `unsupported` for a missing lowering, translation to ONNX, or kernel of the exported model."""
    if run.is_ok:
        return ""
    is_known = run.error in ("Unsupported", "UnsupportedOperatorError") or UNSUPPORTED.search(run.message)
    return "unsupported" if is_known else ""


def backend() -> Backend:
    """Describe this backend."""
    from oracles.abilities import Backend

    return Backend(
        NAME,
        PACKAGE,
        __file__,
        configs,
        classify,
        baseline="torch",
        reads_onnx=False,
        keeps_tolerances=True,
        forks=True,
        tells_operators=True,
    )
