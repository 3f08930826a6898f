"""Torch modules in a script, as they are and through `torch.compile`."""

from collections.abc import Mapping
from typing import Any

from oracles.verdict import Config
from oracles.worker.torch.options import code_of
from triage.projects import ClaimedRun, Printed, Runner, ShortScript

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
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 4 if re.search("MemoryError|bad_alloc|allocate memory", repr(error)) else 3
    return 0


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


def words(config: Config) -> str:
    """Name a backend of `torch.compile`, or eager mode, behind a verb."""
    backend, there = config.get("backend"), " on CUDA" if config.get("device") == "cuda" else ""
    if backend and backend != "eager":
        return f'with `torch.compile(backend="{backend}")`{there}'
    return f"in eager mode{there}" if backend or config.label.startswith("eager") else ""


RUNNER = Runner(
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
