"""The imaginary compiler as a project: how its scripts run a model, where its issues go."""

from collections.abc import Mapping
from typing import Any

from triage.projects import ClaimedRun, Project, Runner

PART = '''\
CONFIGS = {{ configs | repr }}


def package_version():
    return onnx.__version__


def run(config, path):
    """In a process of its own: optimise and evaluate the model once, save the outputs."""
    import onnx.reference

    model = build_model()
    model = onnx.load_model_from_string(model) if isinstance(model, bytes) else model
    if CONFIGS[config]:
        for node in model.graph.node:
            if node.op_type == "Add" and node.input[1] in {each.name for each in model.graph.initializer}:
                node.op_type = "Identity"
                del node.input[1]
    evaluator = onnx.reference.ReferenceEvaluator(model)
    names = [output.name for output in model.graph.output]
    results = evaluator.run(names, build_inputs())
    save_outputs(path, [(name, each.dtype.name, each) for name, each in zip(names, results)])
    return 0
'''


def _settings(shown: ClaimedRun) -> Mapping[str, Any]:
    return {"configs": {label: config.get("fast") for label, config in shown.own.items()}}


PROJECT = Project(
    "imaginary",
    package="onnx",
    backends=("imaginary",),
    issues="https://example.org/issues",
    runners=(Runner(("onnx",), "onnx", PART, _settings, imports=("import onnx",)),),
)
