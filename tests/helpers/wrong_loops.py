"""Wrong rewrites of TIR, of the kinds that low-level compilers get wrong: what a value programme must notice.

Each changes a module as a mistaken pass would; a program notices one if what it leaves defined differs then.
TVM runs them as well: `tests/bench/planted.py`.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from corpus.tir.forms import FORMS, SIGNED, is_integer, is_pointer, parts
from corpus.tir.tree import Bind, Block, Body, Declare, For, Function, If, Module, Stmt, Store
from corpus.tir.values import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Unary,
    Var,
    type_of,
)
from corpus.tir.walk import expressions, free_name, map_expressions, map_statements, walk
from generators.tir.programs import TirProgram
from oracles.tir.interpreter import Interpretation, interpret

Rewrite = Callable[[Expr], Expr]

_SAME_WIDTH = {"uint8": "int8", "uint16": "int16", "uint32": "int32", "uint64": "int64"}
_ORDERS = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}


def _of_integers(expr: Expr, *ops: str) -> bool:
    return isinstance(expr, Binary) and expr.op in ops and is_integer(type_of(expr.a))


def _narrowed(expr: Expr) -> Expr:
    is_wide = _of_integers(expr, "add", "sub", "mul") and expr.dtype == "int64"
    return Cast("int64", Cast("int32", expr)) if is_wide else expr


def _truncated(expr: Expr) -> Expr:
    return replace(expr, op="div") if _of_integers(expr, "floordiv") else expr


def _signed_remainder(expr: Expr) -> Expr:
    return replace(expr, op="mod") if _of_integers(expr, "floormod") else expr


def _logical_shift(expr: Expr) -> Expr:
    if not _of_integers(expr, "shr") or expr.dtype not in SIGNED:
        return expr
    kind = "u" + expr.dtype
    return Cast(expr.dtype, Binary("shr", Cast(kind, expr.a), Cast(kind, expr.b)))


def _sign_extended(expr: Expr) -> Expr:
    same = _SAME_WIDTH.get(type_of(expr.value)) if isinstance(expr, Cast) else None
    is_wider = same is not None and is_integer(expr.dtype) and parts(expr.dtype).bits > parts(same).bits
    return replace(expr, value=Cast(same, expr.value)) if is_wider and same is not None else expr


def _negated(expr: Expr) -> Expr:
    """`not (a < b)` as `a > b`."""
    if isinstance(expr, Unary) and expr.op == "not" and _of_integers(expr.a, *_ORDERS):
        return replace(expr.a, op=_ORDERS[expr.a.op])
    return expr


def _half_condition(expr: Expr) -> Expr:
    if isinstance(expr, Select) and isinstance(expr.condition, Binary) and expr.condition.op in ("and", "or"):
        return replace(expr, condition=expr.condition.a)
    return expr


def _on_expressions(rewrite: Rewrite) -> Callable[[Function], Function]:
    return lambda function: replace(function, body=map_expressions(function.body, rewrite))


def _on_loops(extent: Callable[[int], int]) -> Callable[[Function], Function]:
    def changed(stmt: object) -> object:
        if not isinstance(stmt, For) or not isinstance(stmt.extent, Const):
            return stmt
        return replace(stmt, extent=replace(stmt.extent, value=extent(int(stmt.extent.value))))

    return lambda function: replace(function, body=map_statements(function.body, changed))


def _tight(expr: Expr) -> Expr:
    """`a < 8` as `a < 7`."""
    is_bound = isinstance(expr, Binary) and expr.op == "lt" and isinstance(expr.b, Const)
    return replace(expr, b=replace(expr.b, value=expr.b.value - 1)) if is_bound else expr


def _with_tight_guards(function: Function) -> Function:
    """Guards of statements and predicates of blocks lose their last round."""

    def changed(stmt: Stmt) -> Stmt:
        if isinstance(stmt, If) and stmt.other is None:
            return replace(stmt, condition=_tight(stmt.condition))
        return replace(stmt, predicate=_tight(stmt.predicate)) if isinstance(stmt, Block) else stmt

    return replace(function, body=map_statements(function.body, changed))


def _without_strides(function: Function) -> Function:
    """Buffers over memory that is there are read as if they were row-major."""

    def changed(stmt: Stmt) -> Stmt:
        if isinstance(stmt, Declare):
            return replace(stmt, buffer=replace(stmt.buffer, strides=()))
        if isinstance(stmt, Block):
            plain = (replace(each, buffer=replace(each.buffer, strides=())) for each in stmt.matches)
            return replace(stmt, matches=tuple(plain))
        return stmt

    return replace(function, body=map_statements(function.body, changed))


def _stale(function: Function) -> Function:
    """An element that two stores read, one after the other, is read once: the first may change it."""
    taken = {each.name for each in walk(function) if isinstance(each, Var)}

    def shared(first: Stmt, second: Stmt) -> Load | None:
        if not isinstance(first, Store) or not isinstance(second, Store):
            return None
        again = {each for each in expressions((second.value,)) if isinstance(each, Load)}
        known = (each for each in expressions((first.value,)) if isinstance(each, Load))
        return next((each for each in known if each in again and each.buffer == first.buffer), None)

    def read_once(body: Body) -> Body:
        found: list[Stmt] = []
        for stmt in body:
            load = shared(found[-1], stmt) if found else None
            if load is not None and isinstance(stmt, Store):
                var = Var(free_name(taken, "stale"), load.dtype)
                found.insert(-1, Bind(var, load))
                value = map_expressions(
                    stmt.value, lambda each, load=load, var=var: var if each == load else each
                )
                stmt = replace(stmt, value=value)
            found.append(stmt)
        return tuple(found)

    def changed(stmt: Stmt) -> Stmt:
        held = {each.name: getattr(stmt, each.name) for each in FORMS[type(stmt)].bodies}
        return replace(stmt, **{name: read_once(body) for name, body in held.items() if body is not None})

    return replace(function, body=read_once(map_statements(function.body, changed)))


def _open_tail(function: Function) -> Function:
    """A loop of an open size runs over whole fours."""

    def changed(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For) or not isinstance(stmt.extent, Var):
            return stmt
        rest = Binary("floormod", stmt.extent, Const(4, stmt.extent.dtype))
        return replace(stmt, extent=Binary("sub", stmt.extent, rest))

    return replace(function, body=map_statements(function.body, changed))


def _calls(change: Callable[[Call], Call]) -> Callable[[Function], Function]:
    """Every call of a function of the module changed."""
    return _on_expressions(
        lambda expr: change(expr) if isinstance(expr, Call) and expr.callee.startswith("@") else expr
    )


def _one_memory(call: Call) -> Call:
    """Of the operands of one address type each is the first."""
    first: dict[str, Expr] = {}
    args = (first.setdefault(type_of(arg), arg) if is_pointer(type_of(arg)) else arg for arg in call.args)
    return replace(call, args=tuple(args))


WRONG: dict[str, Callable[[Function], Function]] = {
    "overflow": _on_expressions(_narrowed),
    "floor division": _on_expressions(_truncated),
    "floor modulo": _on_expressions(_signed_remainder),
    "tail": _on_loops(lambda extent: extent - extent % 8 if extent > 8 else extent),
    "predicate": _with_tight_guards,
    "negated condition": _on_expressions(_negated),
    "shift": _on_expressions(_logical_shift),
    "select": _on_expressions(_half_condition),
    "cast": _on_expressions(_sign_extended),
    "stride": _without_strides,
    "extent": _on_loops(lambda extent: extent & 255),
    "stale read": _stale,
    "open tail": _open_tail,
    "aliased call": _calls(_one_memory),
}
"""By what goes wrong: the function that a mistaken pass would leave; twelve, then those of later forms."""


def spoilt(module: Module, rewrite: Callable[[Function], Function]) -> Module:
    """The module after a wrong rewrite."""
    return Module({key: rewrite(each) for key, each in module.functions.items()})


def noticed(program: TirProgram, names: Iterable[str]) -> set[str]:
    """The wrong rewrites, of these, after which what a program defines differs."""
    wrong = {name: spoilt(program.module, WRONG[name]) for name in names}
    changed = {name: module for name, module in wrong.items() if module != program.module}
    right = interpret(program.module, program.inputs) if changed else None
    if right is None or not right.is_defined:
        return set()
    return {name for name, module in changed.items() if _differs(program, right, module)}


def _differs(program: TirProgram, right: Interpretation, wrong: Module) -> bool:
    other = interpret(wrong, program.inputs)
    if not other.is_modelled:
        return False
    with np.errstate(all="ignore"):
        return bool(other.reason) or any(
            not other.defined[key].all()
            or (np.abs(other.outputs[key].astype(float) - value) > right.slack[key]).any()
            for key, value in right.outputs.items()
        )
