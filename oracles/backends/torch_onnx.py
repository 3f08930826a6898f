"""torch's ONNX exporters: a module as a model, which un-optimised onnxruntime runs, against eager torch.

The module is an ONNX graph lowered to torch, operator by operator, or a program of torch.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Callable  # noqa: UP035 (Python 3.8)

if TYPE_CHECKING:
    from corpus.target import Target
    from oracles.abilities import Backend
    from oracles.verdict import Config, Run

NAME = "torch-onnx"
PACKAGE = "torch"
DISABLED_BY = "`{}=False` of `torch.onnx.export`"
EAGER = "eager"
EXPORTERS = ("dynamo", "torchscript")
"""The exporter that torch uses, then the older one, which it advises against."""

# In the worker


def load() -> str:
    """Import both frameworks (in the zygote); export one module, which imports the rest; torch's version."""
    import onnxruntime
    import torch

    from oracles.worker.torch.exported import export

    torch.set_num_threads(1)
    onnxruntime.set_default_logger_severity(4)
    for exporter in EXPORTERS:
        with torch.no_grad():
            export(torch.nn.ReLU(), [torch.ones(2)], exporter)
    return str(torch.__version__)


def run(
    program: Any, inputs: dict[str, Any], settings: dict[str, Any], outputs: Any, enter: Callable[[str], None]
) -> dict[str, Any]:
    """Run a module as it is, or export it by `exporter` (`dynamo` or `torchscript`) and run that model.

    `runner` runs it: onnxruntime, un-optimised, or ONNX's `reference` evaluator. `disabled_passes` are
    arguments of `torch.onnx.export` that are false. `show=source` gives the module's text instead.
    """
    if settings.get("show") == "source":
        from oracles.worker.lowered.module import source
        from oracles.worker.onnx import read_model

        return source(read_model(program), inputs)
    values = _results(_lowered, program, inputs, settings, enter)
    return values if outputs is None else {name: values[name] for name in outputs}


def run_torch(
    program: Any, inputs: dict[str, Any], settings: dict[str, Any], outputs: Any, enter: Callable[[str], None]
) -> dict[str, Any]:
    """Run a program of torch as it is, or export it, by the settings of `run`."""
    if settings.get("exporter", EAGER) == EAGER:
        from oracles.worker.torch.run import run_program

        return run_program(program, inputs, settings, outputs, enter)
    from oracles.worker.torch.graph import read_module

    values = _results(read_module, program, inputs, settings, enter)
    return values if outputs is None else {name: values[name] for name in outputs}


def _results(
    module_of: Callable[[Any, dict[str, Any]], tuple[Any, list[Any], list[str]]],
    program: Any,
    inputs: dict[str, Any],
    settings: dict[str, Any],
    enter: Callable[[str], None],
) -> dict[str, Any]:
    import torch

    from oracles.worker.torch.data import from_torch
    from oracles.worker.torch.exported import export, run_exported

    exporter = settings.get("exporter", EAGER)
    if exporter == EAGER:
        enter("execute")
    with torch.no_grad():
        module, feeds, names = module_of(program, inputs)
        if exporter == EAGER:
            return {name: from_torch(value) for name, value in zip(names, module(*feeds))}  # noqa: B905
        enter("optimise")
        model = export(module, feeds, exporter, settings.get("disabled_passes", ()))
    enter("execute")
    values = run_exported(model, feeds, settings.get("runner", ""))
    return dict(zip(names, values))  # noqa: B905 (Python 3.8)


def _lowered(program: Any, inputs: dict[str, Any]) -> tuple[Any, list[Any], list[str]]:
    """An ONNX model as a module, what to call it with, and its outputs' names."""
    from oracles.worker.lowered.module import build
    from oracles.worker.onnx import read_model

    model = read_model(program)
    module, feeds = build(model, inputs)
    return module, feeds, [value.name for value in model.graph.output]


def describe(program: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """The types in a program of the format `torch` on inputs of such dtypes and shapes, or an `error`."""
    from oracles.worker.torch import graph as torch_graph

    return torch_graph.describe(program.encode(), inputs)


def vocabulary() -> list[str]:
    """The operators of ONNX models that have a lowering, and torch's own that the exporter knows."""
    from oracles.worker.lowered.module import TABLE
    from oracles.worker.onnx import DOMAIN
    from oracles.worker.torch.exported import known_to_the_exporter

    known = known_to_the_exporter()
    return [*TABLE, *(f"{DOMAIN}.{name}" for name in sorted(known or ("*",)))]


# In crux


def configs(target: Target) -> tuple[Config, ...]:
    """Eager, then the exporter by `torch.export`, then the one that traces; `@exporter=` chooses one."""
    from oracles.verdict import Config

    target.must_be_on(("cpu",), "what is exported runs on the CPU only")
    chosen = target.get("exporter") and target.chosen("exporter", EXPORTERS)
    ways = (EAGER, *(name for name in EXPORTERS if chosen in ("", name)))
    return tuple(Config(name, (("exporter", name),)) for name in ways)


def exported_with(config: Config) -> Config:
    """The configuration that runs the same exported model by ONNX's reference evaluator."""
    from oracles.verdict import Config

    label = f"{config.label}, by ONNX's reference evaluator"
    return Config(label, (*config.settings, ("runner", "reference")))


UNSUPPORTED = re.compile(
    r"not implemented for|(is )?not (currently )?supported|does (not|NOT) support|has no lowering|takes no "
    r"|No ONNX function found"
    r"|NOT_IMPLEMENTED|Could not find an implementation|Unsupported|unsupported"
    r"|Type '?tensor\(\w+\)'? of input parameter"
)
"""What neither the exporter nor onnxruntime has: an operator, or one with such element types."""


def classify(run: Run) -> str:
    """Return `unsupported` for a missing lowering, translation to ONNX, or kernel of the exported model."""
    from oracles.backends.torch import REFUSED

    if run.is_ok:
        return ""
    if run.error in ("Unsupported", "UnsupportedOperatorError") or UNSUPPORTED.search(run.message):
        return "unsupported"
    is_eager = run.config.get("exporter") == EAGER
    return "invalid-input" if is_eager and REFUSED.search(run.message) else ""


# Passes

SIMPLIFYING = {"torchscript": "do_constant_folding", "dynamo": "optimize"}
"""The argument of each exporter that makes it simplify the model that it has written."""


def simplifying(run: Run) -> tuple[str, ...]:
    """The argument that has the exporter of a run simplify the model."""
    name = SIMPLIFYING.get(str(run.config.get("exporter")))
    return (name,) if name else ()


def backend() -> Backend:
    """Describe this backend."""
    from oracles.abilities import Backend, Graphs, Passes

    return Backend(
        NAME,
        PACKAGE,
        __file__,
        configs,
        classify,
        reads_onnx=False,
        keeps_tolerances=True,
        forks=True,
        dialect="aten",
        tells_operators=True,
        exported_with=exported_with,
        passes=Passes(DISABLED_BY, simplifying, simplifying, simplifying),
        graphs=(Graphs(("torch",), double=(("exporter", EAGER), ("double", 1))),),
    )
