"""Expressions as TVMScript. Where Python's operators would let TVM's builder fold constants, the node is
spelt out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from corpus.tir.forms import is_float
from corpus.tir.typing import FLOAT_FUNCTIONS, PRIM
from corpus.tir.values import (
    Binary,
    Broadcast,
    BufferRef,
    Call,
    Cast,
    Const,
    Expr,
    Let,
    Load,
    Ramp,
    Select,
    Shuffle,
    Text,
    Unary,
    Var,
    type_of,
)

INFIX: Final = {
    "add": ("+", 5),
    "sub": ("-", 5),
    "mul": ("*", 6),
    "floordiv": ("//", 6),
    "floormod": ("%", 6),
    "div": ("/", 6),
    "lt": ("<", 1),
    "le": ("<=", 1),
    "gt": (">", 1),
    "ge": (">=", 1),
    "eq": ("==", 1),
    "ne": ("!=", 1),
    "bitand": ("&", 3),
    "bitor": ("|", 2),
    "bitxor": ("^", 2),
    "shl": ("<<", 4),
    "shr": (">>", 4),
}
_NODES = """
    add=Add sub=Sub mul=Mul div=Div mod=Mod floordiv=FloorDiv floormod=FloorMod min=Min max=Max eq=EQ
    ne=NE lt=LT le=LE gt=GT ge=GE and=And or=Or bitand=BitwiseAnd bitor=BitwiseOr bitxor=BitwiseXor
    shl=LShift shr=RShift
"""
NODES: Final[dict[str, str]] = dict(pair.split("=") for pair in _NODES.split())
ATOM = 9


def text_of(expr: Expr, level: int = 0) -> str:
    """An expression, in parentheses where it binds less than `level`."""
    text, own = _EXPRESSIONS[type(expr)](expr)
    return f"({text})" if own < level else text


def texts(items: tuple[Expr, ...]) -> str:
    """Several expressions, separated by commas."""
    return ", ".join(text_of(item) for item in items)


def _const(expr: Const) -> tuple[str, int]:
    if expr.dtype == "bool":
        return f"T.bool({bool(expr.value)})", ATOM
    if is_float(expr.dtype):
        value = float(expr.value)
        text = repr(value) if math.isfinite(value) else f'"{value}"'
        return f"T.{expr.dtype}({text})", ATOM
    if expr.dtype == "int32":
        return str(expr.value), ATOM if expr.value >= 0 else 7
    if expr.dtype.endswith("int4"):  # TVMScript has no function of that name
        return f"T.IntImm({expr.dtype!r}, {expr.value})", ATOM
    return f"T.{expr.dtype}({expr.value})", ATOM


def _folds(expr: Binary) -> bool:
    """Whether TVM's builder would make another node of it than the one that its operator stands for."""
    a, b = expr.a, expr.b
    if _is_constant(a) and _is_constant(b):
        return True
    if any(isinstance(item, Const) and item.value in (0, 1, -1) for item in (a, b)):
        return True
    return any(isinstance(item, Broadcast | Ramp) for item in (a, b))


_COMPARED = ("add", "sub", "lt", "le", "gt", "ge", "eq", "ne")


def _binary(expr: Binary) -> tuple[str, int]:
    is_plain = (expr.op != "div" or is_float(type_of(expr.a))) and not _folds(expr)
    both = _is_constant(expr.a) and _is_constant(expr.b)
    if expr.op in INFIX and (is_plain or (expr.op in _COMPARED and not both and _is_one(expr))):
        sign, level = INFIX[expr.op]
        left = text_of(expr.a, level + (level == 1))
        return f"{left} {sign} {text_of(expr.b, level + 1)}", level
    return f"T.{NODES[expr.op]}({text_of(expr.a)}, {text_of(expr.b)})", ATOM


def _is_constant(expr: Expr) -> bool:
    """Whether TVM's builder makes a constant of what its text says."""
    if isinstance(expr, Call) and expr.callee in _SPELLED_OUT:
        return not is_float(type_of(expr.args[0])) or all(map(_is_constant, expr.args))
    return isinstance(expr, Const)


def _is_one(expr: Binary) -> bool:
    """Adding 1, or comparing with a small constant: nothing to fold."""
    if any(isinstance(item, Broadcast | Ramp) for item in (expr.a, expr.b)):
        return False
    return expr.op not in ("add", "sub") or (isinstance(expr.b, Const) and expr.b.value in (1, -1))


def _call(expr: Call) -> tuple[str, int]:
    args = texts(expr.args)
    callee = expr.callee
    if callee.startswith("@"):
        return f"Module.{callee[1:]}({args})", ATOM
    if callee == "buffer_data":
        return f"{args}.data", ATOM
    if callee in _TYPED:
        told = ", ".join(item for item in (repr(expr.dtype), args) if item)
        return f"T.{callee}({told})", ATOM
    if callee in ("tvm_call_packed", "tvm_call_cpacked"):
        return f"T.{callee.removeprefix('tvm_')}({args})", ATOM
    if callee == "type_annotation":
        return f"T.type_annotation({expr.dtype!r})", ATOM
    decides = expr.args[:1] if callee == "if_then_else" else expr.args
    is_folded = bool(args) and all(map(_is_constant, decides))
    is_changed = bool(expr.args) and type_of(expr.args[0]) in _CHANGED.get(callee, ())
    if callee in _PLAIN and not is_changed and (not is_folded or callee in _SPELLED_OUT):
        return f"T.{callee}({args})", ATOM
    prefix = "prim" if callee in PRIM else "tirx"
    told = f"{expr.dtype!r}, '{prefix}.{callee}'"
    return f"T.call_intrin({told}{', ' + args if args else ''})", ATOM


_TYPED = frozenset(
    {"call_extern", "call_pure_extern", "reinterpret", "vectorlow", "vectorhigh", "vectorcombine"}
)
_OTHERS = """
    address_of atan2 break_loop clz continue_loop copysign fabs fma hypot if_then_else isfinite isinf isnan
    ldexp likely nextafter popcount pow q_multiply_shift tvm_access_ptr
"""
_PLAIN = frozenset((*FLOAT_FUNCTIONS, *_OTHERS.split()))

_CHANGED = {
    "isnan": frozenset(
        ("float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    ),
    "pow": frozenset(("bfloat16",)),
}
"""Types of which TVM's own functions refuse a call or make another node of it: its operator is called."""
_SPELLED_OUT = frozenset(("isfinite", "isinf"))
"""What TVM's own functions write as comparisons, of constants too; no function can hold a call of them."""

_EXPRESSIONS: Final[dict[type, Callable[[Any], tuple[str, int]]]] = {
    Var: lambda expr: (expr.name, ATOM),
    Const: lambda expr: _const(expr),
    Text: lambda expr: (repr(expr.value), ATOM),
    BufferRef: lambda expr: (expr.buffer, ATOM),
    Binary: _binary,
    Unary: lambda expr: (f"T.{'Not' if expr.op == 'not' else 'BitwiseNot'}({text_of(expr.a)})", ATOM),
    Cast: lambda expr: (f"T.Cast({expr.dtype!r}, {text_of(expr.value)})", ATOM),
    Select: lambda expr: (f"T.Select({texts((expr.condition, expr.then, expr.other))})", ATOM),
    Ramp: lambda expr: (f"T.Ramp({texts((expr.base, expr.stride))}, {expr.lanes})", ATOM),
    Broadcast: lambda expr: (f"T.Broadcast({text_of(expr.value)}, {expr.lanes})", ATOM),
    Shuffle: lambda expr: (f"T.Shuffle([{texts(expr.vectors)}], [{texts(expr.indices)}])", ATOM),
    Let: lambda expr: (
        f"T.Let({text_of(expr.body)}, where={{{expr.var.name}: {text_of(expr.value)}}})",
        ATOM,
    ),
    Load: lambda expr: (f"{expr.buffer}[{texts(expr.indices) or '()'}]", ATOM),
    Call: _call,
}
