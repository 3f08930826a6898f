"""What "smaller" means: one total order over subjects; what PrimFuncs are measured by."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from corpus.tir.forms import element
from corpus.tir.tree import Alloc, Attr, Block, For, Function, If, Module, Stmt, While
from corpus.tir.values import Buffer, Const, Expr, Var, type_of
from corpus.tir.walk import buffers, expressions, statements
from corpus.values import Tensor, Value
from reducer.subject.base import Size, Subject, real_parts


def size(subject: Subject) -> Size:
    """The subject's place in the total order, smallest first.

    A person reads nodes, so fewer nodes come first, those of bodies and functions included; of two with as
    many nodes the one with fewer bodies, weights in bodies, functions and earlier runs to look into; then
    the one with plainer operators. Then what the nodes still carry: elements that flow in, tensors in and
    out, axes, element types other than the plain ones, attributes, how plain the values are, the case's own
    passes, names that are not ours, how new the operator sets are, and at last bytes. A tie is not smaller.
    Of programs of loops a statement counts as a node.
    """
    return subject.size


PLAIN = frozenset({"float32", "int32", "bool"})
"""Element types that need no explanation."""

MANY = 4096
"""Nobody reads the values of a tensor with more elements."""


def strange_types(arrays: Iterable[Tensor]) -> int:
    """Count the tensors whose element type is not plain."""
    return sum(str(array.dtype) not in PLAIN for array in arrays)


def elements(value: object) -> int:
    """The elements of a value; a sequence counts one more for each member."""
    if isinstance(value, list):
        return sum(elements(member) for member in value) + len(value)
    return int(getattr(value, "size", 0))


def complexity(array: Tensor) -> int:
    """Estimate how hard the values are to read: 0 costs nothing, 1 a little, a large integer more.

    NaN and infinity count as a small integer, a text by its first four letters.
    """
    if not array.size:
        return 0
    if array.size > MANY:
        return 4 * int(array.size)
    if array.dtype.kind in "USO":
        return sum(min(len(text), 4) for text in array.flat) + len(set(array.flat))
    wide = real_parts(array).astype(np.float64)
    is_whole = wide == np.round(wide)
    is_small = (np.abs(wide) < 10) & is_whole | ~np.isfinite(wide)
    is_zero = (wide == 0) & ~np.signbit(wide)
    costs = np.where(is_zero, 0, np.where(wide == 1, 1, np.where(is_small, 2, np.where(is_whole, 3, 4))))
    return int(costs.sum()) + _count_distinct(wide)


def _count_distinct(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> int:
    """Count distinct values as `len(np.unique(values))` does, without the slow import of `numpy.ma`."""
    rest = np.sort(values[~np.isnan(values)])
    return int((rest[1:] != rest[:-1]).sum()) + bool(rest.size) + (rest.size < values.size)


PLAIN_WORDS = frozenset({"float32", "int32", "bool", "void", "handle"})


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
    return sum(told) + bool(buffer.strides) + (_value(buffer.offset) != 0) + (buffer.dtype not in PLAIN_WORDS)


def _oddity(expr: Expr) -> int:
    return int(element(type_of(expr)) not in PLAIN_WORDS) if not isinstance(expr, Var) else 0


def _attributes(stmt: Stmt) -> int:
    found = stmt.annotations if isinstance(stmt, For | Block | Alloc) else ()
    more = len(stmt.reads) + len(stmt.writes) if isinstance(stmt, Block) else 0
    return len(found) + more + isinstance(stmt, Attr)


def _literal(expr: Expr) -> int:
    """0 costs nothing, 1 a little, other small integers more, other numbers most."""
    if not isinstance(expr, Const):
        return int(isinstance(expr, Var))
    value = expr.value
    if value in (0, 1):
        return int(value)
    is_finite = value - value == 0
    return (2 if abs(value) < 10 else 3) if is_finite and value == round(value) else 4
