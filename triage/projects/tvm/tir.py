"""Modules of PrimFuncs in a script, as TVMScript."""

from collections.abc import Mapping
from typing import Any

from oracles.tvm_log import code_of, code_of_helpers, code_of_least, options_of
from triage.projects import DIES, ClaimedRun, Runner, ShortScript
from triage.projects.tvm.onnx import SCRIPT, TEST, call_by_position, passes_part, run_part

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
{% if is_workspace %}


def watched_pipeline():
    """The default pipeline, whose workspaces are taken from memory between closed pages in the end."""
    tvm_ffi.register_global_func(TAKE, take, override=True)
    lower, *finish = tvm.tirx.get_tir_pipeline("default")

    def watched(module):
        module = lower(module)
        return with_workspaces(module) or module

    return (watched, *finish)


tvm.tirx.register_tir_pipeline("watched", watched_pipeline)
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
{% include "tir_context.py.j2" %}
{% if sequence %}
        for each in passes() if is_sequenced else ():
            module = {{ "watched(each, module)" if watched else "each(module)" }}
{% endif %}
        built = tvm.tirx.build(module, target=target, pipeline=pipeline)
{% if only_compile %}
    return []
{% elif misuse %}

    def call():
        """What the buffers hold, each of which stands between closed pages; raises if one is written beyond."""
        given, around = build_inputs(), {}
        for place, each in enumerate(given):
            if isinstance(each, np.ndarray) and each.dtype.isbuiltin == 1:
                around[place], each = between_edges(each, at_start=place % 2 == 1)
                given[place] = tvm.runtime.from_dlpack(each)
            elif isinstance(each, np.ndarray):
                given[place] = tvm.runtime.tensor(each)
        built[{{ source.entry | repr }}](*given)
        for place, sides in around.items():
            if any((side != EDGE).any() for side in sides):
                raise WrittenBeyond(f"memory: writes beyond the buffer {place}")
        return {f"buffer {place}": each.numpy() for place, each in enumerate(given) if hasattr(each, "numpy")}

{% if is_workspace %}
    if pipeline == "watched":
        must_hold(call)
{% endif %}
    return [(name, each.dtype.name, each) for name, each in call().items() if each.dtype.isbuiltin == 1]
{% else %}
    given = [tvm.runtime.tensor(each) if isinstance(each, np.ndarray) else each for each in build_inputs()]
    built[{{ source.entry | repr }}](*given)
    return [(f"buffer {place}", *from_tvm(each)) for place, each in enumerate(given) if hasattr(each, "numpy")]


def from_tvm(value):
    """The element type and the array (bit patterns where numpy lacks the type)."""
    data = value.numpy()
{% include "tvm_bits.py.j2" %}
{% endif %}
'''
)
"""Compiles and runs the module of PrimFuncs that stands above it."""

PROGRAM = """\
{{ source.module }}
{% if watched %}

{{ watch }}
{% endif %}
"""

RUN = """\
{% if fails_least %}
def least():
    lowering = [
        {{ lowers | join(", ") | wordwrap(100, false) | indent(8) }}
    ]
    return (tvm.ir.transform.Sequential(lowering), *tvm.tirx.get_tir_pipeline("default")[1:])

tvm.tirx.register_tir_pipeline("least", least)
{% endif %}
{% include "listed_inputs.py.j2" %}

def run(pipeline, level{{ ", is_sequenced" if sequence or options }}):
    module, target = Module, tvm.target.Target({"kind": "llvm", "opt-level": level})
{% include "tir_context.py.j2" %}
{% for code in sequence %}
        module = {{ "watched(" + code + ", module)" if watched else code + "(module)" }} if is_sequenced else module
{% endfor %}
        built = tvm.tirx.build(module, target=target, pipeline=pipeline)
{% if only_compile %}
    return []
{% else %}
    given = [tvm.runtime.tensor(each) if isinstance(each, np.ndarray) else each for each in inputs]
    built[{{ source.entry | repr }}](*given)
    return [each.numpy() for each in given if hasattr(each, "numpy")]
{% endif %}
"""

SHORT = ShortScript(
    imports="""\
import numpy as np
import tvm
""",
    program=PROGRAM,
    run=RUN,
    call=call_by_position,
    holds=True,
    test=TEST,
)
"""Compiles the module that stands above it and gives what its buffers hold."""


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
"""Looks closely at a pass, as `oracles/worker/tvm/tir/run.py` does."""


def _settings(shown: ClaimedRun) -> Mapping[str, Any]:
    """Each configuration as (pipeline, LLVM's level), and whether the case's passes run first."""
    is_workspace = shown.misuse.endswith(("workspace", DIES))
    sequenced = {label for label, config in shown.own.items() if shown.passes_of(config)}
    configs = {
        label: (
            "watched" if is_workspace and config is shown.failing else config.get("pipeline"),
            config.get("opt-level"),
            *(((label in sequenced),) if sequenced else ()),
        )
        for label, config in shown.own.items()
    }
    lowers = any(config.get("pipeline") == "least" for config in shown.own.values())
    return {
        "configs": configs,
        "sequence": code_of(shown.passes) if sequenced else (),
        "helpers": code_of_helpers(shown.passes) if sequenced else "",
        "options": options_of(shown.passes) if sequenced else {},
        "fails_least": shown.failing.get("pipeline") == "least",
        "lowers": code_of_least() if lowers else (),
        "watched": bool(shown.failing.get("checks")) and bool(sequenced),
        "watch": WATCH,
        "only_compile": shown.failing.get("run") == "off",
        "misuse": shown.misuse,
        "is_workspace": is_workspace,
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
    guards=("oracles.worker.edges", "oracles.worker.tvm.tir.workspaces"),
)
