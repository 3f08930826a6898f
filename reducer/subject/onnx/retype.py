"""A subject with other tensors or attributes, its outputs typed again; what does not type is none."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from itertools import islice
from typing import TypeAlias, TypeVar

import numpy as np
import onnx
from onnx import FunctionProto, ModelProto, NodeProto

from corpus.onnx.check import checker_complaint
from corpus.onnx.graph import function_key, walk_all_graphs, walk_function, walk_model
from corpus.onnx.types import element_type, graph_types, infer, tensor_type, untyped_copy
from corpus.values import Tensor, Value
from oracles.numerics.input_noise import static_dims
from reducer.subject.base import initializer
from reducer.subject.onnx.nodesets import OnnxView

S = TypeVar("S", bound=OnnxView)


def change_tensors(
    subject: S, changed: Mapping[str, Tensor], also: Callable[[onnx.ModelProto], None] | None = None
) -> S | None:
    """The subject with these values for some of its inputs and initializers; None where it does not type.

    `also` is another edit of the model that belongs to the same change.
    """

    def edit(model: onnx.ModelProto) -> None:
        for tensor in model.graph.initializer:
            if tensor.name in changed:
                tensor.CopyFrom(initializer(tensor.name, changed[tensor.name]))
        for info in model.graph.input:
            if info.name in changed:
                _fit_declaration(info, changed[info.name])
        if also is not None:
            also(model)

    inputs = {
        name: changed.get(name, value) if not isinstance(value, list) else value
        for name, value in subject.inputs.items()
    }
    return change_model(subject, edit, inputs)


def change_model(
    subject: S, edit: Callable[[onnx.ModelProto], None], inputs: Mapping[str, Value] | None = None
) -> S | None:
    """The subject after an edit of a copy of its model, outputs typed again; None where it does not type."""
    model = deepcopy(subject.model)
    edit(model)
    if not _are_gates_whole(model) and _are_gates_whole(subject.model):
        return None
    given = subject.inputs if inputs is None else inputs
    if are_sizes_at_odds(model, given) and not are_sizes_at_odds(subject.model, subject.inputs):
        return None
    retype_outputs(model)
    if _has_negative_dims(model) or (subject.is_sound and checker_complaint(model) is not None):
        return None
    return replace(subject, model=model, inputs=given)


def are_sizes_at_odds(model: onnx.ModelProto, inputs: Mapping[str, Value]) -> bool:
    """Whether one symbol of the declared inputs stands for two sizes of those that are given."""
    sizes: dict[str, int] = {}
    for info in model.graph.input:
        value, dims = inputs.get(info.name), info.type.tensor_type.shape.dim
        if isinstance(value, np.ndarray) and len(dims) == value.ndim:
            for dim, size in zip(dims, value.shape, strict=True):
                if dim.dim_param and sizes.setdefault(dim.dim_param, size) != size:
                    return True
    return False


GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def _are_gates_whole(model: onnx.ModelProto) -> bool:
    """Whether the weights of recurrent nodes fit their hidden size and direction, which inference ignores."""
    shapes = {info.name: static_dims(info.type.tensor_type) for info in model.graph.input}
    shapes |= {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    for node in model.graph.node:
        attributes = {item.name: item for item in node.attribute}
        if node.op_type in GATES and "hidden_size" in attributes:
            hidden, rows = attributes["hidden_size"].i, GATES[node.op_type] * attributes["hidden_size"].i
            way = attributes["direction"].s if "direction" in attributes else b""
            ways = 2 if way == b"bidirectional" else 1
            weights = [shapes.get(name) for name in node.input[1:4]]
            fitting = ((ways, rows), (ways, rows, hidden), (ways, 2 * rows))
            if any(found and found[: len(due)] != due for found, due in zip(weights, fitting, strict=False)):
                return False
    return True


def _has_negative_dims(model: onnx.ModelProto) -> bool:
    """Inference gives an output such dims where a window is larger than what it slides over."""
    shapes = (info.type.tensor_type.shape for info in model.graph.output)
    return any(dim.dim_value < 0 for shape in shapes for dim in shape.dim)


def retype_outputs(model: onnx.ModelProto) -> None:
    """Give the outputs the types that inference finds, in place.

    Where inference does not reach (an unknown domain), the element type stays and the dims are left open.
    """
    _open_body_shapes(model)
    del model.graph.value_info[:]
    found = infer(untyped_copy(model))
    types = graph_types(found.graph)
    _fill_body_shapes(model, found)
    for info in model.graph.output:
        if info.name in types and _says_rank(types[info.name], info.type):
            info.type.CopyFrom(types[info.name])
        elif info.type.WhichOneof("value") == "tensor_type":
            _open_dims(info.type.tensor_type)


def _says_rank(found: onnx.TypeProto, declared: onnx.TypeProto) -> bool:
    """Whether inference tells as much as is declared: of what a Loop makes it knows no dims."""
    is_tensor = found.WhichOneof("value") == declared.WhichOneof("value") == "tensor_type"
    return not is_tensor or found.tensor_type.HasField("shape") or not declared.tensor_type.HasField("shape")


def _open_dims(declared: onnx.TypeProto.Tensor) -> None:
    """Keep the rank and let go of the sizes: onnx's strict checker refuses a value without a shape."""
    for dim in declared.shape.dim:
        dim.Clear()


def _open_body_shapes(model: onnx.ModelProto) -> None:
    """Bodies declare their values' dims, which may not be so any more; inference finds them again."""
    for graph in islice(walk_all_graphs(model), 1, None):
        del graph.value_info[:]
        weights = {tensor.name: tensor for tensor in graph.initializer}
        for info in (*graph.input, *graph.output):
            if info.name in weights:
                info.type.CopyFrom(tensor_type(weights[info.name]))
            elif info.type.WhichOneof("value") == "tensor_type":
                _open_dims(info.type.tensor_type)


def _fill_body_shapes(model: onnx.ModelProto, found: onnx.ModelProto) -> None:
    """Give the values of bodies the dims that inference found: onnx's strict checker wants them declared."""
    pairs = zip(walk_all_graphs(model), walk_all_graphs(found), strict=True)
    for graph, known in islice(pairs, 1, None):
        types = graph_types(known)
        for info in (*graph.input, *graph.output):
            declared = info.type
            if declared.WhichOneof("value") != "tensor_type" or info.name not in types:
                continue
            if types[info.name].tensor_type.HasField("shape"):
                declared.tensor_type.shape.CopyFrom(types[info.name].tensor_type.shape)


def _fit_declaration(info: onnx.ValueInfoProto, array: Tensor) -> None:
    """The declared element type and dims become the array's; a symbolic dim stays symbolic."""
    tensor = info.type.tensor_type
    tensor.elem_type = element_type(array.dtype)
    if not tensor.HasField("shape") or len(tensor.shape.dim) != array.ndim:
        tensor.shape.ClearField("dim")
        for size in array.shape:
            tensor.shape.dim.add(dim_value=size)
        return
    for dim, size in zip(tensor.shape.dim, array.shape, strict=True):
        if dim.HasField("dim_value"):
            dim.dim_value = size


OLDEST = 7
"""The oldest operator set of ONNX's own that runtimes promise to run."""

STANDARD = ("", "ai.onnx")
"""The two names of ONNX's own domain."""

Holder: TypeAlias = ModelProto | FunctionProto


def drop_unused_sets(model: ModelProto) -> None:
    """Drop unused opsets in place. ONNX's own stays: without it a runtime assumes the newest version."""
    for holder in (model, *model.functions):
        used = {*STANDARD, *(node.domain for node in _nodes(holder))}
        for at in reversed(range(len(holder.opset_import))):
            if holder.opset_import[at].domain not in used:
                del holder.opset_import[at]


def rename_sets(model: ModelProto, instead: Mapping[str, str]) -> None:
    """Import new domains wherever nodes use them, in the versions of the old ones; in place."""
    for holder in (model, *model.functions):
        versions = {item.domain: item.version for item in holder.opset_import}
        used = {node.domain for node in _nodes(holder)}
        for old, new in instead.items():
            if new in used and new not in versions:
                holder.opset_import.add(domain=new, version=versions.get(old, 1))
    drop_unused_sets(model)


def sum_of_versions(model: ModelProto) -> int:
    """Add up the versions of the imported opsets; of two models with equal sums neither is plainer."""
    return sum(item.version for holder in (model, *model.functions) for item in holder.opset_import)


def least_versions(model: ModelProto) -> dict[str, int]:
    """Map each domain to the least version in which all used operators have their present schema.

    Functions and the model that calls them agree on it. A domain with an operator that onnx does not know is
    left out, but for one that holds nothing but the model's own functions.
    """
    found: dict[str, int] = {}
    unknown: set[str] = set()
    functions = {function_key(each) for each in model.functions}
    for holder in (model, *model.functions):
        for item in holder.opset_import:
            least = _least(item, _nodes(holder), functions)
            if least is None:
                unknown.add(item.domain)
            else:
                found[item.domain] = max(least, found.get(item.domain, 1))
    return {domain: version for domain, version in found.items() if domain not in unknown}


def _least(
    item: onnx.OperatorSetIdProto, nodes: Iterable[NodeProto], functions: set[tuple[str, str, str]]
) -> int | None:
    """The version from which on all these nodes mean what they mean; None where onnx does not know one."""
    own = [node for node in nodes if node.domain == item.domain]
    operators = {node.op_type for node in own if function_key(node) not in functions}
    if not own and item.domain not in STANDARD:
        return None
    try:
        since = [onnx.defs.get_schema(name, item.version, item.domain).since_version for name in operators]
    except onnx.defs.SchemaError:
        return None
    return max([OLDEST if item.domain in STANDARD else 1, *since])


def lowered(subject: S, versions: Mapping[str, int] | None = None) -> S:
    """The subject without unused operator sets, the others in these versions or the least ones.

    The very object where it has them.
    """
    if versions is None and not _has_more(subject.model):
        return subject
    model = deepcopy(subject.model)
    drop_unused_sets(model)
    least = least_versions(model) if versions is None else versions
    for holder in (model, *model.functions):
        for item in holder.opset_import:
            item.version = min(item.version, least.get(item.domain, item.version))
    return replace(subject, model=model)


def _has_more(model: ModelProto) -> bool:
    """Whether an import is not used or newer than it must be."""
    least = least_versions(model)
    used = {*STANDARD, *(node.domain for node in walk_model(model))}
    imports = [item for holder in (model, *model.functions) for item in holder.opset_import]
    return any(
        item.domain not in used or item.version > least.get(item.domain, item.version) for item in imports
    )


def _nodes(holder: Holder) -> Iterator[NodeProto]:
    """The nodes that an import is for: a model's is for those of its functions too."""
    return walk_model(holder) if isinstance(holder, ModelProto) else walk_function(holder)
