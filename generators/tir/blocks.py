"""Blocks, which TVM's schedules work on: loops as blocks, chains of blocks, and steps of schedules over them.

A chain is as operators are lowered to: each stage computes one buffer from those before it: an element at a
time, transposed, padded, over windows, or by a reduction with its first value. The last one is a parameter. A
schedule changes how it is computed, and not what.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from corpus.tir.program import OF_BLOCKS, holds_blocks, is_rooted
from corpus.tir.tree import Alloc, Axis, Block, Body, For, Function, Match, Module, Stmt, Store
from corpus.tir.values import Binary, Buffer, Call, Const, Expr, Load, Range, Region, Var, literal, type_of
from corpus.tir.walk import (
    buffers,
    expressions,
    map_expressions,
    statements,
    substituted,
    walk,
    with_function,
)
from generators.language.values import RandomSource
from generators.sequences import Passes
from generators.tir.frame import Frame, Known, Names, static_shape
from generators.tir.sites import is_independent
from generators.tir.values import Sampler
from oracles.worker.tvm.sequences import PREFIX

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


_EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33)
_MOST = 160
"""Elements of a stage at most, a reduction's rounds counted."""
_TYPES = ("float32", "float32", "int32", "int32", "int64", "int8", "uint8", "float16")
_FACTORS = (2, 3, 4, 5, 8, 16)


@dataclass(frozen=True, slots=True)
class Stages:
    """Makes stages of one element type; `known` are the buffers that hold something."""

    draws: RandomSource
    names: Names
    dtype: str
    extreme: bool

    def module(self, entry: str) -> Module:
        """A function of two inputs and an output, and one to four stages."""
        inputs = tuple(Buffer(self.names.fresh("A"), self.shape(), self.dtype) for _ in range(2))
        known, body = list(inputs), list[Stmt]()
        for _ in range(self.draws.between(1, 4)):
            buffer, stmt = self.stage(known)
            known.append(buffer)
            body.append(stmt)
        root = Block("root", (), (), (), tuple(body), allocs=tuple(known[2:-1]))
        params = (*inputs, known[-1])
        return Module({entry: Function(params, (root,), attrs={OF_BLOCKS: True})})

    def shape(self, rank: int | None = None) -> tuple[Const, ...]:
        """A shape of few elements; of so many dims, if that is given."""
        rank = rank or self.draws.pick((1, 2, 2, 3))
        dims: list[int] = []
        for _ in range(rank):
            room = _MOST // reduce(int.__mul__, dims, 1)
            dims.append(self.draws.pick([each for each in _EXTENTS if each <= max(1, room)]))
        return tuple(map(Const, self.draws.sample(dims, rank)))

    def stage(self, known: Sequence[Buffer]) -> tuple[Buffer, Stmt]:
        """A new buffer, and what fills it; it reads the last buffer, mostly."""
        source = known[-1] if self.draws.chance(0.7) else self.draws.pick(known)
        ways = (
            self.elements,
            self.elements,
            self.turned,
            self.padded,
            self.windows,
            self.summed,
            self.summed,
        )
        return self.draws.pick(ways)(source, known)

    def elements(self, source: Buffer, known: Sequence[Buffer]) -> tuple[Buffer, Stmt]:
        """A value of any kind for each element, with the source's own element in it."""
        axes = self.axes(source.shape)
        frame = Frame(buffers=tuple(known), extreme=self.extreme)
        for axis, dim in zip(axes, static_shape(source) or (), strict=True):
            frame = frame.with_loop(Known(axis, 0, dim - 1))
        sampler = Sampler(self.draws, frame)
        drawn = sampler.value(self.dtype, self.draws.between(1, 5))
        op = self.draws.pick(("min", "max"))
        value = Binary(op, self.load(source, axes), sampler.kept(drawn, self.dtype))
        return self.made(source.shape, axes, value, known)

    def turned(self, source: Buffer, known: Sequence[Buffer]) -> tuple[Buffer, Stmt]:
        """The dims in the opposite order."""
        axes = self.axes(source.shape[::-1])
        return self.made(source.shape[::-1], axes, self.load(source, axes[::-1]), known)

    def padded(self, source: Buffer, known: Sequence[Buffer]) -> tuple[Buffer, Stmt]:
        """The source within some elements of the same value."""
        before, after = self.draws.between(0, 2), self.draws.between(0, 2)
        dims = static_shape(source) or ()
        shape = (*source.shape[:-1], Const(dims[-1] + before + after))
        axes = self.axes(shape)
        last = axes[-1]
        ends = Binary("le", Const(before), last), Binary("lt", last, Const(before + dims[-1]))
        inside = Binary("and", *ends)
        load = self.load(source, (*axes[:-1], Binary("sub", last, Const(before))))
        filling = literal(self.draws.pick((0, 0, 1)), self.dtype)
        return self.made(shape, axes, Call("if_then_else", (inside, load, filling), self.dtype), known)

    def windows(self, source: Buffer, known: Sequence[Buffer]) -> tuple[Buffer, Stmt]:
        """The extreme of each window along the last dim."""
        room = (static_shape(source) or (1,))[-1]
        width = self.draws.between(1, min(4, room))
        shape = (*source.shape[:-1], Const(room - width + 1))
        axes, inner = self.axes(shape), Var(self.names.fresh("r"))
        load = self.load(source, (*axes[:-1], Binary("add", axes[-1], inner)))
        return self.made(shape, axes, load, known, (inner, Const(width)))

    def summed(self, source: Buffer, known: Sequence[Buffer]) -> tuple[Buffer, Stmt]:
        """A reduction over the last dim."""
        shape = source.shape[:-1] or (Const(1),)
        axes, inner = self.axes(shape), Var(self.names.fresh("r"))
        places = (*axes, inner) if len(source.shape) > 1 else (inner,)
        return self.made(shape, axes, self.load(source, places), known, (inner, source.shape[-1]))

    def axes(self, shape: Sequence[Expr]) -> tuple[Var, ...]:
        """A variable for each dim."""
        return tuple(Var(self.names.fresh("v")) for _ in shape)

    def load(self, buffer: Buffer, places: Sequence[Expr]) -> Load:
        """An element."""
        return Load(buffer.name, tuple(places), buffer.dtype)

    def made(
        self,
        shape: tuple[Expr, ...],
        axes: tuple[Var, ...],
        value: Expr,
        known: Sequence[Buffer],
        reduced: tuple[Var, Expr] | None = None,
    ) -> tuple[Buffer, Stmt]:
        """A buffer and the loops around its block; what is `reduced` has an axis more, and a first value."""
        buffer = Buffer(self.names.fresh("B"), shape, self.dtype)
        init: Body | None = None
        if reduced is not None:
            op = self.draws.pick(("max", "min") if self.extreme else ("add", "max", "min"))
            value = Binary(op, self.load(buffer, axes), value)
            first = literal(self.draws.pick((0, 0, 1)), self.dtype)
            init = (Store(buffer.name, axes, first),)
        kinds = ["spatial"] * len(axes) + ["reduce"]
        spans = [*zip(axes, shape, strict=True), *([reduced] if reduced is not None else [])]
        named = [
            Axis(var, Range(Const(0), dim), kind, var) for (var, dim), kind in zip(spans, kinds, strict=False)
        ]
        store = Store(buffer.name, axes, value)
        return buffer, self.looped(named, _regions(value, [*known, buffer]), store, init)

    def looped(
        self, named: Sequence[Axis], reads: tuple[Region, ...], store: Store, init: Body | None
    ) -> Stmt:
        """The block of a store, in a loop for each axis."""
        around = tuple(replace(each, value=Var(self.names.fresh("i"))) for each in named)
        writes = (Region(store.buffer, tuple(Range(at, Const(1)) for at in store.indices)),)
        stmt: Stmt = Block(self.names.fresh("block"), around, reads, writes, (store,), init)
        for each in reversed(around):
            assert isinstance(each.value, Var)
            stmt = For(each.value, Const(0), each.domain.extent, "serial", (stmt,))
        return stmt


def _regions(value: Expr, known: Sequence[Buffer]) -> tuple[Region, ...]:
    """What a value reads of each buffer but the last one: along a dim one place, or else all of it."""
    found = []
    for buffer in known[:-1]:
        loads = (each for each in expressions((value,)) if isinstance(each, Load))
        read = [each.indices for each in loads if each.buffer == buffer.name]
        ranges = tuple(
            Range(places[0], Const(1)) if len({*places}) == 1 else Range(Const(0), dim)
            for *places, dim in zip(*read, buffer.shape, strict=True)
        )
        found += [Region(buffer.name, ranges)] if read else []
    return tuple(found)


def staged(draws: RandomSource, entry: str, *, extreme: bool) -> Module:
    """A module of one function, a chain of blocks."""
    return Stages(draws, Names(), draws.pick(_TYPES), extreme).module(entry)


_STEPS: dict[str, str] = {
    **dict.fromkeys(("split", "loop_partition"), "block loop factor"),
    **dict.fromkeys(
        ("fuse", "reorder", "parallel", "vectorize", "unroll", "add_unit_loop", "blockize"), "block loop"
    ),
    **dict.fromkeys(("compute_at", "reverse_compute_at"), "block block loop"),
    **dict.fromkeys(("decompose_reduction", "decompose_padding"), "block same loop"),
    **dict.fromkeys(("compute_inline", "reverse_compute_inline", "cache_write", "rolling_buffer"), "block"),
    **dict.fromkeys(("reindex", "transform_layout", "transform_block_layout"), "block"),
    "cache_read": "block few",
    "rfactor": "block loop few",
    "storage_align": "block factor few",
}
"""What each step is drawn with."""
_OFTEN = (
    "split",
    "split",
    "split",
    "reorder",
    "fuse",
    "vectorize",
    "compute_at",
    "reverse_compute_at",
    "cache_read",
)
_MOST_STEPS = 7


def drawn_schedule(draws: RandomSource, module: Module) -> Passes:
    """Some steps over the blocks of a module; TVM leaves out those that do not apply."""
    blocks = [each.name for each in statements((module.main,)) if isinstance(each, Block) and each.axes]
    if not blocks:
        return ()
    kinds = (*_STEPS, *_OFTEN)
    return tuple(_step(draws, draws.pick(kinds), blocks) for _ in range(draws.between(1, _MOST_STEPS)))


def _step(draws: RandomSource, kind: str, blocks: Sequence[str]) -> str:
    words = [kind]
    for each in _STEPS[kind].split():
        match each:
            case "block":
                words.append(draws.pick(blocks))
            case "same":
                words.append(words[1])
            case "factor":
                words.append(str(draws.pick(_FACTORS)))
            case _:
                words.append(str(draws.below(4 if each == "loop" else 2)))
    return PREFIX + ":".join(words)
