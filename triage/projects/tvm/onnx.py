"""Models of ONNX in a script, through TVM's importer."""

from collections.abc import Mapping
from typing import Any

from oracles.tvm_log import code_of, code_of_helpers
from triage.projects import ClaimedRun, Printed, Runner, ShortScript

_PASSES = '''\
{% if sequence %}
{% if helpers %}


{{ helpers }}
{% endif %}


def passes(ARGS):
    """What runs before the pipeline."""
    return [
{% for code in sequence %}
        {{ code }},
{% endfor %}
    ]
{% endif %}
'''

_RUN = '''\
def run(config, path):
    """In a process of its own: DOES."""
{% include "limit_memory.py.j2" %}
    try:
        save_outputs(path, compile_and_run(GIVEN))
{% set full = "allocate memory" %}
{% include "failed.py.j2" %}
'''


def passes_part(parameters: str = "") -> str:
    """The function `passes`, of these parameters: what the case runs before the pipeline."""
    return _PASSES.replace("ARGS", parameters)


def run_part(does: str, given: str = "*CONFIGS[config]") -> str:
    """The function `run`, which calls `compile_and_run` with what is `given` and saves the outputs.

    `does` stands in its docstring.
    """
    return _RUN.replace("DOES", does).replace("GIVEN", given)


def call_by_position(settings: Mapping[str, Any], label: str) -> str:
    """The call of a script's `run` with what the configuration of that label sets, in order."""
    return f"run({', '.join(map(repr, settings['configs'][label]))})"


_NAMES = "R T I Module relax tvm np base64 TypeVar range int float bool inf nan"
SCRIPT = Printed(frozenset(_NAMES.split()), frozenset(("typing", "tvm")), frozenset(("ml_dtypes",)))
"""What printed TVMScript may use."""

TEST = """\
# Licensed to the Apache Software Foundation (ASF) under one
# or more contributor license agreements.  See the NOTICE file
# distributed with this work for additional information
# regarding copyright ownership.  The ASF licenses this file
# to you under the Apache License, Version 2.0 (the
# "License"); you may not use this file except in compliance
# with the License.  You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing,
# software distributed under the License is distributed on an
# "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY
# KIND, either express or implied.  See the License for the
# specific language governing permissions and limitations
# under the License.
{{ imports }}
import tvm.testing

{{ program }}


def {{ name }}():
{{ body | replace("np.testing.assert_allclose", "tvm.testing.assert_allclose") | indent(4, true) }}


if __name__ == "__main__":
    tvm.testing.main()
"""
"""As in TVM's `tests/python`."""


PART = (
    """\
CONFIGS = {{ configs | repr }}
"""
    + passes_part("tvm")
    + """\


def package_version():
    try:
        return metadata.version("apache-tvm")
    except metadata.PackageNotFoundError:
        import tvm  # a build of one's own

        return tvm.__version__


{% include "load_model.py.j2" %}


"""
    + run_part("import, compile and run the model once, save the outputs", given="")
    + '''\


def compile_and_run():
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    model = load_model()
    module = from_onnx(model, keep_params_in_input=False)
{% include "tvm_target.py.j2" %}
{% if sequence %}
        for each in passes(tvm):
            module = each(module)
{% endif %}
{% if pipeline == "zero" %}
        module = relax.get_pipeline("zero")(module)
{% endif %}
{% if pipeline == "target" or device == "cuda" %}
        module = relax.get_default_pipeline(target)(module)
{% else %}
        module = relax.get_pipeline("default")(module)
{% endif %}
    executable = relax.build(module, target, relax_pipeline=None, exec_mode={{ executor | repr }})
{% if only_compile %}
    return []
{% else %}
    device = tvm.{{ "cuda" if device == "cuda" else "cpu" }}()
    machine = relax.VirtualMachine(executable, device)
{% if earlier %}
    for inputs in build_earlier_inputs():
{% set call = 'machine["main"](*[to_tvm(tvm, device, given) for given in inputs.values()])' %}
{% set is_told = true %}
{% include "earlier_call.py.j2" %}
{% endif %}
    found = machine["main"](*[to_tvm(tvm, device, given) for given in build_inputs().values()])
    names = [each.name for each in model.graph.output]
    values = [found] if len(names) == 1 else list(found)
    return [(name, *from_tvm(each)) for name, each in zip(names, values)]


def to_tvm(tvm, device, given):
{% if plain %}
    return tvm.runtime.tensor(given, device)
{% else %}
    import ml_dtypes

    element, data = given
    if ELEMENTS.index(element) >= ELEMENTS.index("bfloat16"):
        data = data.view(getattr(ml_dtypes, element))
    return tvm.runtime.tensor(data, device)
{% endif %}


def from_tvm(value):
    """The element type and the array (bit patterns where numpy lacks the type); shapes and numbers are int64."""
    data = value.numpy() if hasattr(value, "numpy") else np.array(value, dtype="int64")
    element = data.dtype.name
    if ELEMENTS.index(element) >= ELEMENTS.index("bfloat16"):
        data = data.view("uint16" if element == "bfloat16" else "uint8")
    return element, data
{% endif %}
'''
)
"""Imports a model, compiles and runs it."""

RUN = """\
{{ code }}
inputs = {{ inputs }}

{% if earlier %}
{{ with_shape }}

{% endif %}
{% if helpers %}
{{ helpers }}

{% endif %}
def run():
    module = from_onnx({{ model }}, keep_params_in_input=False)
{% include "tvm_target.py.j2" %}
{% for code in sequence %}
        module = {{ "(" + code + ")" if "lambda" in code else code }}(module)
{% endfor %}
{% if pipeline == "zero" %}
        module = relax.get_pipeline("zero")(module)
{% endif %}
        module = relax.{{ "get_default_pipeline(target)" if pipeline == "target" or device == "cuda" else "get_pipeline(\'default\')" }}(module)
    executable = relax.build(module, target, relax_pipeline=None, exec_mode={{ executor | repr }})
{% if only_compile %}
    return []
{% else %}
    machine = relax.VirtualMachine(executable, tvm.{{ "cuda" if device == "cuda" else "cpu" }}())
{% if earlier %}
    for shapes in {{ earlier | repr }}:
        earlier = [with_shape(inputs[name], shapes[name]) if name in shapes else inputs[name] for name in inputs]
{% set call = 'machine["main"](*[tvm.runtime.tensor(each) for each in earlier])' %}
{% set is_told = false %}
{% include "earlier_call.py.j2" %}
{% endif %}
    found = machine["main"](*[tvm.runtime.tensor(each) for each in inputs.values()])
    return [each.numpy() for each in ([found] if hasattr(found, "numpy") else found)]
{% endif %}
"""

SHORT = ShortScript(
    imports="""\
import numpy as np
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx
""",
    program="",
    run=RUN,
    call=lambda settings, label: "run()",
    holds=True,
    test=TEST,
)
"""Imports the model, compiles and runs it."""

IMPORTS = """\
from pathlib import Path

import onnx
from tvm.relax.frontend.onnx import from_onnx

for path in sorted((Path(__file__).parent / "models").glob("*.onnx")):
    try:
        from_onnx(onnx.load(path), keep_params_in_input=False)
        print(f"{path.name}: imported")
    except Exception as error:
        print(f"{path.name}: {type(error).__name__}: {error}")
"""
"""Imports every model beside it."""


def _settings(shown: ClaimedRun) -> Mapping[str, Any]:
    config = shown.failing
    return {name: config.get(name) for name in ("pipeline", "executor")} | {
        "configs": list(shown.own),
        "sequence": code_of(shown.passes_of(config)),
        "helpers": code_of_helpers(shown.passes_of(config)),
        "device": config.get("device") or "cpu",
        "only_compile": config.get("run") == "off",
        "level": config.get("opt-level"),
        "earlier": shown.earlier,
        "raises": shown.raises,
    }


RUNNER = Runner(
    ("apache-tvm", "onnx"),
    "tvm",
    PART,
    _settings,
    imports=("import onnx",),
    formats=("onnx",),
    slow=20.0,
    short=SHORT,
)
