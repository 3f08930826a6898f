"""ONNX Runtime as a project."""

from collections.abc import Mapping
from typing import Any

from oracles.verdict import Config
from oracles.worker.ort import LEVELS, code_of
from triage.projects import ClaimedRun, Installing, Project, Runner, ShortScript, Words

PART = '''\


CONFIGS = {{ levels | repr }}
PROVIDERS = {{ providers | repr }}
THREADS = {{ threads }}
{% if disabled %}
DISABLED = {{ disabled | repr }}  # transformers that do not take part
{% endif %}
{% if options %}
PLAIN = {{ without_options | repr }}  # runs without the further options
{% endif %}
{% if earlier %}
REPEATING = {{ repeating | repr }}  # makes the earlier runs first, in the same session
{% endif %}


def package_version():
    try:
        import onnxruntime
    except ImportError:
        return ""
    return onnxruntime.__version__


def run(config, path):
    """In a process of its own: make a session, run the model once, save the outputs."""
{% include "limit_memory.py.j2" %}
    import onnxruntime as ort

    ort.set_default_logger_severity(4)
    try:
        save_outputs(path, run_session(ort, CONFIGS[config]{{ ", config in PLAIN" if options }}{{ ", config in REPEATING" if earlier }}))
{% set full = "allocate memory" %}
{% include "failed.py.j2" %}


def run_session(ort, level{{ ", is_plain" if options }}{{ ", repeats" if earlier }}):
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    options.intra_op_num_threads = THREADS
    options.log_severity_level = 4
{% if options %}
    if not is_plain:
{% for line in options %}
        {{ line }}
{% endfor %}
{% endif %}
{% if fixes_dims %}
        for each in ort.InferenceSession(build_model(), providers=PROVIDERS).get_inputs():
            given = build_inputs()[each.name]
            for dim, size in zip(each.shape, getattr(given, "shape", None) or given[1].shape):
                if isinstance(dim, str):
                    options.add_free_dimension_override_by_name(dim, size)
{% endif %}
{% if disabled %}
    session = ort.InferenceSession(build_model(), options, PROVIDERS, disabled_optimizers=DISABLED)
{% else %}
    session = ort.InferenceSession(build_model(), options, PROVIDERS)
{% endif %}
{% if earlier %}
    for inputs in build_earlier_inputs() if repeats else ():
{% if not plain %}
        inputs = {name: to_ortvalue(ort, given) for name, given in inputs.items()}
{% endif %}
{% set call = "session.run(None, inputs)" if plain else "session.run_with_ort_values(None, inputs)" %}
{% set is_told = true %}
{% include "earlier_call.py.j2" %}
{% endif %}
{% if seen == "perf" %}
    inputs, spent = {{ "build_inputs()" if plain else "{name: to_ortvalue(ort, given) for name, given in build_inputs().items()}" }}, []
    for _ in range(50):
        before = time.process_time()
        session.run{{ "" if plain else "_with_ort_values" }}(None, inputs)
        spent.append(time.process_time() - before)
    return [("seconds", "float64", np.array(min(spent)))]
{% else %}
    outputs = []
{% if plain %}
    for place, result in enumerate(session.run(None, build_inputs())):
        name = session.get_outputs()[place].name
        for each in result if isinstance(result, list) else [result]:
            data = np.asarray(each)
            data = data.astype(str) if data.dtype == object else data
            outputs.append((name, data.dtype.name, data))
{% else %}
    names = [output.name for output in session.get_outputs()]
    inputs = {name: to_ortvalue(ort, given) for name, given in build_inputs().items()}
    for name, result in zip(names, session.run_with_ort_values(names, inputs)):
        outputs += [(name, element, data) for element, data in from_ortvalue(ort, result)]
{% endif %}
{% if misuse %}
    if level != "ORT_DISABLE_ALL":
        global core
        from onnxruntime.capi import onnxruntime_pybind11_state as core

        must_keep_within(session._sess, build_inputs(), {name: data for name, _, data in outputs})
{% endif %}
    return outputs
{% endif %}
{% if not plain %}


def to_ortvalue(ort, given):
    """Types that numpy lacks are handed over as bit patterns with the number of the ONNX type."""
    if isinstance(given, list):
        items = {f"x{place}": to_ortvalue(ort, each) for place, each in enumerate(given)}
        return run_small(ort, "SequenceConstruct", items, "sequence")
    element, data = given
    if element == "string":
        return run_small(ort, "Identity", {}, "tensor", tensor("x", element, data.shape, list(data.flat)))
    if element in BITS:
        small = packed(element, data)
        data = np.concatenate([small, np.zeros(data.size - small.size, "uint8")]).reshape(data.shape)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(np.ascontiguousarray(data), ELEMENTS.index(element))


def from_ortvalue(ort, result):
    """Pairs of element type and array, read where the value lies when numpy lacks the type."""
    if result.is_tensor_sequence():
        count = int(run_small(ort, "SequenceLength", {"x": result}, "int64").numpy())
        places = [ort.OrtValue.ortvalue_from_numpy(np.array(place)) for place in range(count)]
        items = [run_small(ort, "SequenceAt", {"x": result, "at": place}, "tensor") for place in places]
        return [pair for item in items for pair in from_ortvalue(ort, item)]
    element = ELEMENTS[result.element_type()]
    shape = tuple(result.shape())
    if ELEMENTS.index(element) < ELEMENTS.index("bfloat16"):
        data = np.asarray(result.numpy())
        return [(element, data.astype(str) if data.dtype == object else data)]
    inner = result._get_c_value() if hasattr(result, "_get_c_value") else result._ortvalue
    count = int(np.prod(shape))
    size = -(-count * BITS.get(element, 16 if element == "bfloat16" else 8) // 8)
    raw = np.frombuffer(ctypes.string_at(inner.data_ptr(), size) if size else b"", dtype="uint8")
    if element in BITS:
        places = [(raw >> shift) & ((1 << BITS[element]) - 1) for shift in range(0, 8, BITS[element])]
        raw = np.stack(places, axis=1).reshape(-1)[:count]
    return [(element, raw.view("uint16" if element == "bfloat16" else "uint8").reshape(shape))]


def run_small(ort, operator, inputs, kind, *constants):
    """What the Python API has no function for is done by a model of one operator."""

    def type_of(result):
        inner = tensor_type(ELEMENTS[result.element_type()])
        return sequence_type(inner) if result.is_tensor_sequence() else inner

    typed = [value(name, type_of(result)) for name, result in inputs.items()]
    names = [*inputs, *["x" for _ in constants]]
    output = value("y", "int64", []) if kind == "int64" else value("y")
    text = graph("g", inputs=typed, constants=constants, nodes=[node(operator, names, ["y"])], outputs=[output])
    session = ort.InferenceSession(model(8, {"": 17}, text), providers=["CPUExecutionProvider"])
    return session.run_with_ort_values(["y"], inputs)[0]
{% endif %}
'''
"""Makes a session at each level; types that numpy lacks go in and out as bit patterns."""


RUN = """\
inputs = {{ inputs }}

{% if earlier %}
{{ with_shape }}

{% endif %}
def run(level{{ ", is_plain" if options }}{{ ", repeats" if earlier }}):
    options = ort.SessionOptions()
    options.graph_optimization_level = level
{% if threads != 1 %}
    options.intra_op_num_threads = {{ threads }}
{% endif %}
{% if options %}
    if not is_plain:
{% for line in options %}
        {{ line }}
{% endfor %}
{% endif %}
{% if fixes_dims %}
        for each in ort.InferenceSession({{ model }}).get_inputs():
            for dim, size in zip(each.shape, inputs[each.name].shape):
                if isinstance(dim, str):
                    options.add_free_dimension_override_by_name(dim, size)
{% endif %}
{% if disabled %}
    disabled = {{ disabled | repr }}
    session = ort.InferenceSession({{ model }}, options, {{ providers | repr }}, disabled_optimizers=disabled)
{% else %}
    session = ort.InferenceSession({{ model }}, options, {{ providers | repr }})
{% endif %}
{% if earlier %}
    for shapes in {{ earlier | repr }} if repeats else ():
        earlier = {name: with_shape(value, shapes[name]) if name in shapes else value for name, value in inputs.items()}
{% set call, is_told = "session.run(None, earlier)", false %}
{% include "earlier_call.py.j2" %}
{% endif %}
    return session.run(None, inputs)
"""

TEST = """\
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
import unittest

{{ imports }}


class {{ title }}(unittest.TestCase):
    def {{ name }}(self):
{{ body | indent(8, true) }}


if __name__ == "__main__":
    unittest.main()
"""
"""As in `onnxruntime/test/python`."""


def _call(settings: Mapping[str, Any], label: str) -> str:
    plain = f", is_plain={label in settings['without_options']}" if settings["options"] else ""
    plain += f", repeats={label in settings['repeating']}" if settings["earlier"] else ""
    return f"run(ort.GraphOptimizationLevel.{settings['levels'][label]}{plain})"


SHORT = ShortScript(
    imports="""\
import numpy as np
import onnxruntime as ort
""",
    program="{{ code }}",
    run=RUN,
    call=_call,
    builds="onnx",
    test=TEST,
)
"""Makes a session at each level and compares what they give."""


def _settings(shown: ClaimedRun) -> Mapping[str, Any]:
    """The settings of a session, in the words of its Python API."""
    first = shown.failing
    return {
        "levels": {label: LEVELS[str(config.get("level"))] for label, config in shown.own.items()},
        "providers": list(_texts(first, "providers") or ("CPUExecutionProvider",)),
        "threads": first.get("threads") or 1,
        "disabled": list(_texts(first, "disabled_optimizers")),
        "options": code_of(shown.passes),
        "fixes_dims": "free_dims=fixed" in shown.passes and not shown.earlier,
        "earlier": shown.earlier,
        "raises": shown.raises,
        "repeating": [label for label, config in shown.own.items() if shown.repeats(config)],
        "misuse": shown.misuse,
        "without_options": [label for label, config in shown.own.items() if not shown.passes_of(config)],
    }


def _texts(config: Config, key: str) -> tuple[str, ...]:
    found = config.get(key)
    return found if isinstance(found, tuple) else ()


def _words(config: Config) -> str:
    level = config.get("level")
    return f"at optimisation level `{level}`" if level else ""


PROJECT = Project(
    "onnxruntime",
    package="onnxruntime",
    backends=("ort",),
    variants=("onnxruntime-gpu", "ort-nightly"),
    devices=("cpu", "cuda"),
    template="issue_onnxruntime.md.j2",
    issues="https://github.com/microsoft/onnxruntime/issues",
    runners=(
        Runner(
            ("onnxruntime",),
            "onnxruntime",
            PART,
            _settings,
            short=SHORT,
            tells=frozenset({"perf"}),
            guards=("oracles.worker.edges", "oracles.worker.ort.bound"),
        ),
    ),
    varied=("ort",),
    words=Words(
        _words,
        "at level ",
        "at every optimisation level",
        lambda config: "while it makes the session",
    ),
    weights={"message": 0.65, "op": 0.2, "site": 0.15},
    installing=Installing(alone=True),
)
