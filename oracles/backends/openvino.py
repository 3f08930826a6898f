"""OpenVINO on the CPU: a part in the worker (Python 3.8, numpy, onnx, openvino), and a part in crux."""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Callable, Iterator  # noqa: UP035 (Python 3.8)

if TYPE_CHECKING:
    from corpus.target import Target
    from oracles.abilities import Backend
    from oracles.verdict import Config, Run

NAME = "openvino"
PACKAGE = "openvino"
LIBRARIES = (
    ("openvino/libs/libopenvino_onnx_frontend.so.*", ""),
    ("openvino/libs/libopenvino.so.*", ""),
    ("openvino/libs/libopenvino_intel_cpu_plugin.so", ""),
)
HINTS = {"f32": {"INFERENCE_PRECISION_HINT": "f32", "EXECUTION_MODE_HINT": "ACCURACY"}, "default": {}}
"""The properties of a way to compile: in float32 throughout, or as the machine does it fastest."""

COMPUTED_AS = {"int64": "int32", "uint64": "int32", "uint32": "int32", "int16": "int32", "uint16": "int32"}
"""The type in which the CPU plugin computes another one."""

_LACKS = """
BitCast CausalConvWithState ConcatFromSequence CumProd DeformConv Det ImageDecoder LinearAttention
MaxUnpool MelWeightMatrix Optional OptionalGetElement OptionalHasElement RegexFullMatch
SequenceConstruct SequenceErase SequenceInsert SequenceLength SequenceMap SplitToSequence StringConcat
StringNormalizer StringSplit SwiGLU TensorScatter TfIdfVectorizer
"""
LACKS = frozenset(_LACKS.split())
"""The operators of ONNX for which its importer has no rule."""
_MICROSOFT = """
BiasGelu FastGelu FusedConv FusedGemm FusedMatMul Pad QLinearAdd QLinearAveragePool QLinearConcat
QLinearLeakyRelu QLinearMul QLinearSigmoid QLinearSoftmax QuickGelu SimplifiedLayerNormalization
SkipLayerNormalization SkipSimplifiedLayerNormalization Trilu
"""
MICROSOFT = tuple(_MICROSOFT.split())
"""Those of onnxruntime's own that it has one for."""

NARROWED = "OpenVINO computes float64 in float32 on the CPU: it is not supported"
NO_INPUT = "OpenVINO takes no input of dtype sequence, optional or map"

# In the worker


def load() -> str:
    """Import the framework without its telemetry, which starts a thread, and read a model; its version.

    Nothing is compiled here: that starts the threads of the plugin, which no fork survives.
    """
    sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
    from importlib.metadata import version

    import openvino

    from oracles.worker.ort.sessions import small_model

    openvino.Core().read_model(small_model("Neg", {"x": (1, "tensor")}))
    return version(PACKAGE)


def run(
    program: Any, inputs: dict[str, Any], settings: dict[str, Any], outputs: Any, enter: Callable[[str], None]
) -> dict[str, Any]:
    """Read, compile and run one ONNX model (bytes or a path) on the CPU.

    Settings: `hint` (of `HINTS`), `threads`.
    """
    import openvino

    from oracles.worker.onnx import fed_names, read_model

    graph = read_model(program).graph
    core = openvino.Core()
    with _in_short():
        model = core.read_model(program)
    _must_be_computed(model)
    enter("optimise")
    options = {**HINTS[settings.get("hint", "f32")], "NUM_STREAMS": 1}
    options["INFERENCE_NUM_THREADS"] = settings.get("threads", 1)
    with _in_short():
        compiled = core.compile_model(model, "CPU", options)
    enter("execute")
    request = compiled.create_infer_request()
    parameters = model.get_parameters()
    for place, name in enumerate(_fed(parameters, fed_names(graph))):
        request.set_input_tensor(place, _to_tensor(inputs[name], parameters[place].get_element_type()))
    with _in_short():
        request.infer()
    names = [value.name for value in graph.output]
    found = {name: _from_tensor(request.get_output_tensor(place)) for place, name in enumerate(names)}
    return found if outputs is None else {name: found[name] for name in outputs}


FRAME = re.compile(
    r"Exception from \S+:\d+:|Check 'false' failed at \S*unconverted_ops_report\S*"
    r"|Model wasn't fully converted.*|-- \S+ with a message:"
    r"|FrontEnd API failed with \w+:|Summary:|-- Conversion is failed for: .*|To facilitate the conversion .*"
    r"|While validating node .*"
)
"""The lines that stand about any error: whoever passed it on."""
VALIDATING = re.compile(r"^While validating ONNX node '<.*?>': ", re.M)
CHECK = re.compile(r"Check '.*' failed at \S+:\d+:")
"""The condition that did not hold: what it means stands in the lines after it."""


@contextmanager
def _in_short() -> Iterator[None]:
    """An error of OpenVINO says first what is wrong."""
    try:
        yield
    except RuntimeError as error:
        lines = [line.strip() for line in VALIDATING.sub("", str(error)).splitlines()]
        said = [line for line in lines if line and not FRAME.fullmatch(line)]
        said.sort(key=lambda line: CHECK.fullmatch(line) is not None)
        raise RuntimeError("\n".join(said) or str(error)) from error


def vocabulary() -> list[str]:
    """The operators of ONNX models that its importer has a rule for."""
    from onnx import defs

    plain = sorted({each.name for each in defs.get_all_schemas() if not each.domain} - LACKS)
    return [*plain, *(f"com.microsoft.{name}" for name in MICROSOFT)]


def _must_be_computed(model: Any) -> None:
    """Refuse float64: its results would be float32's."""
    import openvino

    for node in model.get_ops():
        if any(port.get_element_type() == openvino.Type.f64 for port in node.outputs()):
            raise NotImplementedError(NARROWED)


def _fed(parameters: Any, names: list[str]) -> list[str]:
    """The name in the program of each parameter: what nothing reads is gone, a Dropout renames its input."""
    known = [{each.get_friendly_name(), *each.output(0).get_names()} for each in parameters]
    found = [next((name for name in names if name in each), "") for each in known]
    renamed = iter([name for name in names if name not in found])
    return [name or next(renamed) for name in found]


def _to_tensor(given: Any, element: Any) -> Any:
    import numpy as np
    import openvino

    from oracles.worker.onnx import to_array

    value = to_array(given)
    if not isinstance(value, np.ndarray):
        raise NotImplementedError(NO_INPUT)
    if value.dtype.kind in "OUS":
        return openvino.Tensor(value.astype(str) if value.size else value)
    if element.bitwidth < 8:
        raise NotImplementedError(f"OpenVINO takes no input of dtype {value.dtype.name} from numpy")
    tensor = openvino.Tensor(element, value.shape)
    if value.size:
        tensor.data.reshape(-1).view(np.uint8)[:] = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    return tensor


def _from_tensor(tensor: Any) -> Any:
    """The array of an output; types that numpy lacks are those of ml_dtypes."""
    import numpy as np
    import openvino

    element = tensor.get_element_type()
    if element == openvino.Type.string:
        return tensor.str_data.astype(object)
    if element.bitwidth < 8:
        raise NotImplementedError(f"OpenVINO gives no output of {element.get_type_name()} to numpy")
    wider = {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}
    name = wider.get(element.get_type_name())
    if name is None:
        return np.array(tensor.data).reshape(tuple(tensor.shape))
    import ml_dtypes

    bits = np.array(tensor.data).reshape(-1).view(np.uint8)
    return bits.view(getattr(ml_dtypes, name)).reshape(tuple(tensor.shape))


# In crux


def configs(target: Target) -> tuple[Config, ...]:
    """In float32 throughout, or by another `@hint=`."""
    from oracles.verdict import Config

    target.must_be_on(("cpu",), "crux runs OpenVINO on the CPU only")
    hint = target.chosen("hint", tuple(HINTS))
    threads = (("threads", int(target.get("threads"))),) if target.get("threads") else ()
    return (Config("compiled" if hint == "f32" else hint, (("hint", hint), *threads)),)


UNSUPPORTED = re.compile(
    r"No conversion rule found|Unknown activation function|[Nn]ot supported|[Uu]nsupported|not implemented"
    r"|NOT_IMPLEMENTED|(takes no input|gives no output) of|([Dd]oesn't|does not) support|Not Implemented:"
    r"|K \(0\) must be greater"  # ONNX wants a positive one
)


def classify(run: Run) -> str:
    """Return `unsupported` for an operator or element type that OpenVINO does not have, by its own words."""
    return "unsupported" if not run.is_ok and UNSUPPORTED.search(run.message) else ""


def tags(run: Run) -> tuple[str, ...]:
    """`importer-limit` for what OpenVINO declares itself not to do, in a form that only the program has."""
    return ("importer-limit",) if classify(run) else ()


def backend() -> Backend:
    """Describe this backend."""
    from oracles.abilities import Backend

    return Backend(
        NAME,
        PACKAGE,
        __file__,
        configs,
        classify,
        tags,
        baseline="ort",  # it has no mode that does not optimise
        tells_operators=True,
        libraries=LIBRARIES,
        lacks=frozenset({"float64"}),
        computed_as=COMPUTED_AS,
        clamps=frozenset({"int8", "uint8"}),
        leaves_nan=frozenset({"ArgMax", "ArgMin"}),  # its TopK, whose text says so
    )
