"""What PrimFuncs are measured by, in modules of their own and within graphs."""

from collections.abc import Iterator, Mapping, Sequence

from corpus.tir.forms import element
from corpus.tir.tree import Alloc, Attr, Block, For, Function, If, Module, Stmt, While
from corpus.tir.values import Buffer, Const, Expr, Var, type_of
from corpus.tir.walk import buffers, expressions, statements
from corpus.values import Value

PLAIN = frozenset({"float32", "int32", "bool", "void", "handle"})


def counts(module: Module, inputs: Mapping[str, Value]) -> tuple[int, ...]:
    """Statements, statements that hold others, expressions, elements, parameters and buffers, dims.

    Then what is not plain (types, scopes, strides, kinds of loops), attributes, how plain literals are.
    """
    elements = sum(int(getattr(value, "size", 0)) for value in inputs.values())
    return function_counts(list(module.functions.values()), elements)


def function_counts(functions: Sequence[Function], elements: int = 0) -> tuple[int, ...]:
    """As `counts`, for functions whose callers pass this many elements."""
    stmts = [stmt for one in functions for stmt in statements(one.body)]
    exprs = [expr for one in functions for expr in expressions(one.body)]
    found = [buffer for one in functions for buffer in buffers(one)]
    params = sum(len(one.params) for one in functions)
    return (
        len(stmts),
        sum(isinstance(stmt, For | While | If | Attr | Block) for stmt in stmts) + len(functions),
        len(exprs),
        elements + sum(map(_extent, stmts)),
        params + len(found),
        sum(len(buffer.shape) for buffer in found),
        sum(map(_strangeness, stmts)) + sum(map(_oddness, found)) + sum(map(_oddity, exprs)),
        sum(map(_attributes, stmts)) + sum(len(one.attrs) for one in functions),
        sum(map(_literal, exprs)),
    )


def _extent(stmt: Stmt) -> int:
    return int(stmt.extent.value) if isinstance(stmt, For) and isinstance(stmt.extent, Const) else 0


def _strangeness(stmt: Stmt) -> int:
    if isinstance(stmt, For):
        return (stmt.kind != "serial") + (stmt.step is not None) + (_value(stmt.min) != 0)
    return int(isinstance(stmt, Block) and stmt.predicate != Const(True, "bool"))


def _value(expr: Expr) -> object:
    return expr.value if isinstance(expr, Const) else None


def _oddness(buffer: Buffer) -> int:
    told = (buffer.scope != "global", buffer.align != 64, buffer.offset_factor != 1, buffer.tiled)
    return sum(told) + bool(buffer.strides) + (_value(buffer.offset) != 0) + (buffer.dtype not in PLAIN)


def _oddity(expr: Expr) -> int:
    return int(element(type_of(expr)) not in PLAIN) if not isinstance(expr, Var) else 0


def _attributes(stmt: Stmt) -> int:
    found = stmt.annotations if isinstance(stmt, For | Block | Alloc) else ()
    more = len(stmt.reads) + len(stmt.writes) if isinstance(stmt, Block) else 0
    return len(found) + more + isinstance(stmt, Attr)


def _literal(expr: Expr) -> int:
    """0 costs nothing, 1 a little, other small integers more, other numbers most."""
    if not isinstance(expr, Const):
        return int(isinstance(expr, Var))
    return next(_costs(expr))


def _costs(expr: Const) -> Iterator[int]:
    value = expr.value
    if value == 0:
        yield 0
    elif value == 1:
        yield 1
    elif isinstance(value, int) or value == round(value) if value - value == 0 else False:
        yield 2 if abs(value) < 10 else 3
    else:
        yield 4
