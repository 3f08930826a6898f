"""Rounding-sized noise in the inputs of a case, and the tables of sizes that go with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import onnx
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    defs,
    helper,
    numpy_helper,
)

from corpus.onnx.graph import tensors, walk_all_graphs, walk_graphs, walk_model, walk_nodes
from corpus.onnx.types import dtype_name, element_type, graph_types, infer, untyped_copy
from corpus.values import Tensor, Value, widen
from oracles.operators import arithmetic_of
from oracles.verdict import Run

NOISE_ULPS = 8.0
"""The noise in units of the last place: what kernels that sum in another order or approximate stay below."""

MOST_NOISE = 0.1
"""The noise relative to a result stays below this, however short the type and long the sum."""

HALF = 0.499
"""What a quantised value moves by, in steps: one that lies on the grid stays there."""

INT8_STEP = 1 / 254
"""Half a step where the greatest magnitude is 127 of them: what rounding to int8 takes a value away."""

EPSILON: dict[int, float] = {
    TensorProto.FLOAT: 2.0**-23,
    TensorProto.DOUBLE: 2.0**-52,
    TensorProto.FLOAT16: 2.0**-10,
    TensorProto.BFLOAT16: 2.0**-7,
}
"""The distance from 1 to the next number, by element type."""

HUGE: dict[int, float] = {
    TensorProto.FLOAT: 1e30,
    TensorProto.DOUBLE: 1e300,
    TensorProto.FLOAT16: 6e4,
    TensorProto.BFLOAT16: 1e30,
}
"""What stands for infinity: it overflows again at once where it should."""

GREATEST: dict[int, float] = {
    TensorProto.FLOAT: float(np.finfo(np.float32).max),
    TensorProto.DOUBLE: float(np.finfo(np.float64).max),
    TensorProto.FLOAT16: 65504.0,
    TensorProto.BFLOAT16: float(ml_dtypes.finfo(ml_dtypes.bfloat16).max),
}
"""The greatest finite number, by element type."""

SHORT = frozenset([TensorProto.FLOAT16, TensorProto.BFLOAT16])
"""Floats that CPUs compute as float32."""

NEAR_LIMITS = 64.0
"""A value within this factor of the greatest number may leave the range by noise, or in a sum of its kind."""

_ELEMENTS: dict[np.dtype, int] = {
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.float64): TensorProto.DOUBLE,
    np.dtype(np.float16): TensorProto.FLOAT16,
    np.dtype(ml_dtypes.bfloat16): TensorProto.BFLOAT16,
}


def element_of(dtype: np.dtype) -> int | None:
    """The ONNX element type of a float dtype that has an `EPSILON`."""
    return _ELEMENTS.get(dtype)


def is_near_limits(value: Value) -> bool:
    """Whether a tensor is finite and holds a number near the greatest one of its type."""
    element = element_of(value.dtype) if isinstance(value, np.ndarray) else None
    if element is None or not isinstance(value, np.ndarray) or not value.size:
        return False
    greatest = float(np.abs(widen(value)).max())
    return GREATEST[element] / NEAR_LIMITS <= greatest < np.inf


def stand_ins(seed: int, element: int) -> tuple[float, float]:
    """The numbers that replace an infinity and a NaN under a seed."""
    huge = HUGE[element] * (1.0 - 0.5 * (seed % 2))
    return huge, (0.0, huge, -huge, 1.0)[seed % 4]


def perturb_inputs(
    inputs: Mapping[str, Value],
    seed: int,
    *,
    finite: bool = True,
    size: float = NOISE_ULPS,
    is_wide: bool = False,
) -> dict[str, Value]:
    """The inputs with noise of this size, and `finite`; whole numbers stay, they are exact on purpose.

    As in the model, an even seed moves everything the other way than the odd one before it. `is_wide`: one
    unit in the last place for floats of 16 bits.
    """
    rng = np.random.default_rng((seed + 1) // 2)

    def perturbed(value: Value) -> Value:
        if isinstance(value, list):
            return [_perturb_tensor(item, rng, seed, finite, size) for item in value]
        if value is None:
            return None
        is_short = is_wide and element_of(value.dtype) in SHORT
        return _perturb_tensor(value, rng, seed, finite, min(size, 1.0) if is_short else size)

    return {name: perturbed(value) for name, value in inputs.items()}


def _perturb_tensor(value: Tensor, rng: np.random.Generator, seed: int, finite: bool, size: float) -> Tensor:
    element = _ELEMENTS.get(value.dtype)
    if element is None:
        return value
    wide = widen(value).astype(np.float64)
    if finite:
        huge, standing = stand_ins(seed, element)
        wide = np.where(np.isnan(wide), standing, np.clip(wide, -huge, huge))
    drawn = rng.uniform(-1, 1, wide.shape)
    noise = (drawn + np.sign(drawn)) / 2 * size * EPSILON[element] * (1 if seed % 2 else -1)
    with np.errstate(over="ignore"):
        noisy = np.where(wide == np.rint(wide), wide, wide * (1 + noise))
        held = np.clip(noisy, -GREATEST[element], GREATEST[element])
    return np.where(np.isfinite(wide), held, noisy).astype(value.dtype)


def grid_factor(ulps: float, element: int, snaps: float) -> float:
    """The factor that makes a size the number that rounds to a grid of this width."""
    narrow = 2 * min(ulps, MOST_NOISE / EPSILON[element])
    return max(narrow, min(narrow * snaps, MOST_NOISE / 2 / EPSILON[element]))


NARROW = frozenset(EPSILON) - {TensorProto.DOUBLE}


def program_in_double(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """Copy the program with every float widened to float64.

    None if that changes the meaning, or if weights lie in other files.
    """
    if any(tensor.data_location == TensorProto.EXTERNAL for tensor in tensors(model)):
        return None
    if any(arithmetic_of(node).reads_bits for node in walk_model(model)):
        return None
    wide = deepcopy(model)
    for tensor in tensors(wide):
        _widen_tensor(tensor)
    for node in walk_model(wide):
        _widen_node(node)
    for graph in walk_all_graphs(wide):
        del graph.value_info[:]
        for declared in _declared(graph):
            _widen_type(declared)
    return wide


def inputs_in_double(inputs: Mapping[str, Value]) -> dict[str, Value]:
    """The inputs with their floats in float64."""
    return {name: _widen_value(value) for name, value in inputs.items()}


def outputs_like(wide: Run, narrow: Run) -> dict[str, Value]:
    """The outputs of a run in float64 in the types of another run's; those that it lacks are left out."""
    return {
        name: _like(wide.outputs[name], value)
        for name, value in narrow.outputs.items()
        if name in wide.outputs
    }


def _like(wide: Value, narrow: Value) -> Value:
    if isinstance(wide, np.ndarray) and isinstance(narrow, np.ndarray):
        with np.errstate(over="ignore", invalid="ignore"):
            converted: Value = wide.astype(narrow.dtype)
        return converted
    return wide


def _widen_value(value: Value) -> Value:
    if isinstance(value, list):
        return [_widen_array(item) for item in value]
    return None if value is None else _widen_array(value)


def _widen_array(array: Tensor) -> Tensor:
    is_narrow = array.dtype in (np.float32, np.float16) or array.dtype.name == "bfloat16"
    return widen(array).astype(np.float64) if is_narrow else array


def _widen_tensor(tensor: TensorProto) -> None:
    if tensor.data_type in NARROW:
        wide = _widen_array(numpy_helper.to_array(tensor))
        tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))


def _widen_node(node: NodeProto) -> None:
    typed_by = arithmetic_of(node).typed_by
    for attribute in node.attribute:
        if attribute.name == typed_by and attribute.i in NARROW:
            attribute.i = TensorProto.DOUBLE
        elif node.op_type == "Constant" and attribute.type in (AttributeProto.FLOAT, AttributeProto.FLOATS):
            value = np.array(helper.get_attribute_value(attribute), np.float64)
            attribute.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(value)))
    if node.op_type == "ConstantOfShape" and not node.attribute:
        node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(np.zeros(1))))


def _declared(graph: GraphProto) -> Iterator[TypeProto]:
    yield from (value.type for value in (*graph.input, *graph.output))


def _widen_type(declared: TypeProto) -> None:
    kind = declared.WhichOneof("value")
    if kind == "tensor_type" and declared.tensor_type.elem_type in NARROW:
        declared.tensor_type.elem_type = TensorProto.DOUBLE
    elif kind in ("sequence_type", "optional_type"):
        _widen_type(getattr(declared, kind).elem_type)


Types = Mapping[str, TypeProto.Tensor]


def tensor_types(model: ModelProto, inputs: Mapping[str, Value] | None = None) -> dict[str, TypeProto.Tensor]:
    """Tensor types by name, nested bodies included; `inputs` pin the symbolic dims of the graph's inputs.

    What inference cannot tell (an unknown domain, a sequence) is not in it. Never raises on a bad model.
    """
    light = untyped_copy(model)
    _pin_dims(light.graph, inputs or {})
    types: dict[str, TypeProto.Tensor] = {}
    for graph in walk_graphs(infer(light).graph):
        for name, declared in graph_types(graph).items():
            if declared.WhichOneof("value") == "tensor_type":
                types[name] = declared.tensor_type
    return types


def _pin_dims(graph: GraphProto, inputs: Mapping[str, Value]) -> None:
    for value in graph.input:
        array = inputs.get(value.name)
        if not isinstance(array, np.ndarray) or value.type.WhichOneof("value") != "tensor_type":
            continue
        shape = value.type.tensor_type.shape
        if len(shape.dim) == array.ndim:
            for dim, size in zip(shape.dim, array.shape, strict=True):
                dim.dim_value = size


def static_dims(declared: TypeProto.Tensor) -> tuple[int, ...] | None:
    """The shape when every size is known, else None."""
    if not declared.HasField("shape") or not all(dim.HasField("dim_value") for dim in declared.shape.dim):
        return None
    return tuple(dim.dim_value for dim in declared.shape.dim)


def type_complaint(model: ModelProto) -> str | None:
    """The first node whose operator does not allow an input's type; the checker does not look at that."""
    versions = {opset.domain: opset.version for opset in model.opset_import}
    types = tensor_types(model)
    for node in walk_nodes(model.graph):
        version = versions.get(node.domain)
        if version is not None and defs.has(node.op_type, version, node.domain):
            schema = defs.get_schema(node.op_type, version, node.domain)
            for name, allowed in zip(node.input, _allowed(schema, len(node.input)), strict=False):
                found = _type_text(types.get(name))
                if found and found not in allowed:
                    return f"{node.op_type}: {found} is not allowed for input {name!r}"
    return None


def _allowed(schema: defs.OpSchema, count: int) -> Iterable[frozenset[str]]:
    formal = list(schema.inputs)
    for index in range(count):
        if formal:
            yield frozenset(formal[min(index, len(formal) - 1)].types)


def _type_text(declared: TypeProto.Tensor | None) -> str:
    if declared is None:
        return ""
    return f"tensor({TensorProto.DataType.Name(declared.elem_type).lower()})"


@dataclass(frozen=True, slots=True)
class Contradiction:
    """`kind` is `dtype` or `shape`."""

    kind: str
    actual: str
    declared: str

    def __str__(self) -> str:
        return f"{self.actual} where its inputs fix {self.declared}"


def contradiction(declared: TypeProto.Tensor, value: Value) -> Contradiction | None:
    """Say how a tensor contradicts its declared type; None if it does not, or if it is no tensor."""
    if not isinstance(value, np.ndarray):
        return None
    element = _element(value)
    if element is not None and declared.elem_type and element != declared.elem_type:
        return Contradiction("dtype", dtype_name(element), dtype_name(declared.elem_type))
    if not declared.HasField("shape") or _fits(declared, value.shape):
        return None
    dims = (
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in declared.shape.dim
    )
    return Contradiction("shape", _shape_text(value.shape), _shape_text(dims))


def keeps_to(declared: TypeProto.Tensor, value: Value, kind: str) -> bool:
    """Whether a tensor has the declared `shape`, or is of the whole type where `kind` is `dtype`.

    The reference evaluator's dtypes are often numpy's own, its shapes are to be trusted.
    """
    if not isinstance(value, np.ndarray):
        return False
    return _fits(declared, value.shape) if kind == "shape" else contradiction(declared, value) is None


def outputs_contradict(model: ModelProto, outputs: Mapping[str, Value]) -> bool:
    """Whether an output contradicts the model's own declaration of it."""
    return any(
        contradiction(output.type.tensor_type, outputs.get(output.name)) is not None
        for output in model.graph.output
        if output.type.HasField("tensor_type")
    )


def _element(value: Tensor) -> int | None:
    try:
        return element_type(value.dtype)
    except KeyError:
        return None


def _fits(declared: TypeProto.Tensor, shape: tuple[int, ...]) -> bool:
    dims = declared.shape.dim
    return len(dims) == len(shape) and all(
        not dim.HasField("dim_value") or dim.dim_value == size for dim, size in zip(dims, shape, strict=True)
    )


def _shape_text(dims: Iterable[object]) -> str:
    return f"[{','.join(map(str, dims))}]"
