"""Relax's types and symbolic dims as data, and back."""

import ast
import re
from typing import Any, Callable, Sequence  # noqa: UP035 (Python 3.8)  # noqa: UP035 (Python 3.8)

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx


class NotData(Exception):
    """A module holds something that no data can say."""


# Out of TVM


def dtype_name(dtype: Any) -> str:
    """Name a dtype as numpy does."""
    return str(getattr(dtype, "dtype", dtype))


def dims(values: Any) -> list[Any]:
    """Write the dims of a shape."""
    return [dim(each) for each in values]


def dim(value: Any) -> Any:
    """A number, or a dim's arithmetic as text."""
    if isinstance(value, (tirx.IntImm, tirx.FloatImm)):
        return value.value
    return re.sub(r"T\.int(?:32|64)\((-?\d+)\)", r"\1", str(value))


def type_of(ty: Any) -> Any:
    """A type as JSON."""
    if isinstance(ty, relax.TensorType):
        shape = dims(ty.shape.values) if isinstance(ty.shape, relax.ShapeExpr) else None
        return {"tensor": [dtype_name(ty.dtype) if ty.dtype is not None else None, shape, int(ty.ndim)]}
    if isinstance(ty, relax.ShapeType):
        return {"shape_type": [dims(ty.values) if ty.values is not None else None, int(ty.ndim)]}
    if isinstance(ty, tvm.ir.TupleType):
        return {"tuple_type": [type_of(each) for each in ty.fields]}
    if isinstance(ty, tvm.ir.PrimType):
        return {"prim_type": dtype_name(ty.dtype)}
    if isinstance(ty, relax.FuncType) and ty.params is not None:
        return {"function_type": [[type_of(each) for each in ty.params], type_of(ty.ret), bool(ty.purity)]}
    if isinstance(ty, (relax.ObjectType, relax.AnyType)):
        return {"any": True}
    raise NotData(f"the module holds a type {type(ty).__name__}")


def is_plain(ty: Any) -> bool:
    """Whether a type is that of a tensor whose dtype and dims are told, which an input says by itself."""
    is_tensor = isinstance(ty, relax.TensorType) and isinstance(ty.shape, relax.ShapeExpr)
    return is_tensor and ty.dtype is not None


# Back to TVM


class Symbols:
    """Types over the symbolic dims of one function, each of them one variable however often it is named."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}

    def shape(self, items: list[Any]) -> list[Any]:
        """Make the dims of a shape."""
        return [self.dim(each) for each in items]

    def dim(self, item: Any) -> Any:
        """A number, or the arithmetic that a text spells."""
        if isinstance(item, int):
            return tirx.IntImm("int64", item)
        return self.term(ast.parse(item, mode="eval").body)

    def term(self, node: Any) -> Any:
        """Make a dim of the syntax tree of its expression."""
        if isinstance(node, ast.Constant):
            return tirx.IntImm("int64", int(str(node.value)))
        if isinstance(node, ast.Name):
            if node.id not in self.known:
                self.known[node.id] = tirx.Var(node.id, "int64")
            return self.known[node.id]
        if isinstance(node, ast.BinOp):
            return OPERATORS[type(node.op)](self.term(node.left), self.term(node.right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self.term(node.operand)
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in ("min", "max"):
                return getattr(tirx, name)(*map(self.term, node.args))
        raise NotData(f"a dim holds {ast.dump(node)[:60]}")

    def type(self, item: Any) -> Any:
        """The type that JSON spells."""
        ((tag, inner),) = item.items()
        if tag == "tensor":
            dtype, shape, rank = inner
            if shape is None:
                return relax.TensorType(None, dtype, ndim=rank)
            return relax.TensorType(self.shape(shape), dtype)
        if tag == "shape_type":
            values, rank = inner
            return relax.ShapeType(ndim=rank) if values is None else relax.ShapeType(self.shape(values))
        if tag == "tuple_type":
            return relax.TupleType([self.type(each) for each in inner])
        if tag == "function_type":
            params, result, is_pure = inner
            return relax.FuncType([self.type(each) for each in params], self.type(result), is_pure)
        return tvm.ir.PrimType(inner) if tag == "prim_type" else relax.ObjectType()


OPERATORS: dict[Any, Callable[[Any, Any], Any]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.FloorDiv: tirx.floordiv,
    ast.Mod: tirx.floormod,
}


PREFIX = "relax.attrs."


def attributes_of(attrs: Any) -> list[Any] | None:
    """`[class, fields]`; None for attributes that hold what no plain data says."""
    if not str(getattr(type(attrs), "__tvm_ffi_type_info__", None) and key_of(attrs)).startswith(PREFIX):
        return None
    try:
        names = [field.name for field in type(attrs).__tvm_ffi_type_info__.fields]
        return [key_of(attrs)[len(PREFIX) :], {name: plain(getattr(attrs, name)) for name in names}]
    except TypeError:
        return None


def key_of(attrs: Any) -> str:
    """The name under which TVM knows the class of an object."""
    return str(type(attrs).__tvm_ffi_type_info__.type_key)


def plain(value: Any) -> Any:
    """A field as JSON; TypeError for one that is none."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (tirx.IntImm, tirx.FloatImm)):
        return {"prim": [str(value.ty.dtype), value.value]}
    if isinstance(value, (tvm_ffi.Array, list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, tvm_ffi.dtype):
        return str(value)
    if isinstance(value, tirx.IndexMap):
        axes = [str(each.name) for each in value.initial_indices]
        return {"axes": axes, "results": dims(value.final_indices)}
    raise TypeError(type(value).__name__)


def attributes_from(told: list[Any]) -> Any:
    """The attributes again; TVM raises where a field is missing or of another type."""
    kind, fields = told
    return tvm.ir.make_node(PREFIX + kind, **{name: field_from(item) for name, item in fields.items()})


def field_from(item: Any) -> Any:
    """Make TVM's value of a field that is data."""
    if isinstance(item, list):
        return [field_from(each) for each in item]
    if isinstance(item, dict) and "axes" in item:
        symbols = Symbols()
        return tirx.IndexMap(symbols.shape(item["axes"]), symbols.shape(item["results"]), None)
    if isinstance(item, dict):
        dtype, value = item["prim"]
        return tirx.FloatImm(dtype, value) if dtype.startswith("float") else tirx.IntImm(dtype, value)
    return item


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
