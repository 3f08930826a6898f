"""What onnx's own checker and strict inference have against a model.

Only annotations change: the types of outputs and value_info. What the operators compute is never touched, so
a model whose operators contradict each other stays rejected.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Literal

from onnx import GraphProto, ModelProto, TensorProto, TypeProto, ValueInfoProto

from corpus.onnx.client import check
from corpus.onnx.graph import outer_names, subgraphs, tensors, topological
from corpus.onnx.types import (
    graph_types,
    infer,
    is_external,
    is_typed,
    light_copy,
    packed_bytes,
    propagates_well,
    untyped_copy,
)

_LENGTH = 600


def checker_complaint(model: ModelProto) -> str | None:
    """One line of complaint; None when the checker and strict inference accept the model.

    Weights are not needed: external and large ones are checked for their length alone. Operators of domains
    that onnx does not know are tolerated. The checker refuses some models that run, so a complaint alone is
    no proof that a model is invalid; and where it crashes, nothing was said against the model.
    """
    return _order_complaint(model) or _weights_complaint(model) or _onnx_complaint(model)


def _order_complaint(model: ModelProto) -> str | None:
    nodes, known = model.graph.node, outer_names(model.graph)
    ready = set(known)
    for node in nodes:
        if not all(name in ready for name in node.input if name):
            break
        ready.update(node.output)
    else:
        return None
    if topological(nodes, known) is None:
        return "the graph has a cycle, or reads a value that nothing computes"
    return "the nodes are not in topological order"


def _weights_complaint(model: ModelProto) -> str | None:
    for tensor in tensors(model):
        expected = packed_bytes(tensor.data_type, tensor.dims)
        if expected is None or not tensor.HasField("raw_data") or is_external(tensor):
            continue
        held = len(tensor.raw_data)
        if held != expected:
            return f"tensor {tensor.name!r} holds {held} bytes, its type and dims take {expected}"
    return None


def _onnx_complaint(model: ModelProto) -> str | None:
    light = light_copy(model)
    light.graph.value_info.extend(model.graph.value_info)
    inferred = light.SerializeToString()
    for value in light.graph.output:
        declared = value.type
        # Give an output a type and a shape if it has none: backends do without, the checker does not
        if declared.WhichOneof("value") is None:
            declared.tensor_type.elem_type = TensorProto.FLOAT
        if declared.WhichOneof("value") == "tensor_type":
            declared.tensor_type.shape.SetInParent()
    complaint = check(light.SerializeToString(), inferred, propagates_well(light))
    return None if complaint is None else " ".join(complaint.split())[:_LENGTH]


MISSING = "typed by inference, which had no type"
STALE = "type corrected by inference, which contradicted it"
UNTYPED = "left without a type, which inference cannot tell"

_NAMED = 3


@dataclass(frozen=True, slots=True)
class _Mend:
    """One annotation and the type to set; `path` leads to its graph by (node, body) from the main graph."""

    path: tuple[tuple[int, int], ...]
    part: Literal["output", "value_info"]
    index: int
    why: str
    name: str
    type: TypeProto


def repair(model: ModelProto) -> tuple[ModelProto, tuple[str, ...]]:
    """The model with its annotations mended, and a note for each kind of mending.

    The very object when nothing is to be done. An output that inference cannot type (its operator's domain is
    unknown) stays without a type, with a note.
    """
    inferred = infer(untyped_copy(model)).graph
    mends = [*_output_mends(model.graph, inferred), *_value_mends(model.graph, inferred, ())]
    if mends:
        mended = deepcopy(model)
        for mend in mends:
            graph = mended.graph
            for node, body in mend.path:
                graph = subgraphs(graph.node[node])[body]
            values = graph.output if mend.part == "output" else graph.value_info
            values[mend.index].type.CopyFrom(mend.type)
        model = mended
    faults = [(mend.why, mend.name) for mend in mends]
    faults += [(UNTYPED, value.name) for value in model.graph.output if not is_typed(value.type)]
    reasons = dict.fromkeys(why for why, _ in faults)
    return model, tuple(_note(why, [name for reason, name in faults if reason == why]) for why in reasons)


def contradicts(declared: TypeProto, inferred: TypeProto) -> bool:
    """Whether no value is of both types: another kind, element, rank or static size."""
    kind = declared.WhichOneof("value")
    if kind != inferred.WhichOneof("value"):
        return True
    match kind:
        case "tensor_type":
            return _contradicts_tensor(declared.tensor_type, inferred.tensor_type)
        case "sequence_type":
            return contradicts(declared.sequence_type.elem_type, inferred.sequence_type.elem_type)
        case "optional_type":
            return contradicts(declared.optional_type.elem_type, inferred.optional_type.elem_type)
        case _:
            return False


def _contradicts_tensor(declared: TypeProto.Tensor, inferred: TypeProto.Tensor) -> bool:
    if 0 not in (declared.elem_type, inferred.elem_type) and declared.elem_type != inferred.elem_type:
        return True
    if not (declared.HasField("shape") and inferred.HasField("shape")):
        return False
    dims, found = declared.shape.dim, inferred.shape.dim
    if len(dims) != len(found):
        return True
    pairs = ((ours.dim_value, theirs.dim_value) for ours, theirs in zip(dims, found, strict=True))
    return any(ours > 0 and theirs > 0 and ours != theirs for ours, theirs in pairs)


def _output_mends(graph: GraphProto, inferred: GraphProto) -> Iterator[_Mend]:
    types = graph_types(inferred)
    for index, value in enumerate(graph.output):
        found = types.get(value.name)
        if found is None:
            continue
        if not is_typed(value.type) or _lacks_shape(value.type, found):
            yield _Mend((), "output", index, MISSING, value.name, found)
        elif contradicts(value.type, found):
            yield _Mend((), "output", index, STALE, value.name, found)


def _lacks_shape(declared: TypeProto, found: TypeProto) -> bool:
    """Whether a tensor's shape is missing, which the checker refuses in an output, and inference knows it."""
    if declared.WhichOneof("value") != "tensor_type" or contradicts(declared, found):
        return False
    return found.tensor_type.HasField("shape") and not declared.tensor_type.HasField("shape")


def _value_mends(
    graph: GraphProto, inferred: GraphProto, path: tuple[tuple[int, int], ...]
) -> Iterator[_Mend]:
    """Stale value_info of the graph and of its bodies."""
    if graph.value_info:
        yield from _stale(graph.value_info, graph_types(inferred), path)
    for position, (node, twin) in enumerate(zip(graph.node, inferred.node, strict=True)):
        for index, (body, typed) in enumerate(zip(subgraphs(node), subgraphs(twin), strict=True)):
            yield from _value_mends(body, typed, (*path, (position, index)))


def _stale(
    values: Iterable[ValueInfoProto], types: Mapping[str, TypeProto], path: tuple[tuple[int, int], ...]
) -> Iterator[_Mend]:
    for index, value in enumerate(values):
        found = types.get(value.name)
        if found is not None and is_typed(value.type) and contradicts(value.type, found):
            yield _Mend(path, "value_info", index, STALE, value.name, found)


def _note(why: str, names: Sequence[str]) -> str:
    what, _, rest = why.partition(", ")
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(map(repr, names[:_NAMED]))}{more}: {what} ({rest})"
