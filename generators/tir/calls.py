"""Functions that others call, and sizes that only a caller knows: programs of several functions.

TVM compiles calls of one form for a CPU: a function without a symbol of its own, which takes addresses and
numbers and returns nothing. A statement moves into such a function, which is called for it, with sizes as
parameters.
"""

from dataclasses import replace

from corpus.tir.forms import numpy_dtype, pointer_to
from corpus.tir.program import SIZES, holds_blocks
from corpus.tir.scopes import defined_names
from corpus.tir.tree import (
    Attr,
    Body,
    Declare,
    Evaluate,
    For,
    Function,
    If,
    Module,
    Return,
    Stmt,
    Store,
    is_jump,
)
from corpus.tir.values import Buffer, BufferRef, Call, Const, Expr, Load, Var
from corpus.tir.walk import expressions, map_buffers, map_statements, statements, walk, with_function
from generators.language.values import RandomSource
from generators.tir.frame import Names, static_shape
from generators.tir.sites import Site, pick_site

_SIZED = 0.6
"""How often a size is a parameter."""


def outlined(draws: RandomSource, module: Module) -> Module | None:
    """Move a statement into a function of its own, and call that."""
    if holds_blocks(module.main):
        return None
    site = pick_site(draws, module, Stmt, _can_move)
    return _moved(draws, module, site) if site is not None else None


def _can_move(stmt: Stmt) -> bool:
    """Whether it defines nothing for those after it, ends nothing around it, and uses memory."""
    inside = [*statements((stmt,))]
    return (
        isinstance(stmt, For | If | Store)
        and not any(is_jump(each) or isinstance(each, Attr | Return) for each in inside)
        and any(isinstance(each, Load | Store) for each in walk(stmt))
    )


def _moved(draws: RandomSource, module: Module, site: Site[Stmt]) -> Module | None:
    stmt, own = site.stmt, {*defined_names((site.stmt,))}
    read = (each.buffer for each in walk(stmt) if isinstance(each, Load | Store | BufferRef))
    used = dict.fromkeys(name for name in read if name not in own)
    known = {each.name: each for each in site.frame.buffers}
    if any(name not in known or static_shape(known[name]) is None for name in used):
        return None
    views = [known[name] for name in used]
    names = (each for each in expressions((stmt,)) if isinstance(each, Var))
    numbers = dict.fromkeys(each for each in names if each.name not in own)
    name = Names({*module.functions}).fresh("helper")
    function = _taking(views, tuple(numbers), (stmt,), site.maker.names)
    data = [Call("buffer_data", (BufferRef(each.name),), _pointer(each)) for each in views]
    function, sizes = _sized(draws, function, site.maker.names)
    call = Call(f"@{name}", (*data, *numbers, *sizes), "void")
    made = site.put(module, (Evaluate(call),))
    return Module({**made.functions, name: function})


def _pointer(buffer: Buffer) -> str:
    return pointer_to(buffer.dtype, buffer.scope)


def _taking(views: list[Buffer], numbers: tuple[Var, ...], body: Body, names: Names) -> Function:
    """A function of some memory and numbers; its buffers may begin at any element."""
    data = [Var(names.fresh("p"), _pointer(each)) for each in views]
    declared = (
        Declare(replace(each, align=_width(each)), var) for each, var in zip(views, data, strict=True)
    )
    return Function((*data, *numbers), (*declared, *body))


def _width(buffer: Buffer) -> int:
    kind = numpy_dtype(buffer.dtype)
    return kind.itemsize if kind is not None else 1


def _sized(draws: RandomSource, function: Function, names: Names) -> tuple[Function, tuple[Const, ...]]:
    """The function with one of its sizes as a further parameter, and what that is; perhaps without."""
    declared = [each.buffer for each in function.body if isinstance(each, Declare)]
    sizes = sorted({dim for each in declared for dim in static_shape(each) or () if dim > 1})
    if not sizes or not draws.chance(_SIZED):
        return function, ()
    size = Const(draws.pick(sizes))
    var = Var(names.fresh("n"))
    changed = open_sizes(function, size, var, {each.name for each in declared})
    return replace(changed, params=(*changed.params, var)), (size,)


def open_sizes(function: Function, size: Const, var: Var, names: set[str]) -> Function:
    """The function with a variable for a size: in the dims of these buffers, and in loops."""

    def of(expr: Expr) -> Expr:
        return var if expr == size else expr

    def dims(buffer: Buffer) -> Buffer:
        return replace(buffer, shape=tuple(map(of, buffer.shape))) if buffer.name in names else buffer

    def loops(stmt: Stmt) -> Stmt:
        is_open = isinstance(stmt, For) and stmt.kind in ("serial", "unrolled") and stmt.extent == size
        return replace(stmt, extent=var, kind="serial") if is_open and isinstance(stmt, For) else stmt

    changed = map_buffers(map_statements(function, loops), dims)
    return replace(
        changed, params=tuple(dims(each) if isinstance(each, Buffer) else each for each in changed.params)
    )


def with_open_sizes(draws: RandomSource, module: Module, seed: int) -> Module:
    """The module with a variable for dims of parameters that are as large as a seed has such; else itself."""
    size, function = Const(SIZES[seed % len(SIZES)]), module.main
    names = {each.name for each in function.buffers if size in each.shape and draws.chance(0.8)}
    if not names or any(
        expr.dtype != "int32" for each in function.buffers for expr in each.shape if isinstance(expr, Var)
    ):
        return module
    var = Var(Names.of(function).fresh("n"))
    return with_function(module, module.entry, open_sizes(function, size, var, names))
