"""Torch modules in a script, through torch's ONNX exporters: what they write, run by onnxruntime."""

from collections.abc import Mapping
from typing import Any

from oracles.verdict import Config, Phase
from triage.projects import ClaimedRun, Runner, ShortScript
from triage.projects.pytorch.compiled import FROM_TORCH, IMPORTS, MODULE, SET_UP, TEST

REFERENCE = "numpy"
"""What a script calls ONNX's reference evaluator, which runs the model that fails on onnxruntime."""

PART = (
    '''\
# What `torch.onnx.export` is told; where that is nothing, the module itself is run
CONFIGS = {{ configs | repr }}
{% if reference %}
REFERENCE = {{ reference | repr }}  # the model of {{ failing | repr }}, checked and run by ONNX's own evaluator
{% endif %}


def package_version():
    return torch.__version__


def run(config, path):
    """In a process of its own: run the module, or export it and run the model; save the outputs."""
'''
    + SET_UP
    + '''\
    try:
        with torch.no_grad():
            module, inputs = Repro().eval(), build_inputs()
            if CONFIGS[config]:
                results = export_and_run(config, module, inputs, path + ".onnx")
            else:
                results = [from_torch(each) for each in torch.utils._pytree.tree_leaves(module(*inputs))]
        save_outputs(path, [(f"output {place}", *each) for place, each in enumerate(results)])
    except Exception as error:
        while error.__cause__:  # what the exporter puts around it says only which step it was at
            error = error.__cause__
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 4 if re.search("MemoryError|bad_alloc|allocate memory", repr(error)) else 3
    return 0


def export_and_run(config, module, inputs, path):
    names = [f"x{place}" for place in range(len(inputs))]
    torch.onnx.export(module, tuple(inputs), path, input_names=names, verbose=False, **CONFIGS[config])
{% if reference %}
    run_model = run_by_reference if config == REFERENCE else run_by_onnxruntime
{% else %}
    run_model = run_by_onnxruntime
{% endif %}
    results = run_model(path, {name: from_torch(each)[1] for name, each in zip(names, inputs)})
    return [(np.asarray(each).dtype.name, np.asarray(each)) for each in results]


def run_by_onnxruntime(path, given):
    """No optimisation: what is wrong is in the model, or in a plain kernel."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    taken = {each.name for each in session.get_inputs()}
    return session.run(None, {name: value for name, value in given.items() if name in taken})
{% if reference %}


def run_by_reference(path, given):
    import onnx
    from onnx.reference import ReferenceEvaluator

    onnx.checker.check_model(path, full_check=True)
    session = ReferenceEvaluator(path)
    return session.run(None, {name: value for name, value in given.items() if name in session.input_names})
{% endif %}


'''
    + FROM_TORCH
    + '''\
{% if reference and seen == "mismatch" %}


def errors(results):
    """Whose fault it is: the exporter's, if ONNX's reference evaluator gives what onnxruntime gives."""
    status, _, outputs = results[REFERENCE]
    if status != "ok":
        return ""
    told = {name: difference(results[name][2], outputs, RTOL, ATOL) for name in (PASSING, FAILING)}
    same = [name for name, found in told.items() if not found]
    return f"; for the exported model {REFERENCE} gives what {same[0]!r} gives" if len(same) == 1 else ""
{% endif %}
'''
)
"""Runs the module that stands above it, as it is or exported."""

RUN = """\
inputs = (
{% for line in source.inputs.splitlines() %}
    {{ line }}
{% endfor %}
)
module = Repro().eval()

{% if "eager" in configs %}
def run_eager():
    with torch.no_grad():
        return [each.numpy() for each in torch.utils._pytree.tree_leaves(module(*inputs))]

{% endif %}
def run_exported():
    names = [f"x{place}" for place in range(len(inputs))]
    with torch.no_grad():
        torch.onnx.export(module, inputs, "model.onnx", input_names=names, verbose=False, {{ arguments }})
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession("model.onnx", options)
    given = {name: value.numpy() for name, value in zip(names, inputs)}
    return session.run(None, {each.name: given[each.name] for each in session.get_inputs()})
"""

SHORT = ShortScript(
    imports="""\
{{ source.torch_imports }}
import numpy as np
import onnxruntime
""",
    run=RUN,
    call=lambda settings, label: "run_exported()" if settings["configs"][label] else "run_eager()",
    test=TEST.replace("module: inductor", "module: onnx").replace(
        "torch._inductor.test_case import", "torch.testing._internal.common_utils import"
    ),
)
"""Runs the module that stands above it and what the exporter makes of it."""


def _settings(shown: ClaimedRun) -> Mapping[str, Any]:
    """The arguments of `torch.onnx.export` by configuration; the failing one's model runs twice."""
    configs = {label: _arguments(config) for label, config in shown.own.items()}
    exporter = next((label for label, told in configs.items() if told), "")
    asks = shown.phase is Phase.EXECUTE and bool(exporter)
    told = configs.get(exporter, {})
    return {
        "configs": {**configs, REFERENCE: told} if asks else configs,
        "exporter": exporter,
        "arguments": ", ".join(f"{name}={value}" for name, value in told.items()),
        "reference": REFERENCE if asks else "",
        "says_more": asks,
        "on_gpu": (),
    }


def _arguments(config: Config) -> dict[str, bool]:
    exporter = config.get("exporter")
    if exporter in (None, "eager"):
        return {}
    disabled = config.get("disabled_passes")
    off = dict.fromkeys(disabled, False) if isinstance(disabled, tuple) else {}
    return {"dynamo": exporter == "dynamo", **off}


def words(config: Config) -> str:
    """Name an exporter behind a verb; empty for a configuration without one."""
    told = _arguments(config)
    called = ", ".join(f"{name}={value}" for name, value in told.items())
    return f"with `torch.onnx.export({called})` and un-optimised onnxruntime" if told else ""


RUNNER = Runner(
    ("torch", "onnx", "onnxscript", "onnxruntime"),
    "torch",
    PART,
    _settings,
    imports=IMPORTS,
    printed=MODULE,
    backends=("torch-onnx",),
    slow=60.0,
    short=SHORT,
)
