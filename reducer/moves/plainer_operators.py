"""An operator gives way to a plainer one that takes and makes the same types."""

from __future__ import annotations

from functools import partial

import onnx
from onnx import NodeProto, TensorProto, helper

from reducer.move import Hints, Move, Search
from reducer.subject.onnx.nodesets import assemble
from reducer.subject.onnx.plain_ops import strangeness
from reducer.subject.onnx.subject import OnnxSubject
from reducer.subject.order import size

LOGICAL = (TensorProto.BOOL,)
NUMERIC = (
    *(TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16),
    *(TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64),
    *(TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64),
)


def plainer_operators(subject: OnnxSubject, hints: Hints) -> Search:
    """Node by node, last first; a node that gave way once is tried again.

    An operator that the failure's own text names cannot give way.
    """
    best, index = subject, len(subject.nodes) - 1
    while index >= 0:
        proposal = partial(_replaced, best, index)
        found = proposal() if best.nodes[index].op_type not in hints.operators else None
        if found is not None and size(found) < size(best) and (yield proposal):
            best = found
            index = min(index, len(best.nodes) - 1)
        else:
            index -= 1
    return best


def _replaced(subject: OnnxSubject, index: int) -> OnnxSubject | None:
    node = _plainer(subject, subject.nodes[index])
    if node is None:
        return None
    return assemble(subject, [*subject.nodes[:index], node, *subject.nodes[index + 1 :]])


def _plainer(subject: OnnxSubject, node: NodeProto) -> NodeProto | None:
    """Return a plainer node: a sum for two operands, an absolute value for one, the operand, or a Cast."""
    used = [name for name in node.output if name]
    kind = subject.kind(used[0]) if len(used) == 1 else None
    if kind is None or len(kind) != 2 or not isinstance(kind[1], tuple):
        return None
    operands = list(dict.fromkeys(name for name in node.input if name))
    same = [name for name in operands if subject.kind(name) == kind]
    pair = [
        *same[:1],
        *(name for name in operands if name not in same[:1] and _broadcasts(subject, name, kind)),
    ]
    cost = strangeness(node)
    logical, numeric = kind[0] in LOGICAL, kind[0] in NUMERIC
    if same and cost > 2 and len(pair) > 1 and (logical or numeric):
        return helper.make_node("And" if logical else "Add", pair[:2], used)
    if same and cost > 1 and (logical or numeric):
        return helper.make_node("Not" if logical else "Abs", same[:1], used)
    if same:
        return helper.make_node("Identity", same[:1], used)
    return _cast(subject, operands, kind, used) if cost > 1 else None


def _broadcasts(subject: OnnxSubject, name: str, kind: tuple[object, ...]) -> bool:
    """Whether a tensor of that element type can be added to one of that kind without changing its dims."""
    other = subject.kind(name)
    if other is None or len(other) != 2 or other[0] != kind[0]:
        return False
    dims, into = other[1], kind[1]
    if not isinstance(dims, tuple) or not isinstance(into, tuple) or len(dims) > len(into):
        return False
    tail = into[len(into) - len(dims) :]
    return all(dim in (1, target) for dim, target in zip(dims, tail, strict=True))


def _cast(
    subject: OnnxSubject, operands: list[str], kind: tuple[object, ...], used: list[str]
) -> onnx.NodeProto | None:
    """Return a Cast if the operand and the result differ in element type alone; else None."""
    for name in operands:
        other = subject.kind(name)
        if other is not None and len(other) == 2 and other[1] == kind[1] and kind[0] in (*NUMERIC, *LOGICAL):
            return helper.make_node("Cast", [name], used, to=kind[0])
    return None


MOVES = (
    Move("plainer operators", 610, plainer_operators, reshapes=True, chance=0.1, late=True, on=OnnxSubject),
)
