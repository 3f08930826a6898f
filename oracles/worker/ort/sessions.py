"""Sessions of ONNX Runtime: their options, and a run of a small model."""

from __future__ import annotations

import ctypes
from typing import Any, Iterable  # noqa: UP035 (Python 3.8)

import numpy as np
from onnxruntime.capi import onnxruntime_pybind11_state

from oracles.worker.ort import CODES, LEVELS, NAMES, STRANGE, STRANGE_TYPES, WIDTHS, apply, fix_dims

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
    if not settings.get("warm"):  # threads that wait for work would take more than most programs do
        for pool in ("intra", "inter"):
            options.add_session_config_entry(f"session.{pool}_op.allow_spinning", "0")
    members = settings.get("passes") or ()
    apply(options, core, members)
    if "free_dims=fixed" in members and program is not None and not settings.get("earlier"):
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
