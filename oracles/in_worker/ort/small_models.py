"""Models of one node, encoded by hand: the worker may have no `onnx`."""

from __future__ import annotations

from typing import Any

from oracles.in_worker.ort.names import CODES


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
    """Return a TensorProto without its name."""
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
