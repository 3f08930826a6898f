"""The typing rules of calls: the type that an intrinsic's operands give it, and whether they suit it."""

from __future__ import annotations

from corpus.tir.intrinsics import INTRINSICS, Intrinsic
from corpus.tir.types import is_bool, is_float, is_integer, is_number, is_pointer, lanes, parts, with_lanes
from corpus.tir.values import BufferRef, Call, Expr, Load, Text, type_of


def call_type(callee: str, args: tuple[Expr, ...]) -> str | None:
    """Return the type of a call by its operands; None where only the call itself can say it."""
    rule = INTRINSICS[callee].result if callee in INTRINSICS else "declared"
    if rule in ("declared", "pointer=0"):
        return None
    kind, _, position = rule.partition("=")
    if position:
        if int(position) >= len(args):
            return None
        dtype = type_of(args[int(position)])
        return with_lanes("bool", lanes(dtype)) if kind == "bool" else dtype
    if kind in ("half", "double"):
        dtype = type_of(args[0]) if args else "void"
        count = lanes(dtype)
        return with_lanes(dtype, max(count // 2, 1) if kind == "half" else count * 2)
    return kind


def call_problem(call: Call) -> str:
    """Say why the operands do not suit the intrinsic; empty if they do."""
    found = INTRINSICS.get(call.callee)
    if found is None:
        return "" if call.callee.startswith("@") else f"intrinsic {call.callee!r} is not known"
    fixed = [kind for kind in found.operands if not kind.startswith("*")]
    variadic = len(fixed) < len(found.operands)
    if len(call.args) < len(fixed) or (len(call.args) > len(fixed) and not variadic):
        return f"{call.callee} takes {len(fixed)} operands, not {len(call.args)}"
    for position, (kind, arg) in enumerate(zip(fixed, call.args, strict=False)):
        if not _suits(kind, arg, found, call.args):
            return f"operand {position} of {call.callee} is of type {_spelt(arg)}, not {kind.rstrip('=')}"
    told = call_type(call.callee, call.args)
    if told not in (None, call.dtype):
        return f"{call.callee} gives {told}, not {call.dtype}"
    if call.callee == "reinterpret" and _bits(call.dtype) != _bits(type_of(call.args[0])):
        return f"reinterpret from {type_of(call.args[0])} to {call.dtype} changes the size"
    return ""


def _suits(kind: str, arg: Expr, found: Intrinsic, args: tuple[Expr, ...]) -> bool:
    if kind in ("text", "buffer", "load"):
        return isinstance(arg, {"text": Text, "buffer": BufferRef, "load": Load}[kind])
    if kind == "any":
        return True
    if isinstance(arg, Text | BufferRef):
        return False
    dtype = type_of(arg)
    if kind.endswith("="):
        first = found.operands.index(kind[:-1])
        return dtype == type_of(args[first])
    return _of_kind(kind, dtype)


def _of_kind(kind: str, dtype: str) -> bool:
    """Return whether a type is one of a kind of operand."""
    match kind:
        case "float":
            return is_float(dtype)
        case "int":
            return is_integer(dtype)
        case "signed":
            return parts(dtype).code == "int"
        case "index":
            return dtype in ("int32", "int64")
        case "bool":
            return is_bool(dtype)
        case "number":
            return is_number(dtype)
        case "value":
            return is_number(dtype) or is_bool(dtype)
        case "pointer":
            return is_pointer(dtype)
    return with_lanes(dtype, 1) == kind


def _spelt(arg: Expr) -> str:
    return type(arg).__name__ if isinstance(arg, Text | BufferRef) else type_of(arg)


def _bits(dtype: str) -> int:
    found = parts(dtype)
    return found.bits * found.lanes
