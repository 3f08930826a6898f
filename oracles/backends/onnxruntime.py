"""ONNX Runtime: a part that runs in the worker (Python 3.8, numpy, onnxruntime), and a part in crux."""

from __future__ import annotations

import ctypes
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from corpus.target import Target
    from oracles.run import Config, Run

NAME = "ort"
PACKAGE = "onnxruntime"

# In the worker

LEVELS = {
    "none": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "layout": "ORT_ENABLE_LAYOUT",
    "all": "ORT_ENABLE_ALL",
}

ELEMENTS = {
    "bool": (9, "tensor(bool)"),
    "float32": (1, "tensor(float)"),
    "float64": (11, "tensor(double)"),
    "float16": (10, "tensor(float16)"),
    "int8": (3, "tensor(int8)"),
    "int16": (5, "tensor(int16)"),
    "int32": (6, "tensor(int32)"),
    "int64": (7, "tensor(int64)"),
    "uint8": (2, "tensor(uint8)"),
    "uint16": (4, "tensor(uint16)"),
    "uint32": (12, "tensor(uint32)"),
    "uint64": (13, "tensor(uint64)"),
    "str": (8, "tensor(string)"),
    "bfloat16": (16, "tensor(bfloat16)"),
    "float8_e4m3fn": (17, "tensor(float8e4m3fn)"),
    "float8_e4m3fnuz": (18, "tensor(float8e4m3fnuz)"),
    "float8_e5m2": (19, "tensor(float8e5m2)"),
    "float8_e5m2fnuz": (20, "tensor(float8e5m2fnuz)"),
    "uint4": (21, "tensor(uint4)"),
    "int4": (22, "tensor(int4)"),
    "float4_e2m1fn": (23, "tensor(float4e2m1)"),
    "float8_e8m0fnu": (24, "tensor(float8e8m0)"),
    "uint2": (25, "tensor(uint2)"),
    "int2": (26, "tensor(int2)"),
}
"""Element types by their names in numpy or ml_dtypes: ONNX's number and onnxruntime's text."""

WIDTHS = {"uint4": 4, "int4": 4, "float4_e2m1fn": 4, "uint2": 2, "int2": 2}
"""Bits of the types that are packed several to a byte."""

core: Any = None


def load() -> str:
    """Import the framework (in the zygote) and warm it up; its version."""
    global core
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state

    core = onnxruntime_pybind11_state
    onnxruntime.set_default_logger_severity(4)
    run(_identity_model(), {"x": _numpy().zeros(1, "float32")}, {"level": "all"}, None, lambda phase: None)
    return str(onnxruntime.__version__)


def run(
    program: Any, inputs: dict[str, Any], settings: dict[str, Any], outputs: Any, enter: Any
) -> dict[str, Any]:
    """Load, initialise and run one model (bytes or a path); `enter` is told the phase before each."""
    level = settings.get("level", "all")
    options = session_options(settings)
    session = core.InferenceSession(options, program, isinstance(program, str), False)
    if level != "none":
        enter("optimise")
    names = list(settings.get("providers") or ["CPUExecutionProvider"])
    session.initialize_session(names, [{} for _ in names], set(settings.get("disabled") or ()))
    enter("execute")
    found = {node.name: node.type for node in session.outputs_meta}
    wanted = list(found) if outputs is None else list(outputs)
    if is_plain(inputs, [found.get(name, "") for name in wanted]):
        values = session.run(wanted, inputs, None)
    else:
        feeds = {name: to_ortvalue(value) for name, value in inputs.items() if value is not None}
        values = [from_ortvalue(value) for value in session.run_with_ort_values(feeds, wanted, None)]
    return {wanted[index]: value for index, value in enumerate(values)}


def session_options(settings: dict[str, Any]) -> Any:
    options = core.SessionOptions()
    level = LEVELS[settings.get("level", "all")]
    options.graph_optimization_level = getattr(core.GraphOptimizationLevel, level)
    options.intra_op_num_threads = int(settings.get("threads") or 1)
    options.inter_op_num_threads = 1
    options.log_severity_level = 0 if settings.get("log") else 4
    return options


def is_plain(inputs: dict[str, Any], types: list[str]) -> bool:
    """Whether numpy can hold every input and output, so that the usual call does."""
    strange = {
        text for name, (_, text) in ELEMENTS.items() if name not in ("str", "bool") and not _is_numpy(name)
    }
    return not (
        any(_is_bits(value) for value in inputs.values()) or any(_inner(text) in strange for text in types)
    )


def _inner(text: str) -> str:
    match = re.search(r"tensor\(\w+\)", text)
    return match.group() if match else text


def _is_numpy(name: str) -> bool:
    return name in ("float16", "float32", "float64") or bool(re.fullmatch(r"u?int(8|16|32|64)", name))


def _is_bits(value: Any) -> bool:
    return isinstance(value, tuple) or (isinstance(value, list) and any(_is_bits(item) for item in value))


def to_ortvalue(value: Any) -> Any:
    np = _numpy()
    name, data = value if isinstance(value, tuple) else (value.dtype.name, value)
    if name in WIDTHS:
        data = pack(data, WIDTHS[name])
    return core.OrtValue.ortvalue_from_numpy_with_onnx_type(np.ascontiguousarray(data), ELEMENTS[name][0])


def from_ortvalue(value: Any) -> Any:
    """An array, or (type, bits) for the types that numpy cannot hold, read where the value lies."""
    np = _numpy()
    number = value.element_type()
    name = next(name for name, (code, _) in ELEMENTS.items() if code == number)
    if name == "str" or name == "bool" or _is_numpy(name):
        return value.numpy()
    shape = tuple(value.shape())
    size = value.tensor_size_in_bytes() if all(shape) else 0
    raw = np.frombuffer(ctypes.string_at(value.data_ptr(), size) if size else b"", dtype="uint8")
    if name in WIDTHS:
        raw = unpack(raw, WIDTHS[name], int(np.prod(shape)))
    return name, raw.view("uint16" if name == "bfloat16" else "uint8").reshape(shape)


def pack(data: Any, width: int) -> Any:
    """Several elements to a byte, the first in the low bits; the array keeps its shape, the rest is unused."""
    np = _numpy()
    per_byte = 8 // width
    flat = np.zeros(-(-data.size // per_byte) * per_byte, dtype="uint8")
    flat[: data.size] = data.reshape(-1) & ((1 << width) - 1)
    packed = np.zeros(data.size, dtype="uint8")
    groups = flat.reshape(-1, per_byte)
    packed[: len(groups)] = sum(groups[:, place] << (place * width) for place in range(per_byte))
    return packed.reshape(data.shape)


def unpack(raw: Any, width: int, count: int) -> Any:
    np = _numpy()
    places = [(raw >> (place * width)) & ((1 << width) - 1) for place in range(8 // width)]
    return np.stack(places, axis=1).reshape(-1)[:count].copy()


def tables() -> list[list[Any]]:
    """Which kernels there are: [domain, operator, provider, first opset, last opset, {parameter: types}]."""
    rows = []
    for kernel in core.get_all_opkernel_def():
        start, end = kernel.version_range
        types = {name: list(found) for name, found in kernel.type_constraints.items()}
        rows.append([kernel.domain, kernel.op_name, kernel.provider, start, end, types])
    return rows


def _numpy() -> Any:
    import numpy

    return numpy


def _identity_model() -> bytes:
    """`y = Identity(x)` of one float, encoded by hand: the worker has no `onnx`."""
    node = b"\x0a\x01x\x12\x01y\x22\x08Identity"
    graph = _field(1, node) + _field(2, b"g") + _field(11, _typed(b"x")) + _field(12, _typed(b"y"))
    return b"\x08\x08" + _field(7, graph) + _field(8, b"\x10\x0d")


def _field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2, len(data)]) + data


def _typed(name: bytes) -> bytes:
    dims = _field(2, _field(1, b"\x08\x01"))
    return _field(1, name) + _field(2, _field(1, b"\x08\x01" + dims))


# In crux


def configs(target: Target) -> tuple[Config, ...]:
    """Un-optimised, all optimisations, then the levels between."""
    from oracles.run import Config

    providers = provider_names(target.device)
    shared = (("providers", providers), ("threads", int(target.get("threads", "1"))))
    return tuple(Config(level, (("level", level), *shared)) for level in ("none", "all", "basic", "extended"))


def provider_names(device: str) -> tuple[str, ...]:
    if device == "cpu":
        return ("CPUExecutionProvider",)
    known = {
        "cuda": "CUDA",
        "tensorrt": "Tensorrt",
        "dnnl": "Dnnl",
        "openvino": "OpenVINO",
        "xnnpack": "Xnnpack",
    }
    name = known.get(device, device)
    full = name if name.endswith("ExecutionProvider") else f"{name}ExecutionProvider"
    return (full, "CPUExecutionProvider")


CLASSES = (
    ("unsupported", re.compile(r"NOT_IMPLEMENTED|Could not find an implementation|No Op registered for")),
    ("out-of-memory", re.compile(r"std::bad_alloc|Failed to allocate memory|bad allocation")),
)


def classify(run: Run) -> str:
    """What a failed run's message says of itself: "" when it may be a bug."""
    return next((name for name, pattern in CLASSES if pattern.search(run.message)), "")


__all__ = ["NAME", "PACKAGE", "classify", "configs", "load", "run", "tables"]
