"""What a Relax program is called with: parameters of its main function as inputs, and as TVM takes them."""

from __future__ import annotations

from typing import Any, Callable, Sequence  # noqa: UP035 (Python 3.8)

import numpy as np
import tvm
from tvm import relax

from oracles.worker.tvm.types import NotData, dims, dtype_name, is_plain, type_of

Named = Callable[[Any], str]
Unique = Callable[[str], str]


def declarations(
    function: Any, given: Sequence[Any], named: Named, unique: Unique
) -> tuple[list[Any], list[Any]]:
    """An input for each parameter, or each member of one that is a tuple; bindings that make such tuples."""
    inputs: list[Any] = []
    bindings: list[Any] = []
    for place, param in enumerate(function.params):
        value = given[place] if place < len(given) else None
        if isinstance(param.ty, tvm.ir.TupleType):
            name = named(param)
            args = [members(each, value_at(value, at), name, unique, inputs) for at, each in fields(param.ty)]
            bindings.append([name, "alias", [{"tuple": args}], {}])
        else:
            inputs.append(declaration(named(param), param.ty, value, cast_of(function, param)))
    return inputs, bindings


def fields(ty: Any) -> list[Any]:
    """Number the fields of a tuple's type."""
    return list(enumerate(ty.fields))


def value_at(value: Any, place: int) -> Any:
    """Give a part of a nested input, or None if it has none there."""
    return value[place] if isinstance(value, (list, tuple)) and place < len(value) else None


def members(ty: Any, value: Any, name: str, unique: Unique, inputs: list[Any]) -> Any:
    """The argument that stands for a member of a tuple, whose inputs are added."""
    if isinstance(ty, tvm.ir.TupleType):
        return {
            "tuple": [members(each, value_at(value, at), name, unique, inputs) for at, each in fields(ty)]
        }
    fresh = unique(f"{name}_{len(inputs)}")
    inputs.append(declaration(fresh, ty, value, None))
    return {"ref": fresh}


def declaration(name: str, ty: Any, value: Any, cast: Any) -> list[Any]:
    """An input: name, dtype, dims, and the parameter's own type where these do not say it."""
    if is_plain(ty):
        return [name, dtype_name(ty.dtype), dims(ty.shape.values)]
    if isinstance(ty, relax.ShapeType):
        rank = len(value) if value is not None else int(ty.ndim)
        if rank < 0:
            raise NotData(f"{name!r} is a shape of unknown rank; give it a value in `inputs`")
        return [name, "int64", [rank], type_of(ty)]
    if isinstance(ty, tvm.ir.PrimType):
        return [name, dtype_name(ty.dtype), [], type_of(ty)]
    if not isinstance(ty, (relax.TensorType, relax.ObjectType, relax.AnyType)):
        raise NotData(f"main takes {name!r} of type {ty}: no tensor, shape, number or tuple of these")
    dtype, shape = looks(name, ty, value, cast)
    return [name, dtype, shape, type_of(ty)]


def looks(name: str, ty: Any, value: Any, cast: Any) -> tuple[str, list[Any]]:
    """The dtype and dims of what is passed where the type leaves them open: of the value, else as cast."""
    if value is not None:
        array = np.asarray(value)
        return array.dtype.name, list(array.shape)
    if not isinstance(ty, relax.TensorType):
        return "float32", []
    told = cast if cast is not None else ty
    dtype = next((dtype_name(each.dtype) for each in (ty, told) if each.dtype is not None), "float32")
    if isinstance(told.shape, relax.ShapeExpr):
        return dtype, dims(told.shape.values)
    if told.ndim < 0:
        raise NotData(f"main takes {name!r} of unknown rank; give it a value in `inputs`")
    return dtype, [f"{name}_{axis}" for axis in range(told.ndim)]


def cast_of(function: Any, param: Any) -> Any:
    """The tensor type that the function's first cast of a parameter gives it; None without such a cast."""
    blocks = function.body.blocks if isinstance(function.body, relax.SeqExpr) else []
    for binding in (binding for block in blocks for binding in block.bindings):
        if isinstance(binding, relax.MatchCast) and binding.value.same_as(param):
            return binding.ty if isinstance(binding.ty, relax.TensorType) else None
    return None


# To TVM


def kind_of(item: list[Any]) -> str:
    """How an input is passed: `shape_type`, `prim_type`, or as a tensor."""
    return next(iter(item[3])) if len(item) > 3 else "tensor"


def passed(array: Any, kind: str, device: Any) -> Any:
    """The virtual machine's argument for an array."""
    import tvm_ffi

    if kind == "shape_type":
        return tvm_ffi.Shape(tuple(int(each) for each in array))
    return array[()].item() if kind == "prim_type" else tvm.runtime.tensor(array, device)
