"""What a program's text promises and TVM takes on trust, be it where no run gets: blocks, marks on loops.

A program that breaks such a promise is undefined: a pass may refuse it, or give another result.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from corpus.tir.tree import (
    Attr,
    Block,
    Body,
    Declare,
    For,
    Function,
    Match,
    Module,
    Stmt,
    Store,
    While,
    is_jump,
)
from corpus.tir.values import Buffer, BufferRef, Call, Load, Region
from corpus.tir.walk import bodies, map_statements, walk

DOUBLES = "double_buffer_scope"
"""The key of the attribute around what fills a double buffer."""


def broken(function: Function) -> Iterator[str]:
    """Yield what the function does against its own text."""
    for each in walk(function.body):
        if isinstance(each, Block):
            yield from (f"block {each.name} does not say that it uses {name}" for name in undeclared(each))
            idle = {region.buffer for region in (*each.reads, *each.writes)} - used(each)
            yield from (f"block {each.name} says that it uses {name}, and does not" for name in sorted(idle))
        elif isinstance(each, For) and not _is_left_in_order(each):
            yield f"loop {each.var.name}, which is left early, is {each.kind} or annotated"
    yield from (f"double buffer {name} is filled or used elsewhere" for name in misused(function))


def used(block: Block) -> set[str]:
    """The buffers that a block loads, stores to, hands out or matches a buffer to."""
    inside = walk((block.init or (), block.body, *(match.source for match in block.matches)))
    return {each.buffer for each in inside if isinstance(each, Load | Store | BufferRef | Region)}


def kept(module: Module) -> Module:
    """The module with blocks that say nothing of buffers which they do not use, as after a change."""

    def change(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, Block):
            return stmt
        names = used(stmt)
        reads, writes = (
            tuple(each for each in said if each.buffer in names) for said in (stmt.reads, stmt.writes)
        )
        return replace(stmt, reads=reads, writes=writes)

    return Module({name: map_statements(one, change) for name, one in module.functions.items()})


def undeclared(block: Block) -> Iterator[str]:
    """Yield the buffers from outside that a block stores to or loads and does not say so, if it says any."""
    inside = [*walk((block.allocs, block.matches, block.init or (), block.body))]
    own = {each.name for each in inside if isinstance(each, Buffer)}
    writes = own.union(region.buffer for region in block.writes)
    reads = writes.union(region.buffer for region in block.reads)
    for each in inside if block.reads or block.writes else ():
        if isinstance(each, Store | Load) and each.buffer not in (
            writes if isinstance(each, Store) else reads
        ):
            yield each.buffer


def _is_left_in_order(loop: For) -> bool:
    """Whether nothing leaves a loop that does not run round by round, or has a pragma: TVM refuses such."""
    return (loop.kind == "serial" and not loop.annotations) or not any(map(is_jump, _rounds(loop.body)))


def _rounds(body: Body) -> Iterator[Stmt]:
    """The statements of a loop's rounds, without those of the loops inside."""
    for stmt in body:
        yield stmt
        if not isinstance(stmt, For | While):
            for each in bodies(stmt):
                yield from _rounds(each)


def misused(function: Function) -> Iterator[str]:
    """Yield the double buffers that are not filled right in a loop, or not used after that in the same round.

    `InjectDoubleBuffer` fills one for the next round before the rest of a round. So what fills it stores to
    nothing else, and reads nothing that the loop changes.
    """
    around = {
        id(stmt): (loop.body[:place], loop.body[place + 1 :])
        for loop in walk(function.body)
        if isinstance(loop, For)
        for place, stmt in enumerate(loop.body)
    }
    memory = _memory(function)
    whole = _Used.of(function.body, memory)
    for fill in walk(function.body):
        if not isinstance(fill, Attr) or fill.key != DOUBLES:
            continue
        (name, *_) = (
            memory.get(each.buffer, each.buffer) for each in walk(fill.node) if isinstance(each, BufferRef)
        )
        before, after = around.get(id(fill), ((), ()))
        inside, rest = _Used.of(fill.body, memory), _Used.of((*before, *after), memory)
        once = {*inside.own, name}
        if (
            id(fill) not in around
            or not {*inside.stored} <= once
            or name in inside.loaded
            or {*inside.loaded} & {*rest.stored}
            or whole.stored.count(name) > inside.stored.count(name)
            or whole.loaded.count(name) > _Used.of(after, memory).loaded.count(name)
            or any(is_jump(each) for each in walk(before))
        ):
            yield name


@dataclass(frozen=True, slots=True)
class _Used:
    """The memory that statements load, store to (or hand out the address of), and allocate."""

    loaded: tuple[str, ...]
    stored: tuple[str, ...]
    own: tuple[str, ...]

    @classmethod
    def of(cls, body: Body, memory: dict[str, str]) -> "_Used":
        """Those of a body, by what the memory of each name is called."""
        found: dict[type, list[str]] = {Load: [], Store: [], Buffer: []}
        for each in walk(body):
            if isinstance(each, Load | Store):
                found[type(each)].append(memory.get(each.buffer, each.buffer))
            elif isinstance(each, Call) and each.callee.startswith("@"):
                given = (one.buffer for one in walk(each) if isinstance(one, BufferRef))
                found[Store] += (memory.get(one, one) for one in given)
            elif isinstance(each, Buffer):
                found[Buffer].append(each.name)
        return cls(*map(tuple, found.values()))


def _memory(function: Function) -> dict[str, str]:
    """The buffer whose memory each view shows, by the view's name."""
    found: dict[str, str] = {}
    for each in walk(function.body):
        source: Any = None
        if isinstance(each, Match):
            source = each.source.buffer
        elif isinstance(each, Declare):
            source = next((one.buffer for one in walk(each.data) if isinstance(one, BufferRef | Load)), None)
        if source is not None:
            found[each.buffer.name] = found.get(source, source)
    return found
