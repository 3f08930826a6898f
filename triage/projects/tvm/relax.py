"""Relax modules in a script, as TVMScript."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oracles.backends import tvm as tvm_backend
from oracles.tvm_log import code_of, code_of_helpers
from oracles.verdict import Config
from triage.projects import ClaimedRun, Runner, ShortScript
from triage.projects.tvm.onnx import SCRIPT, TEST, call_by_position, passes_part, run_part

PART = (
    """\
CONFIGS = {{ configs | repr }}  # the pipeline, LLVM's level, the executor{{ further }}
"""
    + passes_part()
    + """\


def package_version():
    return tvm.__version__


"""
    + run_part("compile and run the module once, save the outputs")
    + '''\
{% if checks %}


{{ checks }}
{% endif %}


def compile_and_run(pipeline, level, executor{{ extras }}):
    target = tvm.target.Target({"kind": "llvm", "opt-level": level})
    module = Module
{% if "via" in extras %}
    if via == "json":
        module = tvm.ir.load_json(tvm.ir.save_json(module))
    elif via == "script":
        module = tvm.script.from_source(module.script(show_meta=True))
{% endif %}
{% include "relax_context.py.j2" %}
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
    values = [found] if hasattr(found, "numpy") else list(found) if hasattr(found, "__len__") else []
    return [(f"output {place}", *from_tvm(each)) for place, each in enumerate(values)]


def to_tvm(value):
    return tvm.runtime.tensor(value) if isinstance(value, np.ndarray) else value


def from_tvm(value):
    """The element type and the array (bit patterns where numpy lacks the type); shapes and numbers are int64."""
    data = value.numpy() if hasattr(value, "numpy") else np.array(value, dtype="int64")
{% include "tvm_bits.py.j2" %}
{% endif %}
'''
)
"""Compiles and runs the module that stands above it."""

PROGRAM = """\
{{ source.module }}
{% if checks %}

{{ checks }}
{% endif %}
"""

RUN = """\
{% include "listed_inputs.py.j2" %}

{% if helpers %}
{{ helpers }}

{% endif %}
def run(pipeline, level, executor{{ extras }}):
    module, target = Module, tvm.target.Target({"kind": "llvm", "opt-level": level})
{% if "via" in extras %}
    if via:
        module = {{ written_and_read }}
{% endif %}
{% include "relax_context.py.j2" %}
{% for code in sequence %}
        module = {{ "(" + code + ")" if "lambda" in code else code }}(module) if is_sequenced else module
{% endfor %}
{% if "zero" in pipelines %}
        module = relax.get_pipeline("zero")(module) if pipeline == "zero" else module
{% endif %}
{% if "target" in pipelines %}
        last = relax.get_default_pipeline(target) if pipeline == "target" else relax.get_pipeline("default")
        module = last(module)
{% else %}
        module = relax.get_pipeline("default")(module)
{% endif %}
    executable = relax.build(module, target, relax_pipeline=None, exec_mode=executor)
{% if only_compile %}
    return []
{% else %}
    machine = relax.VirtualMachine(executable, tvm.cpu())
    given = [tvm.runtime.tensor(each) if isinstance(each, np.ndarray) else each for each in inputs]
    found = machine[{{ source.entry | repr }}](*given)
    values = [found] if hasattr(found, "numpy") or not hasattr(found, "__len__") else found
    return [each.numpy() if hasattr(each, "numpy") else np.array(each) for each in values]
{% endif %}
"""

SHORT = ShortScript(
    imports="""\
import numpy as np
import tvm
from tvm import relax
""",
    program=PROGRAM,
    run=RUN,
    call=call_by_position,
    test=TEST,
)
"""Compiles the module that stands above it and runs it."""


LOCAL_FUNCTION = "        @R.function"
"""How a function within a function begins where TVM prints it."""

WELL_FORMED = """\
@tvm.transform.pass_instrument
class AfterEachPass:
    def run_after_pass(self, module, info):
        try:
            relax.analysis.well_formed(module)
        except Exception as error:
            why = str(error).strip().splitlines()[-1]
            raise RuntimeError(f"the module is ill-formed after {info.name}: {why}") from error"""
"""TVM's own check after every pass."""

TYPES = """\
@tvm.transform.pass_instrument
class AfterEachPass:
    def __init__(self):
        self.before = []

    def run_before_pass(self, module, info):
        self.before.append(module)

    def run_after_pass(self, module, info):
        if why := contradiction(self.before.pop(), module):
            raise RuntimeError(f"types contradict after {info.name}: {why}")"""
"""Compares types after every pass with those that TVM infers anew, and with those before."""

READ_BACK = {
    "json": "tvm.ir.load_json(tvm.ir.save_json(module))",
    "script": "tvm.script.from_source(module.script(show_meta=True))",
}
_WORDS = {
    "is_sequenced": "whether `passes` run first",
    "via": "as what the module is written and read again",
    "is_checked": "whether it is checked after each pass",
}


def _settings(shown: ClaimedRun) -> Mapping[str, Any]:
    """Each configuration as (pipeline, LLVM's level, executor), and what else some of them do differently."""
    names = ("pipeline", "opt-level", "executor")
    further: dict[str, Mapping[str, Any]] = {
        "is_sequenced": {label: bool(shown.passes_of(config)) for label, config in shown.own.items()},
        "via": {label: config.get("via") or "" for label, config in shown.own.items()},
        "is_checked": {label: bool(_checks(config)) for label, config in shown.own.items()},
    }
    used = [name for name, values in further.items() if any(values.values())]
    configs = {
        label: (*(config.get(name) for name in names), *(further[name][label] for name in used))
        for label, config in shown.own.items()
    }
    return {
        "configs": configs,
        "pipelines": [config.get("pipeline") for config in shown.own.values()],
        "extras": "".join(f", {name}" for name in used),
        "further": "".join(f", {_WORDS[name]}" for name in used),
        "sequence": code_of(shown.passes) if "is_sequenced" in used else (),
        "helpers": code_of_helpers(shown.passes) if "is_sequenced" in used else "",
        "checks": _checks(shown.failing),
        "LOCAL": LOCAL_FUNCTION,
        "written_and_read": READ_BACK.get(str(shown.failing.get("via"))),
        "only_compile": shown.failing.get("run") == "off",
    }


def _checks(config: Config) -> str:
    """The instrument that checks the module after each pass; empty for a configuration without."""
    if config.get("well-formed"):
        return WELL_FORMED
    return f"{_contradiction()}\n\n\n{TYPES}" if config.get("types") else ""


def _contradiction() -> str:
    """The functions by which the worker compares types, as they stand there."""
    text = (Path(tvm_backend.__file__).parents[1] / "worker" / "tvm" / "inferred.py").read_text()
    functions = "\n\n\n".join(part.strip() for part in re.split(r"\n\n\n", text)[1:])
    functions = re.sub(r" +# .*", "", functions)
    return re.sub(r"\) -> [^:]+:\n", "):\n", re.sub(r"(\w+): Any", r"\1", functions))


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
    tells=frozenset(("well-formed", "round-trip", "types")),
)
