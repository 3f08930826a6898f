"""PyTorch as a project: scripts run a module as it is, through `torch.compile`, or through an ONNX exporter."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from oracles.verdict import Config, Phase, Run
from oracles.worker.torch.options import code_of
from triage.projects import ClaimedRun, Installing, Printed, Project, Runner, ShortScript, Words

IMPORTS = ("import torch", "import torch.nn.functional as F")

FROM_TORCH = '''\
def from_torch(value):
    """The element type and the array; bfloat16, which numpy lacks, as bit patterns."""
    value = value.detach(){{ ".cpu()" if on_gpu }}.contiguous()
    if value.dtype is torch.bfloat16:
        return "bfloat16", value.view(torch.int16).numpy().view("uint16")
    return str(value.dtype).replace("torch.", ""), value.numpy()
'''
"""Makes arrays of a module's results."""

SET_UP = """\
{% include "limit_memory.py.j2" %}
    torch.set_num_threads(1)
"""
"""What a process does before it runs a module."""

PART = (
    '''\
CONFIGS = {{ configs | repr }}
{% if on_gpu %}
ON_GPU = {{ on_gpu | repr }}
{% endif %}
{% if has_double %}
DOUBLE = "float64"  # eager mode in float64: what both results should be near to
CONFIGS[DOUBLE] = "eager"
{% endif %}


def package_version():
    return torch.__version__


def run(config, path):
    """In a process of its own: run the module once, as it is or compiled, and save the outputs."""
'''
    + SET_UP
    + """\
{% if source.is_random %}
    torch.manual_seed(0)
{% endif %}
{% if source.is_random and "inductor" in configs.values() %}
    from torch._inductor import config as inductor

    inductor.fallback_random = True  # random numbers as eager mode draws them
{% endif %}
    try:
        with torch.no_grad():
            module, inputs = Repro(), build_inputs()
{% if options %}
            if config not in {{ without_options | repr }}:
{% for line in options %}
                {{ line }}
{% endfor %}
{% endif %}
{% if has_double %}
            if config == DOUBLE:
                module = module.double()
                inputs = [each.double() if each.is_floating_point() else each for each in inputs]
{% endif %}
{% if on_gpu %}
            if config in ON_GPU:
                module, inputs = module.cuda(), [each.cuda() for each in inputs]
{% endif %}
            if CONFIGS[config] != "eager":
{% for place, dim in source.dims %}
                torch._dynamo.maybe_mark_dynamic(inputs[{{ place }}], {{ dim }})
{% endfor %}
                module = torch.compile(
                    module, backend=CONFIGS[config], fullgraph=True, dynamic={{ "None" if source.dims else "False" }}
                )
            results = torch.utils._pytree.tree_leaves(module(*inputs))
{% if source.writes %}
            results = [*results, *inputs, *module.buffers()]  # what it writes to, too
{% endif %}
        save_outputs(path, [(f"output {place}", *from_torch(each)) for place, each in enumerate(results)])
{% set full = "allocate memory" %}
{% include "failed.py.j2" %}


"""
    + FROM_TORCH
    + '''\
{% if has_double %}


def errors(results):
    """How far each result is from the one in float64; empty where that does not run."""
    status, _, wide = results[DOUBLE]
    told = []
    for config in (PASSING, FAILING) if status == "ok" else ():
        pairs = [(1.0 * widen(*each[1:]), truth[2]) for each, truth in zip(results[config][2], wide)]
        off = [np.abs(left - truth).max() for left, truth in pairs if left.shape == truth.shape and left.size]
        told.append(f"{config} is off float64 by up to {max(off, default=0.0):.3g}")
    return "; " + ", ".join(told) if told else ""
{% endif %}
'''
)
"""Runs the module that stands above it, as it is or compiled."""

RUN = """\
def inputs():
    return [
{% for line in source.inputs.splitlines() %}
        {{ line }}
{% endfor %}
    ]

{% if source.is_random and "inductor" in configs.values() %}
torch._inductor.config.fallback_random = True  # random numbers as eager mode draws them
{% endif %}
def run(backend{{ ", device" if on_gpu }}{{ ", is_plain=True" if options }}):
{% if options %}
    torch._dynamo.reset()
    if not is_plain:
{% for line in options %}
        {{ line }}
{% endfor %}
{% endif %}
{% if source.is_random %}
    torch.manual_seed(0)
{% endif %}
    module, given = Repro(){{ ".to(device)" if on_gpu }}, {{ "[each.to(device) for each in inputs()]" if on_gpu else "inputs()" }}
{% for place, dim in source.dims %}
    torch._dynamo.maybe_mark_dynamic(given[{{ place }}], {{ dim }})
{% endfor %}
    compiled = torch.compile(module, backend=backend, fullgraph=True{{ "" if source.dims else ", dynamic=False" }})
    with torch.no_grad():
        results = (module if backend == "eager" else compiled)(*given)
{% if source.writes %}
    results = [results, given, list(module.buffers())]  # what it writes to, too
{% endif %}
    return {{ "[each.cpu() for each in torch.utils._pytree.tree_leaves(results)]" if on_gpu else "torch.utils._pytree.tree_leaves(results)" }}
"""

TEST = """\
# Owner(s): ["module: inductor"]
{{ imports }}
from torch._inductor.test_case import run_tests, TestCase


{{ program }}


class {{ title }}(TestCase):
    def {{ name }}(self):
{{ body | replace("torch.testing.assert_close", "self.assertEqual") | indent(8, true) }}


if __name__ == "__main__":
    run_tests()
"""
"""As in torch's `test/inductor/test_torchinductor.py`."""


def _call(settings: Mapping[str, Any], label: str) -> str:
    device = ', "cuda"' if label in settings["on_gpu"] else ', "cpu"' if settings["on_gpu"] else ""
    plain = ", is_plain=False" if settings["options"] and label not in settings["without_options"] else ""
    return f'run("{settings["configs"][label]}"{device}{plain})'


SHORT = ShortScript(imports="{{ source.torch_imports }}", run=RUN, call=_call, compares="torch", test=TEST)
"""Runs the module that stands above it as it is and compiled."""

_NAMES = "torch F self super float complex slice bytearray base64 inf nan"
MODULE = Printed(frozenset(_NAMES.split()), frozenset(("operator", "_operator", "math")))
"""What the printed code of a module may use."""


def _settings(shown: ClaimedRun) -> Mapping[str, Any]:
    """Values that differ are shown beside what eager mode gives in float64, as torch asks of fuzzers."""
    configs = {label: config.get("backend") or "eager" for label, config in shown.own.items()}
    on_gpu = tuple(label for label, config in shown.own.items() if config.get("device") == "cuda")
    has_double = shown.compares_values and len(configs) > 1
    plain = ["eager", *(label for label, config in shown.own.items() if not shown.passes_of(config))]
    options = {"options": code_of(shown.passes), "without_options": plain}
    return {"configs": configs, "has_double": has_double, "on_gpu": on_gpu, **options}


def _words_of_backends(config: Config) -> str:
    """Name a backend of `torch.compile`, or eager mode, behind a verb."""
    backend, there = config.get("backend"), " on CUDA" if config.get("device") == "cuda" else ""
    if backend and backend != "eager":
        return f'with `torch.compile(backend="{backend}")`{there}'
    return f"in eager mode{there}" if backend or config.label.startswith("eager") else ""


COMPILED = Runner(
    ("torch",),
    "torch",
    PART,
    _settings,
    imports=IMPORTS,
    printed=MODULE,
    backends=("torch",),
    slow=20.0,
    short=SHORT,
)


def _labels(run: Run, may_be_reader: bool) -> tuple[str, ...]:
    if run.config.get("exporter"):
        return ("module: onnx", "topic: fuzzer")
    return ("oncall: pt2", "module: inductor", "topic: fuzzer")


def _optimising(config: Config) -> str:
    return "while it exports the module" if config.get("exporter") else "while it optimises the module"


REFERENCE = "numpy"
"""What a script calls ONNX's reference evaluator, which runs the model that fails on onnxruntime."""

EXPORTED_PART = (
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

RUN_EXPORTED = """\
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

SHORT_EXPORTED = ShortScript(
    imports="""\
{{ source.torch_imports }}
import numpy as np
import onnxruntime
""",
    run=RUN_EXPORTED,
    call=lambda settings, label: "run_exported()" if settings["configs"][label] else "run_eager()",
    test=TEST.replace("module: inductor", "module: onnx").replace(
        "torch._inductor.test_case import", "torch.testing._internal.common_utils import"
    ),
)
"""Runs the module that stands above it and what the exporter makes of it."""


def _settings_of_exports(shown: ClaimedRun) -> Mapping[str, Any]:
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


def _words(config: Config) -> str:
    """Name an exporter, a backend of `torch.compile`, or eager mode, behind a verb."""
    arguments = ", ".join(f"{name}={value}" for name, value in _arguments(config).items())
    if arguments:
        return f"with `torch.onnx.export({arguments})` and un-optimised onnxruntime"
    return _words_of_backends(config)


EXPORTED = Runner(
    ("torch", "onnx", "onnxscript", "onnxruntime"),
    "torch",
    EXPORTED_PART,
    _settings_of_exports,
    imports=IMPORTS,
    printed=MODULE,
    backends=("torch-onnx",),
    slow=60.0,
    short=SHORT_EXPORTED,
)


PROJECT = Project(
    "pytorch",
    package="torch",
    backends=("torch", "inductor", "torch-onnx"),
    beside=("triton", "numpy"),
    devices=("cpu", "cuda"),
    template="issue_pytorch.md.j2",
    issues="https://github.com/pytorch/pytorch/issues",
    labels=_labels,
    of_fuzzers=("topic: fuzzer",),
    environment_tool="torch.utils.collect_env",
    runners=(COMPILED, replace(COMPILED, backends=("inductor",), slow=210.0), EXPORTED),
    varied=("torch",),
    words=Words(_words, optimising=_optimising),
    installing=Installing(needs=("onnx", "onnxruntime", "onnxscript"), is_huge=True),
)
