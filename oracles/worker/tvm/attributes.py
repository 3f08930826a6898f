"""An operator's attributes as data: the class and the fields by name, where every field is plain."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

PREFIX = "relax.attrs."


def attributes_of(attrs: Any) -> list[Any] | None:
    """`[class, fields]`; None for attributes that hold what no plain data says, such as an index map."""
    if not str(getattr(type(attrs), "__tvm_ffi_type_info__", None) and key_of(attrs)).startswith(PREFIX):
        return None
    try:
        names = [field.name for field in type(attrs).__tvm_ffi_type_info__.fields]
        return [key_of(attrs)[len(PREFIX) :], {name: plain(getattr(attrs, name)) for name in names}]
    except TypeError:
        return None


def key_of(attrs: Any) -> str:
    """Return the name under which TVM knows the class of an object."""
    return str(type(attrs).__tvm_ffi_type_info__.type_key)


def plain(value: Any) -> Any:
    """Return a field as JSON; TypeError for one that is none."""
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
    raise TypeError(type(value).__name__)


def attributes_from(told: list[Any]) -> Any:
    """Return the attributes again; TVM raises where a field is missing or of another type."""
    kind, fields = told
    return tvm.ir.make_node(PREFIX + kind, **{name: field_from(item) for name, item in fields.items()})


def field_from(item: Any) -> Any:
    """Make TVM's value of a field that is data."""
    if isinstance(item, list):
        return [field_from(each) for each in item]
    if isinstance(item, dict):
        dtype, value = item["prim"]
        return tirx.FloatImm(dtype, value) if dtype.startswith("float") else tirx.IntImm(dtype, value)
    return item
