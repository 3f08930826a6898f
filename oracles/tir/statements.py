"""Statements as Python functions of the state. Each answers how it ended: on, or by a jump."""

from collections.abc import Callable
from enum import Enum, auto
from typing import Any, Final, TypeAlias

from corpus.tir.forms import lanes
from corpus.tir.promises import DOUBLES
from corpus.tir.tree import (
    Alloc,
    Assert,
    Attr,
    Bind,
    Block,
    Body,
    Break,
    Continue,
    Declare,
    Evaluate,
    For,
    If,
    Return,
    Seq,
    Stmt,
    Store,
    Thread,
    While,
)
from corpus.tir.values import BufferRef, Call, Const, type_of
from corpus.tir.walk import walk
from oracles.tir.expressions import Compiled, compiled, many
from oracles.tir.memory import allocate, box, match_region, view_of
from oracles.tir.scalars import UNDEFINED, NotModelled, Undefined
from oracles.tir.state import Address, Declared, Independent, Pipelined, State


class End(Enum):
    """The way in which a statement ended."""

    ON = auto()
    BREAK = auto()
    CONTINUE = auto()
    RETURN = auto()


Action: TypeAlias = Callable[[State], End]
JUMPS: Final = {"break_loop": End.BREAK, "continue_loop": End.CONTINUE, "thread_return": End.RETURN}


def compiled_body(body: Body) -> Action:
    """The function that does a body's statements in order."""
    actions = [compiled_statement(stmt) for stmt in body]
    if len(actions) == 1:
        return actions[0]

    def act(state: State) -> End:
        for action in actions:
            end = action(state)
            if end is not End.ON:
                return end
        return End.ON

    return act


def compiled_statement(stmt: Stmt) -> Action:
    """Compile a statement into a function. Raises NotModelled for one that the interpreter does not know."""
    make = _KINDS.get(type(stmt))
    if make is None:
        raise NotModelled(f"the statement {type(stmt).__name__}")
    action = make(stmt)

    def act(state: State) -> End:
        state.step()
        return action(state)

    return act


def _store(stmt: Store) -> Action:
    name, indices, value = stmt.buffer, many(stmt.indices), compiled(stmt.value)
    if stmt.indices and lanes(type_of(stmt.indices[-1])) > 1:
        return _store_vector(name, indices, value)

    def store(state: State) -> End:
        found = value(state)
        state.write(name, [index(state) for index in indices], found)
        return End.ON

    return store


def _store_vector(name: str, indices: list[Compiled], value: Compiled) -> Action:
    *first, last = indices

    def store(state: State) -> End:
        found, head, places = value(state), [index(state) for index in first], last(state)
        if len(set(places)) < len(places):
            raise Undefined("lanes of a store meet")
        for index, lane in zip(places, found, strict=True):
            state.write(name, [*head, index], lane)
        return End.ON

    return store


def _bind(stmt: Bind) -> Action:
    name, value = stmt.var.name, compiled(stmt.value)

    def bind(state: State) -> End:
        state.vars[name] = value(state)
        return End.ON

    return bind


def _alloc(stmt: Alloc) -> Action:
    def alloc(state: State) -> End:
        allocate(stmt.buffer, state)
        return End.ON

    return alloc


def _declare(stmt: Declare) -> Action:
    data, offset = compiled(stmt.data), compiled(stmt.buffer.offset)

    def declare(state: State) -> End:
        found = data(state)
        if not isinstance(found, Address):
            raise NotModelled("a buffer at an address of another kind")
        view = view_of(stmt.buffer, state, found.memory, found.start + offset(state))
        view.start = found.start
        state.views[stmt.buffer.name] = view
        return End.ON

    return declare


def _for(stmt: For) -> Action:
    bounds = many((stmt.min, stmt.extent, stmt.step or Const(1, stmt.var.dtype)))
    pipeline = _pipeline(stmt)
    body = _block(pipeline[0], _in_stages(pipeline[0].body)) if pipeline else compiled_body(stmt.body)
    kind = stmt.kind if stmt.kind in ("parallel", "vectorized", "thread") else ""

    def loop(state: State) -> End:
        first, extent, step = (bound(state) for bound in bounds)
        if UNDEFINED in (first, extent, step) or step <= 0:
            raise Undefined(f"the bounds of loop {stmt.var.name} are undefined")
        independent = Independent(kind) if kind else Pipelined(*pipeline[1:]) if pipeline else None
        return _rounds(stmt.var.name, range(first, first + extent, step), body, kind, state, independent)

    return loop


def _pipeline(loop: For) -> tuple[Block, tuple[int, ...], tuple[int, ...]] | None:
    """The block of a software pipeline, the stage of each of its statements, and their order."""
    stages = tuple(loop.annotations.get("software_pipeline_stage") or ())
    whole = loop.body[0] if len(loop.body) == 1 else None
    if not stages or not isinstance(whole, Block) or len(whole.body) != len(stages):
        return None
    return whole, stages, tuple(loop.annotations.get("software_pipeline_order") or range(len(stages)))


def _in_stages(body: Body) -> Action:
    """The statements of a software pipeline, each of which tells the loop around which it is."""
    actions = [compiled_statement(stmt) for stmt in body]

    def act(state: State) -> End:
        pipeline = next(each for each in reversed(state.loops) if isinstance(each, Pipelined))
        for pipeline.at, action in enumerate(actions):
            if (end := action(state)) is not End.ON:
                return end
        return End.ON

    return act


def _rounds(
    name: str,
    values: range,
    body: Action,
    kind: str,
    state: State,
    independent: Independent | Pipelined | None,
) -> End:
    if independent is not None:
        state.loops.append(independent)
    end = End.ON
    for number, value in enumerate(values):
        state.vars[name] = value
        if independent is not None:
            independent.iteration = number
        end = body(state)
        if end in (End.BREAK, End.RETURN):
            break
    if independent is not None:
        state.loops.pop()
        if end in (End.BREAK, End.RETURN):
            raise Undefined(f"a {kind or 'pipelined'} loop is left")
    return End.RETURN if end is End.RETURN else End.ON


def _truth(condition: Compiled, state: State, what: str) -> bool:
    value = condition(state)
    if value is UNDEFINED:
        raise Undefined(f"the condition of {what} is undefined")
    return bool(value)


def _while(stmt: While) -> Action:
    condition, body = compiled(stmt.condition), compiled_body(stmt.body)

    def loop(state: State) -> End:
        while _truth(condition, state, "while"):
            state.step()
            end = body(state)
            if end is End.RETURN:
                return end
            if end is End.BREAK:
                break
        return End.ON

    return loop


def _if(stmt: If) -> Action:
    condition, then = compiled(stmt.condition), compiled_body(stmt.then)
    other = compiled_body(stmt.other or ())
    return lambda state: then(state) if _truth(condition, state, "if") else other(state)


def _assert(stmt: Assert) -> Action:
    condition = compiled(stmt.condition)

    def claim(state: State) -> End:
        if not _truth(condition, state, "assert"):
            raise Undefined("an assertion fails")
        return End.ON

    return claim


def _evaluate(stmt: Evaluate) -> Action:
    value = stmt.value
    callee = value.callee if isinstance(value, Call) else ""
    if callee in JUMPS:
        return lambda state: JUMPS[callee]
    if callee in ("address_of", "buffer_data"):
        return lambda state: End.ON
    compute = compiled(value)

    def evaluate(state: State) -> End:
        compute(state)
        return End.ON

    return evaluate


def _return(stmt: Return) -> Action:
    value = compiled(stmt.value)

    def leave(state: State) -> End:
        state.returned = value(state)
        return End.RETURN

    return leave


def _attr(stmt: Attr) -> Action:
    body = compiled_body(stmt.body)
    if stmt.key == DOUBLES:
        return _filling(stmt, body)
    if not isinstance(stmt.node, Thread):
        return body
    thread = stmt.node
    if stmt.key not in ("thread_extent", "virtual_thread"):
        raise NotModelled(f"the attribute {stmt.key} of a thread")
    extent = compiled(stmt.value)

    def launched(state: State) -> End:
        if thread.name in state.vars:
            return body(state)
        count = extent(state)
        if count is UNDEFINED:
            raise Undefined("the extent of a thread is undefined")
        end = _rounds(thread.name, range(count), body, "thread", state, Independent("thread"))
        state.vars.pop(thread.name, None)
        return end

    return launched


def _filling(stmt: Attr, body: Action) -> Action:
    """What fills a double buffer: the half that it gets holds nothing of the round before."""
    names = [each.buffer for each in walk(stmt.node) if isinstance(each, BufferRef)]

    def fill(state: State) -> End:
        for name in names:
            cells = state.views[name].memory.cells
            cells[:] = [UNDEFINED] * len(cells)
        return body(state)

    return fill


def _block(stmt: Block, body: Action | None = None) -> Action:
    body, init = body or compiled_body(stmt.body), compiled_body(stmt.init) if stmt.init is not None else None
    predicate = compiled(stmt.predicate)
    names = [(axis.var.name, axis.kind) for axis in stmt.axes]
    axes = [many((axis.value, axis.domain.min, axis.domain.extent)) for axis in stmt.axes]

    def block(state: State) -> End:
        bounds = [[each(state) for each in axis] for axis in axes]
        is_first, is_within = True, True
        for (name, kind), (value, least, rounds) in zip(names, bounds, strict=True):
            if UNDEFINED in (value, least, rounds):
                raise Undefined(f"axis {name} is undefined")
            state.vars[name] = value
            is_first = is_first and (kind != "reduce" or value == least)
            is_within = is_within and 0 <= value - least < rounds
        if not _truth(predicate, state, f"block {stmt.name}"):
            return End.ON
        if not is_within:
            raise Undefined(f"an axis of block {stmt.name} is bound beyond its domain")
        return _inside(stmt, init if is_first else None, body, state)

    return block


def _inside(stmt: Block, init: Action | None, body: Action, state: State) -> End:
    for buffer in stmt.allocs:
        allocate(buffer, state)
    for match in stmt.matches:
        match_region(match.buffer, match.source, state)
    says = bool(stmt.reads or stmt.writes)
    if says:
        reads, writes = ([box(region, state) for region in regions] for regions in (stmt.reads, stmt.writes))
        said = Declared(stmt.name, reads, writes)
        said.own.update(id(state.views[buffer.name].memory) for buffer in stmt.allocs)
        state.enter(said)
    if init is not None:
        init(state)
    end = body(state)
    if says:
        state.blocks.pop()
    return end


_KINDS: Final[dict[type, Callable[[Any], Action]]] = {
    Store: _store,
    Bind: _bind,
    Alloc: _alloc,
    Declare: _declare,
    For: _for,
    While: _while,
    If: _if,
    Assert: _assert,
    Evaluate: _evaluate,
    Return: _return,
    Break: lambda stmt: lambda state: End.BREAK,
    Continue: lambda stmt: lambda state: End.CONTINUE,
    Attr: _attr,
    Seq: lambda stmt: compiled_body(stmt.body),
    Block: _block,
}
