"""Fewer and plainer declarations: parameters, buffers, functions, attributes, inputs and names."""

from collections.abc import Iterator
from dataclasses import is_dataclass, replace
from functools import partial
from itertools import chain, repeat
from typing import Any

import numpy as np

from corpus.tir.forms import element, is_float, is_integer, lanes, pointer_to, with_lanes
from corpus.tir.scopes import defined_names
from corpus.tir.tree import (
    Alloc,
    Axis,
    Block,
    Body,
    Declare,
    For,
    Function,
    Match,
    Module,
    Stmt,
    Store,
    Thread,
)
from corpus.tir.values import (
    PLAIN_BUFFER,
    Binary,
    Buffer,
    BufferRef,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Region,
    Var,
    literal,
    plain_offset,
)
from corpus.tir.walk import (
    buffers,
    free_name,
    map_buffers,
    map_expressions,
    map_statements,
    rebuilt,
    renamed,
    renamed_in,
    replace_statements,
    statements,
    substituted,
    walk,
    with_buffer,
)
from corpus.values import Tensor, Value
from reducer.move import Hints, Move, Search, first_smaller
from reducer.moves.tir.body import Candidates, by_functions, by_statements
from reducer.subject.tir_subject import TirSubject, uncalled, used_names, without_uncalled


def drop_parameters(subject: TirSubject) -> Candidates:
    """Drop what the body does not name, all of it first; a number becomes a constant."""
    needed = tuple(item for item in subject.main.params if item.name in used_names(subject.main.body))
    if len(needed) < len(subject.main.params) - 1:
        yield partial(subject.with_main, replace(subject.main, params=needed))
    for place, item in enumerate(subject.main.params):
        others = (*subject.main.params[:place], *subject.main.params[place + 1 :])
        named = used_names((subject.main.body, *others))
        if item.name not in named:
            yield partial(subject.with_main, replace(subject.main, params=others))
        elif isinstance(item, Var):
            yield partial(_fixed, subject, item, others)
    yield from _without_operands(subject.module, subject)


def _without_operands(module: Module, subject: TirSubject) -> Candidates:
    """Drop what called functions are given and do not name, or are given the same number of everywhere."""
    calls = [each for each in walk(tuple(module.functions.values())) if isinstance(each, Call)]
    for name, function in [*module.functions.items()][1:]:
        for place, item in enumerate(function.params):
            others = (*function.params[:place], *function.params[place + 1 :])
            given = {each.args[place] for each in calls if each.callee == f"@{name}"}
            plain = replace(function, params=others)
            if item.name not in used_names((function.body, *others)):
                yield partial(_with_fewer, subject, name, plain, place)
            elif len(given) == 1 and isinstance(number := given.pop(), Const):
                yield partial(_with_fewer, subject, name, substituted(plain, {item.name: number}), place)


def _with_fewer(subject: TirSubject, name: str, function: Function, place: int) -> TirSubject:
    """The subject with this function, and calls of it without the operand at that place."""

    def fewer(expr: Expr) -> Expr:
        if not isinstance(expr, Call) or expr.callee != f"@{name}":
            return expr
        return replace(expr, args=(*expr.args[:place], *expr.args[place + 1 :]))

    functions = {**subject.module.functions, name: function}
    return subject.with_module(Module({key: map_expressions(one, fewer) for key, one in functions.items()}))


def _fixed(subject: TirSubject, var: Var, others: tuple[Buffer | Var, ...]) -> TirSubject | None:
    value = subject.inputs[var.name]
    if not isinstance(value, np.ndarray):
        return None
    number = literal(value.reshape(()).item(), var.dtype)
    return subject.with_main(substituted(replace(subject.main, params=others), {var.name: number}))


def drop_functions(subject: TirSubject) -> Candidates:
    """Drop functions that none calls, all of them first."""
    yield partial(without_uncalled, subject)
    functions = subject.module.functions
    for name in uncalled(subject.module):
        rest = {key: one for key, one in functions.items() if key != name}
        yield partial(subject.with_module, Module(rest))


def drop_attributes(subject: TirSubject) -> Candidates:
    """Drop the function's attributes, and what blocks are annotated with."""
    attrs = dict(subject.main.attrs)
    for key in attrs:
        if key not in ("global_symbol", "s_tir"):
            rest = {name: item for name, item in attrs.items() if name != key}
            yield partial(subject.with_main, replace(subject.main, attrs=rest))
    yield partial(_with_each, subject, Block, annotations={})
    yield partial(_with_each, subject, Block, predicate=Const(True, "bool"))


def _with_each(subject: TirSubject, kind: type[Stmt], **changes: Any) -> TirSubject:
    """The subject with all statements of a kind changed alike."""
    return subject.with_main(
        map_statements(
            subject.main, lambda stmt: replace(stmt, **changes) if isinstance(stmt, kind) else stmt
        )
    )


def plain_values(subject: TirSubject) -> Candidates:
    """Make what flows in zeros, ones, or small integers."""
    for name, value in subject.inputs.items():
        if isinstance(value, np.ndarray):
            for plain in _plain_tensors(value):
                if not np.array_equal(plain, value):
                    yield partial(replace, subject, inputs={**subject.inputs, name: plain})


def _plain_tensors(value: Tensor) -> Iterator[Tensor]:
    yield np.zeros_like(value)
    yield np.ones_like(value)
    yield np.arange(value.size).reshape(value.shape).astype(value.dtype)
    with np.errstate(all="ignore"):
        yield np.trunc(value.astype(np.float64)).astype(value.dtype)


_MEMORY, _LOOPS, _VALUES = "ABCDEFGH", "ijklmn", "xyzuvw"


def plain_names(subject: TirSubject, hints: Hints) -> Search:
    """All at once; a name that matters is rare, and then all stay."""
    return (yield from first_smaller(subject, [partial(_with_plain_names, subject)]))


def _with_plain_names(subject: TirSubject) -> TirSubject:
    names = new_names(subject.main)
    inputs = {names.get(name, name): value for name, value in subject.inputs.items()}
    return subject.with_main(renamed(subject.main, names), inputs)


def new_names(function: Function) -> dict[str, str]:
    """Map old names to new ones, in the order of definition."""
    memory = {item.name for item in walk(function) if isinstance(item, Buffer)}
    loops = {item.var.name for item in walk(function) if isinstance(item, For | Axis)}
    taken: set[str] = set()
    letters = {each: chain(each, repeat(each[0])) for each in (_MEMORY, _LOOPS, _VALUES)}
    found: dict[str, str] = {}
    for name in dict.fromkeys(defined_names(function)):
        kind = _MEMORY if name in memory else _LOOPS if name in loops else _VALUES
        found[name] = free_name(taken, next(letters[kind]))
    return found


def shorten_buffers(subject: TirSubject) -> Candidates:
    """Give each dim one element, two, or half as many; the values kept are the first ones."""
    for buffer in buffers(subject.main):
        for place, dim in enumerate(buffer.shape):
            if not isinstance(dim, Const):
                continue
            for fewer in dict.fromkeys((1, 2, 4, int(dim.value) // 2, int(dim.value) - 1)):
                if 0 < fewer < dim.value:
                    yield partial(_with_dim, subject, buffer, place, Const(fewer, dim.dtype))


def _with_dim(subject: TirSubject, buffer: Buffer, place: int, dim: Const) -> TirSubject:
    shape = (*buffer.shape[:place], dim, *buffer.shape[place + 1 :])
    function = map_buffers(
        subject.main, lambda one: replace(one, shape=shape) if one.name == buffer.name else one
    )
    inputs: dict[str, Value] = dict(subject.inputs)
    value = inputs.get(buffer.name)
    if isinstance(value, np.ndarray):
        first = (slice(None),) * place
        inputs[buffer.name] = np.ascontiguousarray(value[(*first, slice(int(dim.value)))])
    return subject.with_main(function, inputs)


def plain_buffers(subject: TirSubject) -> Candidates:
    """Take from each buffer what is unusual about it, all at once or one by one."""
    for buffer in buffers(subject.main):
        usual = {"strides": (), "offset": plain_offset(buffer.shape), **PLAIN_BUFFER}
        for changes in (usual, *({key: value} for key, value in usual.items())):
            plain = replace(buffer, **changes)
            if plain != buffer:
                yield partial(subject.with_main, with_buffer(subject.main, plain))


def plain_allocations(subject: TirSubject) -> Candidates:
    """Take annotations from allocations."""
    yield partial(_with_each, subject, Alloc, annotations={})


def lower_ranks(subject: TirSubject) -> Candidates:
    """Drop dims of extent 1, one after the other."""
    for buffer in buffers(subject.main):
        for place, dim in enumerate(buffer.shape):
            if isinstance(dim, Const) and dim.value == 1 and len(buffer.shape) > 1 and not buffer.strides:
                yield partial(_without_dim, subject, buffer.name, place)


def _without_dim(subject: TirSubject, name: str, place: int) -> TirSubject | None:
    def without(items: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*items[:place], *items[place + 1 :])

    def change(node: Any) -> Any:
        node = rebuilt(node, change)
        match node:
            case Buffer(name=found) if found == name:
                return replace(node, shape=without(node.shape), tiled=False)
            case Load(buffer=found) | Store(buffer=found) if found == name:
                return replace(node, indices=without(node.indices))
            case Region(buffer=found) if found == name:
                return replace(node, ranges=without(node.ranges))
        return node

    inputs: dict[str, Value] = dict(subject.inputs)
    value = inputs.get(name)
    if isinstance(value, np.ndarray):
        inputs[name] = value.reshape(without(value.shape))
    return subject.with_main(change(subject.main), inputs)


def drop_matches(stmt: Stmt) -> Iterator[Body]:
    """Use the buffer itself instead of each that is matched to a region of it."""
    if isinstance(stmt, Block):
        for place, match in enumerate(stmt.matches):
            if len(match.buffer.shape) == len(match.source.ranges):
                others = (*stmt.matches[:place], *stmt.matches[place + 1 :])
                yield (_in_place(replace(stmt, matches=others), match),)


def drop_views(subject: TirSubject) -> Candidates:
    """Use a buffer itself instead of one that is declared over its memory."""
    for position, stmt in enumerate(statements(subject.main.body)):
        match stmt:
            case Declare(Buffer(name=name, shape=dims), Call("buffer_data", (BufferRef(source),))):
                shapes = {each.name: each.shape for each in buffers(subject.main)}
                if len(shapes.get(source, ())) == len(dims):
                    yield partial(_without_view, subject, position, name, source)


def _without_view(subject: TirSubject, position: int, name: str, source: str) -> TirSubject:
    body = replace_statements(subject.main.body, {position: ()})
    return subject.with_main(replace(subject.main, body=renamed_in(body, {name: source})))


def _in_place(stmt: Block, match: Match) -> Stmt:
    source, starts = match.source.buffer, [each.min for each in match.source.ranges]

    def moved(indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(Binary("add", start, index) for start, index in zip(starts, indices, strict=True))

    def change(node: Any) -> Any:
        node = rebuilt(node, change)
        if isinstance(node, Load | Store) and node.buffer == match.buffer.name:
            return replace(node, buffer=source, indices=moved(node.indices))
        if isinstance(node, Region) and node.buffer == match.buffer.name:
            return match.source
        return node

    found: Stmt = change(stmt)
    return found


_TYPED = (Var, Const, Cast, Load, Call, Buffer, Thread)


def plain_types(subject: TirSubject) -> Candidates:
    """Give what is of an unusual type the usual one of its kind, in all functions and what points at it."""
    functions = tuple(subject.module.functions.values())
    used = {element(each.dtype) for each in walk(functions) if isinstance(each, _TYPED)}
    for old in sorted(used):
        new = "float32" if is_float(old) else "int32" if is_integer(old) else old
        if new != old:
            yield partial(_retyped, subject, old, new)


def _retyped(subject: TirSubject, old: str, new: str) -> TirSubject | None:
    def change(node: Any) -> Any:
        node = rebuilt(node, change) if is_dataclass(node) else node
        if not isinstance(node, _TYPED):
            return node
        if element(node.dtype) == old:
            return replace(node, dtype=with_lanes(new, lanes(node.dtype)))
        pointer = pointer_to(old, "")
        dtype = node.dtype.replace(pointer, pointer_to(new, ""))
        return replace(node, dtype=dtype) if node.dtype.startswith(pointer) else node

    inputs: dict[str, Value] = dict(subject.inputs)
    for item in subject.main.params:
        value = inputs.get(item.name)
        if isinstance(value, np.ndarray) and item.dtype == old:
            with np.errstate(all="ignore"):
                inputs[item.name] = value.astype(new)
    functions = {name: change(one) for name, one in subject.module.functions.items()}
    for name, one in functions.items():
        functions[name] = replace(one, returns=new if one.returns == old else one.returns)
    return subject.with_module(Module(functions), inputs)


MOVES = (
    Move("drop parameters", 55, by_functions(drop_parameters), on=TirSubject),
    Move("drop functions", 15, by_functions(drop_functions), on=TirSubject),
    Move("drop attributes", 80, by_functions(drop_attributes), on=TirSubject),
    Move("plain values of loops", 100, by_functions(plain_values), on=TirSubject),
    Move("plain names of loops", 550, plain_names, renames=True, on=TirSubject),
    Move("shorten buffers", 60, by_functions(shorten_buffers), on=TirSubject),
    Move("plain buffers", 65, by_functions(plain_buffers), on=TirSubject),
    Move("plain allocations", 66, by_functions(plain_allocations), on=TirSubject),
    Move("lower ranks", 67, by_functions(lower_ranks), on=TirSubject),
    Move("drop matched buffers", 18, by_statements(drop_matches), on=TirSubject),
    Move("drop views", 19, by_functions(drop_views), on=TirSubject),
    Move("plain types", 68, by_functions(plain_types), on=TirSubject),
)
