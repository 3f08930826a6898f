"""OpenVINO as a project."""

from collections.abc import Mapping
from typing import Any

from oracles.verdict import Config, Phase, Run
from triage.projects import ClaimedRun, Installing, Project, Runner, ShortScript, Words

PART = '''\
CONFIGS = {{ configs | repr }}  # the properties that the model is compiled with


def package_version():
    return metadata.version("openvino")


def run(config, path):
    """In a process of its own: read, compile and run the model once, save the outputs."""
{% include "limit_memory.py.j2" %}
    import openvino

    try:
        save_outputs(path, compile_and_run(openvino, CONFIGS[config]))
{% set full = "allocate memory" %}
{% include "failed.py.j2" %}


def compile_and_run(openvino, options):
    core = openvino.Core()
    model = core.read_model(build_model())
    compiled = core.compile_model(model, "CPU", options)
    request, given = compiled.create_infer_request(), build_inputs()
    parameters, renamed = model.get_parameters(), dict(given)  # a Dropout renames its input
    known = [{each.get_friendly_name(), *each.output(0).get_names()} for each in parameters]
    found = [next((renamed.pop(name) for name in given if name in names), None) for names in known]
    rest = iter(renamed.values())
    for place, value in enumerate(found):
        value = next(rest) if value is None else value
        request.set_input_tensor(place, to_tensor(openvino, value, parameters[place].get_element_type()))
    request.infer()
    results = [request.get_output_tensor(place) for place in range(len(compiled.outputs))]
    return [(f"output {place}", *from_tensor(each)) for place, each in enumerate(results)]


def to_tensor(openvino, value, element):
{% if plain %}
    data = value
{% else %}
    data = value[1]
{% endif %}
    if data.dtype.kind in "OUS":
        return openvino.Tensor(data.astype(str))
    tensor = openvino.Tensor(element, data.shape)
    if data.size:
        tensor.data.reshape(-1).view("uint8")[:] = np.ascontiguousarray(data).reshape(-1).view("uint8")
    return tensor


def from_tensor(tensor):
    """The element type and the array; bit patterns where numpy lacks the type."""
    element = tensor.get_element_type().get_type_name()
    if element == "string":
        return "string", tensor.str_data.astype(str)
    data = np.array(tensor.data).reshape(tuple(tensor.shape))
    wider = {"bf16": ("bfloat16", "uint16"), "f8e4m3": ("float8_e4m3fn", "uint8"), "f8e5m2": ("float8_e5m2", "uint8")}
    name, bits = wider.get(element, (data.dtype.name, data.dtype))
    return name, data.view(bits)
'''
"""Reads a model, compiles and runs it."""

RUN = """\
inputs = {{ inputs }}

def run(options):
    core = ov.Core()
    request = core.compile_model(core.read_model({{ model }}), "CPU", options).create_infer_request()
    return list(request.infer(inputs).values())
"""

SHORT = ShortScript(
    imports="""\
import numpy as np
import openvino as ov
""",
    program="{{ code }}",
    run=RUN,
    call=lambda settings, label: f"run({settings['configs'][label]!r})",
    holds=True,
    builds="onnx",
)
"""Reads the model, compiles and runs it."""

HINTS = {"f32": {"INFERENCE_PRECISION_HINT": "f32", "EXECUTION_MODE_HINT": "ACCURACY"}, "default": {}}


def _options(config: Config) -> dict[str, str | int]:
    threads = config.get("threads")
    options: dict[str, str | int] = {**HINTS[str(config.get("hint"))]}
    return {**options, "INFERENCE_NUM_THREADS": threads if isinstance(threads, int) else 1}


def _settings(shown: ClaimedRun) -> Mapping[str, Any]:
    """The properties of each configuration."""
    return {"configs": {label: _options(config) for label, config in shown.own.items()}}


def _labels(run: Run, may_be_reader: bool) -> tuple[str, ...]:
    """The labels of a bug: its form's own two, and the part that it is in."""
    return ("bug", "support_request", "category: ONNX FE" if run.phase is Phase.IMPORT else "category: CPU")


def _words(config: Config) -> str:
    given = ", ".join(f"{name}={value}" for name, value in HINTS.get(str(config.get("hint")), {}).items())
    return f"with {given or 'the default hints'}"


PROJECT = Project(
    "openvino",
    package="openvino",
    backends=("openvino",),
    issues="https://github.com/openvinotoolkit/openvino/issues",
    template="issue_openvino.md.j2",
    labels=_labels,
    runners=(Runner(("openvino",), "openvino", PART, _settings, short=SHORT, slow=5.0),),
    varied=("openvino",),
    words=Words(_words, kind="", optimising=lambda config: "while it compiles the model"),
    installing=Installing(needs=("onnx",)),
)
