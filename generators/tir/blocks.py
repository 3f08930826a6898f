"""Loops as blocks: what TVM's schedules work on, so that passes over blocks have something to do."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from corpus.tir.program import OF_BLOCKS, holds_blocks, is_rooted
from corpus.tir.tree import Alloc, Axis, Block, Body, For, Match, Module, Stmt, Store
from corpus.tir.values import Binary, Buffer, Const, Expr, Load, Range, Region, Var, type_of
from corpus.tir.walk import buffers, expressions, map_expressions, substituted, walk, with_function
from generators.language.values import RandomSource
from generators.tir.frame import Names
from generators.tir.sites import is_independent

_MATCHED = 0.3
"""How often a block reads a buffer under another name, as one that matches a part of it."""


def in_blocks(draws: RandomSource, module: Module) -> Module:
    """The module with the innermost store of each fitting nest as a block, and one block around all."""
    function = module.main
    names = Names.of(function)
    known = {buffer.name: buffer for buffer in buffers((function,))}
    body = _Making(draws, names, known).body(function.body, ())
    return rooted(with_function(module, module.entry, replace(function, body=body)))


def rooted(module: Module) -> Module:
    """The module with one block around all, as TVM's text has functions of blocks; once."""
    function = module.main
    if holds_blocks(function) and is_rooted(function):
        return module
    allocs = tuple(stmt.buffer for stmt in function.body if isinstance(stmt, Alloc))
    rest = tuple(stmt for stmt in function.body if not isinstance(stmt, Alloc))
    root = Block("root", (), (), (), rest, allocs=allocs)
    attrs = {**function.attrs, OF_BLOCKS: True}
    return with_function(module, module.entry, replace(function, body=(root,), attrs=attrs))


def with_root(module: Module) -> Module:
    """The module; rooted if it holds blocks, which may stand beside plain loops after a change."""
    return rooted(module) if holds_blocks(module.main) else module


Regions = tuple[Region, ...]


def whole(buffer: Buffer) -> Region:
    """All of a buffer."""
    return Region(buffer.name, tuple(Range(Const(0), dim) for dim in buffer.shape))


def accessed(body: Body, known: Mapping[str, Buffer]) -> tuple[Regions, Regions]:
    """The buffers among the known ones that a body reads and those that it writes, each as a whole."""
    reads = (item.buffer for item in walk(body) if isinstance(item, Load))
    writes = (item.buffer for item in walk(body) if isinstance(item, Store))
    return _wholes(reads, known), _wholes(writes, known)


def _wholes(names: Iterable[str], known: Mapping[str, Buffer]) -> Regions:
    return tuple(whole(known[name]) for name in dict.fromkeys(names) if name in known)


@dataclass(frozen=True, slots=True)
class _Making:
    """Makes blocks of the nests of one function."""

    draws: RandomSource
    names: Names
    known: dict[str, Buffer]

    def body(self, body: Body, loops: tuple[For, ...]) -> Body:
        """Change each statement of a body; a first store and the sum that follows it become one block."""
        found: list[Stmt] = []
        place = 0
        while place < len(body):
            pair = body[place : place + 2]
            summed = _sum_of(pair)
            if summed is not None and (not loops or len(body) == 2) and _can_be_block(pair, loops):
                found.append(self.summing(*summed, loops))
                place += 2
                continue
            found.append(self.changed(body[place], loops, is_alone=len(body) == 1))
            place += 1
        return tuple(found)

    def changed(self, stmt: Stmt, loops: tuple[For, ...], *, is_alone: bool) -> Stmt:
        """A statement with blocks; within loops only one that is the whole body."""
        if loops and not is_alone:
            return stmt
        if isinstance(stmt, For) and _is_plain(stmt) and len(stmt.body) <= 2:
            return replace(stmt, body=self.body(stmt.body, (*loops, stmt)))
        if isinstance(stmt, Store) and loops and _can_be_block((stmt,), loops):
            return self.block(stmt, loops)
        return stmt

    def block(self, stmt: Store, loops: tuple[For, ...]) -> Block:
        """A store as a block with an axis for each loop."""
        axes = self.axes(loops, "spatial")
        store: Store = substituted(stmt, _inside(loops, axes))
        return self.matched(self.named(axes, (store,), None))

    def summing(self, start: Store, loop: For, loops: tuple[For, ...]) -> Stmt:
        """A loop over a block that sums, with its first value as the block's own."""
        axes = (*self.axes(loops, "spatial"), *self.axes((loop,), "reduce"))
        inside = _inside((*loops, loop), axes)
        body: Body = substituted(loop.body, inside)
        init: Body = substituted((start,), inside)
        return replace(loop, body=(self.named(axes, body, init),))

    def axes(self, loops: tuple[For, ...], kind: str) -> tuple[Axis, ...]:
        """An axis for each loop."""
        return tuple(
            Axis(Var(self.names.fresh("v")), Range(Const(0), loop.extent), kind, loop.var) for loop in loops
        )

    def named(self, axes: tuple[Axis, ...], body: Body, init: Body | None) -> Block:
        """A block of a name, with what it reads and writes."""
        reads, writes = accessed((*(init or ()), *body), self.known)
        if init:  # a sum is not said to read what it writes
            reads = tuple(each for each in reads if each not in writes)
        return Block(self.names.fresh("block"), axes, reads, writes, body, init)

    def matched(self, block: Block) -> Block:
        """The block with a view of a buffer that it only reads, of one row where an axis picks it."""
        stored = {region.buffer for region in block.writes}
        found = (each for each in expressions(block.body) if isinstance(each, Load))
        loads = [each for each in found if each.buffer not in stored]
        if not loads or not self.draws.chance(_MATCHED):
            return block
        load = self.draws.pick(loads)
        source = self.known[load.buffer]
        first, axes = load.indices[0], [axis.var for axis in block.axes]
        row = first if isinstance(first, Var) and self.draws.chance(0.5) and first in axes else None
        region = whole(source)
        if row is not None:
            region = replace(region, ranges=(Range(row, Const(1)), *region.ranges[1:]))
        offset = Var(self.names.fresh("offset"))
        shape = tuple(each.extent for each in region.ranges)
        name, scope = self.names.fresh("M"), source.scope
        view = Buffer(name, shape, source.dtype, offset=offset, scope=scope, align=source.align)

        def seen(expr: Expr) -> Expr:
            if not isinstance(expr, Load) or expr.buffer != source.name:
                return expr
            if row is None:
                return replace(expr, buffer=view.name)
            if expr.indices[0] != row:
                return expr
            return replace(expr, buffer=view.name, indices=(Const(0), *expr.indices[1:]))

        body = map_expressions(block.body, seen)
        return replace(block, body=body, matches=(Match(view, region),))


def _inside(loops: tuple[For, ...], axes: tuple[Axis, ...]) -> dict[str, Expr]:
    return {loop.var.name: axis.var for loop, axis in zip(loops, axes, strict=True)}


def _is_plain(loop: For) -> bool:
    return loop.kind == "serial" and loop.min == Const(0) and isinstance(loop.extent, Const)


def _can_be_block(body: Body, loops: tuple[For, ...]) -> bool:
    """Whether each round of the loops stores at places of its own."""
    return all(is_independent(replace(loop, body=body)) for loop in loops)


def _sum_of(pair: Body) -> tuple[Store, For] | None:
    """The parts of a store and of a loop that goes on from what it stored; None for all else."""
    start, loop = pair if len(pair) == 2 else (None, None)
    if not isinstance(start, Store) or not isinstance(loop, For) or not _is_plain(loop):
        return None
    step = loop.body[0] if len(loop.body) == 1 else None
    if not isinstance(step, Store) or not isinstance(step.value, Binary):
        return None
    loads = (each for each in expressions((start.value, step.value)) if isinstance(each, Load))
    own = [each for each in loads if each.buffer == step.buffer]
    goes_on = own == [step.value.a] and step.value.a == Load(step.buffer, step.indices, type_of(own[0]))
    is_same = (start.buffer, start.indices) == (step.buffer, step.indices)
    return (start, loop) if goes_on and is_same and loop.var not in expressions(step.indices) else None
