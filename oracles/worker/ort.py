"""ONNX Runtime's half in the worker: options of sessions, values that numpy cannot hold, small models.

In come arrays and settings; out come sessions and onnxruntime's values. Called by
`oracles/backends/ort.py` in the worker only. Python 3.8 syntax. Here stands what ONNX Runtime calls levels of
optimisation and element types, and the options of a session that a case may hold beside its program
(`session.disable_prepacking=1`): no framework is needed to know it.
"""

from __future__ import annotations

import ctypes
from typing import Any, Iterable  # noqa: UP035 (Python 3.8)

import numpy as np
from onnxruntime.capi import onnxruntime_pybind11_state

LEVELS = {
    "none": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "layout": "ORT_ENABLE_LAYOUT",
    "all": "ORT_ENABLE_ALL",
}
"""Of graph optimisation, by crux's name."""

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

CODES = {name: code for name, (code, _) in ELEMENTS.items()}
NAMES = {code: name for name, code in CODES.items()}
STRANGE = frozenset(list(ELEMENTS)[list(ELEMENTS).index("bfloat16") :])
STRANGE_TYPES = frozenset(ELEMENTS[name][1] for name in STRANGE)

ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "execution_mode": ("parallel",),
    "execution_order": ("priority",),
    "intra_op_num_threads": ("2", "4"),
    "enable_mem_pattern": ("0",),
    "enable_cpu_mem_arena": ("0",),
    "enable_mem_reuse": ("0",),
    "use_deterministic_compute": ("1",),
    "free_dims": ("fixed",),
}
"""Attributes of `SessionOptions` by their values; `free_dims` fixes each symbolic dim at the input's size."""

ENTRIES: dict[str, tuple[str, ...]] = {
    "optimization.constant_folding_max_output_size_in_bytes": ("0", "64"),
    "session.debug_layout_transformation": ("1",),
    "session.disable_aot_function_inlining": ("1",),
    "session.disable_double_qdq_remover": ("1",),
    "session.disable_prepacking": ("1",),
    "session.disable_qdq_constant_folding": ("1",),
    "session.disable_quant_qdq": ("1",),
    "session.dynamic_block_base": ("1", "4"),
    "session.graph_optimizations_loop_level": ("0", "2"),
    "session.prepack.enable_parallel": ("1",),
    "session.qdqisint8allowed": ("1",),
    "session.use_device_allocator_for_initializers": ("1",),
    "session.use_env_allocators": ("1",),
    "session.x64quantprecision": ("1",),
}
"""Entries of the session's configuration; those that change results by design are left out."""

OPTIONS = {**ATTRIBUTES, **ENTRIES}
"""Every option with the values that it is drawn from."""

NAMED = {
    ("execution_mode", "parallel"): "ExecutionMode.ORT_PARALLEL",
    ("execution_order", "priority"): "ExecutionOrder.PRIORITY_BASED",
}
"""Values that are members of an enumeration."""


def apply(options: Any, core: Any, members: Iterable[str]) -> None:
    """Set the options of a session, but for `free_dims`."""
    for member in members:
        name, _, value = member.partition("=")
        if name in ENTRIES:
            options.add_session_config_entry(name, value)
        elif (name, value) in NAMED:
            kind, _, which = NAMED[name, value].partition(".")
            setattr(options, name, getattr(getattr(core, kind), which))
            if name == "execution_mode":
                options.inter_op_num_threads = 2
        elif name != "free_dims":
            setattr(options, name, int(value) if name.endswith("threads") else value != "0")


def fix_dims(options: Any, inputs: Iterable[Any], values: dict[str, Any]) -> None:
    """Fix each symbolic dim of a session's inputs at the size that a value has there."""
    for each in inputs:
        given = getattr(values.get(each.name), "shape", ())
        for size, dim in zip(given, each.shape if len(given) == len(each.shape) else ()):  # noqa: B905
            if isinstance(dim, str):
                options.add_free_dimension_override_by_name(dim, size)


def code_of(members: Iterable[str]) -> tuple[str, ...]:
    """The statements of a script that set these on `options`, but for `free_dims`; `ort` is onnxruntime."""
    lines: list[str] = []
    for name, _, value in (member.partition("=") for member in members):
        if name in ENTRIES:
            lines.append(f'options.add_session_config_entry("{name}", "{value}")')
        elif (name, value) in NAMED:
            lines.append(f"options.{name} = ort.{NAMED[name, value]}")
            lines += ["options.inter_op_num_threads = 2"] if name == "execution_mode" else []
        elif name != "free_dims":
            lines.append(f"options.{name} = {int(value) if name.endswith('threads') else value != '0'}")
    return tuple(lines)


core: Any = onnxruntime_pybind11_state
"""What the public classes of onnxruntime call, without their checks."""


def session_options(settings: dict[str, Any], program: Any = None, inputs: Any = None) -> Any:
    """The options of a session with these settings; some fix what a program leaves open, by its inputs."""
    options = core.SessionOptions()
    level = LEVELS[settings.get("level", "all")]
    options.graph_optimization_level = getattr(core.GraphOptimizationLevel, level)
    options.intra_op_num_threads = int(settings.get("threads") or 1)
    options.inter_op_num_threads = 1
    options.log_severity_level = 0 if settings.get("log") else 4
    members = settings.get("passes") or ()
    apply(options, core, members)
    if "free_dims=fixed" in members and program is not None:
        plain = core.InferenceSession(options, program, isinstance(program, str), False)
        fix_dims(options, plain.inputs_meta, inputs)
    if settings.get("guarded"):  # each tensor has a block of its own
        options.enable_cpu_mem_arena = options.enable_mem_pattern = False
    if settings.get("plainly_planned"):  # the search for memory to use again is cubic in the nodes
        options.enable_mem_reuse = False
    return options


def signature_of(session: Any) -> dict[str, Any]:
    """Map what a session takes and gives to its type and its shape."""
    sides = (("input", session.inputs_meta), ("output", session.outputs_meta))
    return {f"{side} {each.name!r}": (each.type, each.shape) for side, every in sides for each in every}


def run_small(program: bytes, feeds: dict[str, Any]) -> Any:
    """The first result of a small model, un-optimised."""
    session = core.InferenceSession(session_options({"level": "none"}), program, False, False)
    session.initialize_session(["CPUExecutionProvider"], [{}], set())
    return session.run_with_ort_values(feeds, ["y"], None)[0]


def small_model(operator: str, inputs: dict[str, tuple[int, str]], *, constant: Any = None) -> bytes:
    """`y = operator(inputs…)`, or `y` a constant (type name, array).

    An input is (element type, `tensor` or `sequence`).
    """
    graph = _field(2, b"g") + _field(12, _field(1, b"y"))
    if constant:
        graph += _field(5, _tensor(*constant) + _field(8, b"y"))
    else:
        operands = b"".join(_field(1, name.encode()) for name in inputs)
        graph += _field(1, operands + _field(2, b"y") + _field(4, operator.encode()))
    for name, (code, kind) in inputs.items():
        tensor = _field(1, _number(1, code))
        kind_of = tensor if kind == "tensor" else _field(4, _field(1, tensor))
        graph += _field(11, _field(1, name.encode()) + _field(2, kind_of))
    return _number(1, 8) + _field(7, graph) + _field(8, _number(2, 14))


def _tensor(name: str, data: Any) -> bytes:
    """A TensorProto without its name."""
    dims = b"".join(_number(1, size) for size in data.shape)
    if name != "object":
        return dims + _number(2, CODES[name]) + _field(9, data.tobytes())
    texts = (_field(6, text.encode("utf-8", "surrogatepass")) for text in data.reshape(-1))
    return dims + _number(2, CODES["str"]) + b"".join(texts)


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    more = value >> 7
    return bytes([value & 127 | (128 if more else 0)]) + (_varint(more) if more else b"")


BORROWED: list[Any] = []
"""Arrays whose memory the values of this run use: onnxruntime does not keep them alive itself."""


def is_plain(inputs: Iterable[Any], types: list[str]) -> bool:
    """Whether numpy can hold every input and output, so that the usual call does."""
    return not any(map(_has_bits, inputs)) and not any(text in STRANGE_TYPES for text in types)


def _has_bits(value: Any) -> bool:
    return isinstance(value, tuple) or (isinstance(value, list) and any(map(_has_bits, value)))


def as_map(value: Any) -> Any:
    """A map that came as the list of its keys and its values."""
    keys, values = value
    return dict(zip(keys.tolist(), values.tolist()))  # noqa: B905 (Python 3.8)


def dense(value: Any) -> Any:
    """A value with a sparse tensor written out, since such an object is equal to itself alone."""
    if not isinstance(value, core.SparseTensor):
        return value
    shape, kept = tuple(value.dense_shape()), np.asarray(value.values())
    full = np.zeros(shape, kept.dtype)
    if "COO" in str(value.format).upper():
        indices = np.asarray(value.get_coo_data().indices())
        flat = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), shape)
        full.reshape(-1)[flat] = kept
        return full
    rows = value.get_csrc_data()
    inner, outer = np.asarray(rows.inner()), np.asarray(rows.outer())
    full[np.repeat(np.arange(len(outer) - 1), np.diff(outer)), inner] = kept
    return full


def to_ortvalue(value: Any) -> Any:
    """Make an OrtValue. If this release's interface cannot, a small model makes it."""
    if isinstance(value, list):
        return _sequence(value)
    name, data = value if isinstance(value, tuple) else (value.dtype.name, value)
    if name in WIDTHS:
        data = pack(data, WIDTHS[name])
    if name != "object" and hasattr(core.OrtValue, "ortvalue_from_numpy_with_onnx_type"):
        BORROWED.append(np.require(data, requirements="C"))
        return core.OrtValue.ortvalue_from_numpy_with_onnx_type(BORROWED[-1], CODES[name])
    return run_small(small_model("", {}, constant=(name, data)), {})


def _sequence(items: list[Any]) -> Any:
    values = {f"x{index}": to_ortvalue(item) for index, item in enumerate(items)}
    if not values:
        return run_small(small_model("SequenceEmpty", {}), {})
    kinds = {name: (value.element_type(), "tensor") for name, value in values.items()}
    return run_small(small_model("SequenceConstruct", kinds), values)


def from_ortvalue(value: Any) -> Any:
    """An array, a list, or (type, bits) for the types that numpy cannot hold, read where the value lies."""
    if not value.has_value():
        return None
    if value.is_tensor_sequence():
        return _items(value)
    name = NAMES[value.element_type()]
    if name not in STRANGE:
        return value.numpy()
    shape = tuple(value.shape())
    count = int(np.prod(shape))
    width = WIDTHS.get(name, 16 if name == "bfloat16" else 8)
    raw = np.frombuffer(
        ctypes.string_at(value.data_ptr(), -(-count * width // 8)) if count else b"", dtype="uint8"
    )
    if name in WIDTHS:
        places = [(raw >> (place * width)) & ((1 << width) - 1) for place in range(8 // width)]
        raw = np.stack(places, axis=1).reshape(-1)[:count].copy()
    return name, raw.view("uint16" if name == "bfloat16" else "uint8").reshape(shape)


def _items(value: Any) -> list[Any]:
    code = value.element_type()
    count = int(run_small(small_model("SequenceLength", {"x": (code, "sequence")}), {"x": value}).numpy())
    at = small_model("SequenceAt", {"x": (code, "sequence"), "i": (CODES["int64"], "tensor")})
    places = (to_ortvalue(np.array(index, dtype="int64")) for index in range(count))
    return [from_ortvalue(run_small(at, {"x": value, "i": place})) for place in places]


def pack(data: Any, width: int) -> Any:
    """Several elements to a byte, the first in the low bits; the shape stays, the rest is unused."""
    per_byte = 8 // width
    flat = np.zeros(-(-data.size // per_byte) * per_byte, dtype="uint8")
    flat[: data.size] = data.reshape(-1) & ((1 << width) - 1)
    packed = np.zeros(data.size, dtype="uint8")
    groups = flat.reshape(-1, per_byte)
    packed[: len(groups)] = sum(groups[:, place] << (place * width) for place in range(per_byte))
    return packed.reshape(data.shape)
