"""Relax modules in a script, as TVMScript."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oracles.backends.tvm import code_of
from triage.projects import Runner, ToShow
from triage.projects.tvm.printed import SCRIPT

PART = '''\
CONFIGS = {{ configs | repr }}  # the pipeline, LLVM's level, the executor{{ ", whether `passes` run first" if sequence }}
{% if sequence %}


def passes():
    """What runs before the pipeline."""
    return [
{% for code in sequence %}
        {{ code }},
{% endfor %}
    ]
{% endif %}


def package_version():
    return tvm.__version__


def run(config, path):
    """In a process of its own: compile and run the module once, save the outputs."""
{% if seen == "out-of-memory" %}
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
{% endif %}
    try:
        save_outputs(path, compile_and_run(*CONFIGS[config]))
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 4 if re.search("MemoryError|bad_alloc|allocate memory", repr(error)) else 3
    return 0


def compile_and_run(pipeline, level, executor{{ ", is_sequenced" if sequence }}):
    target = tvm.target.Target({"kind": "llvm", "opt-level": level})
    module = Module
    with target:
{% if sequence %}
        for each in passes() if is_sequenced else ():
            module = each(module)
{% endif %}
        if pipeline == "zero":
            module = relax.get_pipeline("zero")(module)
        last = relax.get_default_pipeline(target) if pipeline == "target" else relax.get_pipeline("default")
        module = last(module)
    executable = relax.build(module, target, relax_pipeline=None, exec_mode=executor)
{% if only_compile %}
    return []
{% else %}
    machine = relax.VirtualMachine(executable, tvm.cpu())
    found = machine[{{ source.entry | repr }}](*map(to_tvm, build_inputs()))
    values = [found] if hasattr(found, "numpy") else list(found)
    return [(f"output {place}", *from_tvm(each)) for place, each in enumerate(values)]


def to_tvm(value):
    return tvm.runtime.tensor(value) if isinstance(value, np.ndarray) else value


def from_tvm(value):
    """The element type and the array (bit patterns where numpy lacks the type); shapes and numbers are int64."""
    data = value.numpy() if hasattr(value, "numpy") else np.array(value, dtype="int64")
    element = data.dtype.name
    if data.dtype.isbuiltin != 1:
        data = data.view("uint16" if element == "bfloat16" else "uint8")
    return element, data
{% endif %}
'''
"""Compiles and runs the module that stands above it."""

SHORT = """\
import numpy as np
import tvm
from tvm import relax

{{ source.module }}

inputs = [
{% for line in source.inputs.splitlines() %}
    {{ line }}
{% endfor %}
]

for name, (pipeline, level, executor{{ ", is_sequenced" if sequence }}) in {{ configs | repr }}.items():
    module, target = Module, tvm.target.Target({"kind": "llvm", "opt-level": level})
    with target:
{% for code in sequence %}
        module = {{ code }}(module) if is_sequenced else module
{% endfor %}
        if pipeline == "zero":
            module = relax.get_pipeline("zero")(module)
        last = relax.get_default_pipeline(target) if pipeline == "target" else relax.get_pipeline("default")
        module = last(module)
    executable = relax.build(module, target, relax_pipeline=None, exec_mode=executor)
{% if only_compile %}
    print(f"{name}: compiled", flush=True)
{% else %}
    machine = relax.VirtualMachine(executable, tvm.cpu())
    given = [tvm.runtime.tensor(each) if isinstance(each, np.ndarray) else each for each in inputs]
    print(f"{name}:", machine[{{ source.entry | repr }}](*given), flush=True)
{% endif %}
"""
"""Compiles the module that stands above it in each way and prints what it gives."""


def _settings(shown: ToShow) -> Mapping[str, Any]:
    """Each configuration as (pipeline, LLVM's level, executor), and whether the case's passes run first."""
    names = ("pipeline", "opt-level", "executor")
    sequenced = {label for label, config in shown.own.items() if shown.passes_of(config)}
    configs = {
        label: (*(config.get(name) for name in names), *((label in sequenced,) if sequenced else ()))
        for label, config in shown.own.items()
    }
    return {
        "configs": configs,
        "sequence": code_of(shown.passes) if sequenced else (),
        "only_compile": shown.failing.get("run") == "off",
    }


RUNNER = Runner(
    ("apache-tvm",),
    "tvm",
    PART,
    _settings,
    imports=("import tvm", "from tvm import relax"),
    printed=SCRIPT,
    formats=("relax",),
    slow=20.0,
    short=SHORT,
)
