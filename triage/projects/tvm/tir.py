"""Modules of PrimFuncs in a script, as TVMScript."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oracles.optimisers.tvm_pipelines import code_of, code_of_least, options_of
from triage.projects import ClaimedRun, Runner
from triage.projects.tvm.parts import SCRIPT, passes_part, run_part

PART = (
    """\
CONFIGS = {{ configs | repr }}  # the pipeline, LLVM's level{{ ", whether the case's passes run" if sequence or options }}
"""
    + passes_part()
    + '''\
{% if lowers %}


def least():
    """What the code generator cannot do without, and nothing that optimises."""
    lowering = [
{% for code in lowers %}
        {{ code }},
{% endfor %}
    ]
    _, *finish = tvm.tirx.get_tir_pipeline("default")
    return (tvm.ir.transform.Sequential(lowering), *finish)


tvm.tirx.register_tir_pipeline("least", least)
{% endif %}

{% if watched %}


{{ watch }}
{% endif %}


def package_version():
    return tvm.__version__


'''
    + run_part("compile and run the module once, save what its buffers hold")
    + '''\


def compile_and_run(pipeline, level{{ ", is_sequenced" if sequence or options }}):
    target = tvm.target.Target({"kind": "llvm", "opt-level": level})
    module = Module
{% if options %}
    config = {{ options | repr }} if is_sequenced else {}
    with tvm.transform.PassContext(config=config), target:
{% else %}
    with target:
{% endif %}
{% if sequence %}
        for each in passes() if is_sequenced else ():
            module = {{ "watched(each, module)" if watched else "each(module)" }}
{% endif %}
        built = tvm.tirx.build(module, target=target, pipeline=pipeline)
{% if only_compile %}
    return []
{% else %}
    given = [tvm.runtime.tensor(each) if isinstance(each, np.ndarray) else each for each in build_inputs()]
    built[{{ source.entry | repr }}](*given)
    return [(f"buffer {place}", *from_tvm(each)) for place, each in enumerate(given) if hasattr(each, "numpy")]


def from_tvm(value):
    """The element type and the array (bit patterns where numpy lacks the type)."""
    data = value.numpy()
    element = data.dtype.name
    if data.dtype.isbuiltin != 1:
        data = data.view("uint16" if element == "bfloat16" else "uint8")
    return element, data
{% endif %}
'''
)
"""Compiles and runs the module of PrimFuncs that stands above it."""

SHORT = """\
import numpy as np
import tvm

{{ source.module }}

inputs = [
{% for line in source.inputs.splitlines() %}
    {{ line }}
{% endfor %}
]
{% if lowers %}


def least():
    lowering = [
{% for code in lowers %}
        {{ code }},
{% endfor %}
    ]
    return (tvm.ir.transform.Sequential(lowering), *tvm.tirx.get_tir_pipeline("default")[1:])


tvm.tirx.register_tir_pipeline("least", least)
{% endif %}
{% if watched %}


{{ watch }}

{% endif %}

for name, (pipeline, level{{ ", is_sequenced" if sequence or options }}) in {{ configs | repr }}.items():
    module, target = Module, tvm.target.Target({"kind": "llvm", "opt-level": level})
{% if options %}
    config = {{ options | repr }} if is_sequenced else {}
    with tvm.transform.PassContext(config=config), target:
{% else %}
    with target:
{% endif %}
{% for code in sequence %}
        module = {{ "watched(" + code + ", module)" if watched else code + "(module)" }} if is_sequenced else module
{% endfor %}
        built = tvm.tirx.build(module, target=target, pipeline=pipeline)
{% if only_compile %}
    print(f"{name}: compiled", flush=True)
{% else %}
    given = [tvm.runtime.tensor(each) if isinstance(each, np.ndarray) else each for each in inputs]
    built[{{ source.entry | repr }}](*given)
    print(f"{name}:", *given, flush=True)
{% endif %}
"""
"""Compiles the module that stands above it in each way and prints what its buffers hold."""


WATCH = '''\
def watched(each, module):
    """What a pass makes of a module, which it may neither change nor break, nor fail on itself."""
    import tvm_ffi

    before = tvm_ffi.structural_hash(module)
    after = each(module)
    if tvm_ffi.structural_hash(module) != before:
        raise RuntimeError(f"{each.info.name} changes the module that it is given")
    for function in after.functions.values():
        tvm.s_tir.analysis.verify_well_formed(function)
    each(after)
    return after'''
"""Looks closely at a pass, as `oracles/worker/tvm/tir/instruments.py` does."""


def _settings(shown: ClaimedRun) -> Mapping[str, Any]:
    """Return each configuration as (pipeline, LLVM's level), and whether the case's passes run first."""
    sequenced = {label for label, config in shown.own.items() if shown.passes_of(config)}
    configs = {
        label: (
            *(config.get(name) for name in ("pipeline", "opt-level")),
            *(((label in sequenced),) if sequenced else ()),
        )
        for label, config in shown.own.items()
    }
    lowers = any(config.get("pipeline") == "least" for config in shown.own.values())
    return {
        "configs": configs,
        "sequence": code_of(shown.passes) if sequenced else (),
        "options": options_of(shown.passes) if sequenced else {},
        "lowers": code_of_least() if lowers else (),
        "watched": bool(shown.failing.get("checks")) and bool(sequenced),
        "watch": WATCH,
        "only_compile": shown.failing.get("run") == "off",
    }


RUNNER = Runner(
    ("apache-tvm",),
    "tvm",
    PART,
    _settings,
    imports=("import tvm",),
    printed=SCRIPT,
    formats=("tir",),
    slow=20.0,
    short=SHORT,
)
