"""Blocks, which TVM's schedules work on: loops as blocks, chains of blocks, and steps of schedules over them.

A chain is as operators are lowered to: each stage computes one buffer from those before it: an element at a
time, transposed, padded, over windows, or by a reduction with its first value. The last one is a parameter. A
schedule changes how it is computed, and not what.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from corpus.tir.program import OF_BLOCKS, holds_blocks, is_rooted
from corpus.tir.tree import Alloc, Axis, Block, Body, For, Function, Module, Stmt, Store
from corpus.tir.values import Binary, Buffer, Call, Const, Expr, Load, Range, Region, Var, literal
from corpus.tir.walk import (
    buffers,
    expressions,
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


def in_blocks(module: Module) -> Module:
    """The module with the innermost store of each fitting nest as a block, and one block around all."""
    function = module.main
    names = Names.of(function)
    known = {buffer.name: buffer for buffer in buffers((function,))}
    body = tuple(_nested(each, (), names, known) for each in function.body)
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


def _nested(stmt: Stmt, loops: tuple[For, ...], names: Names, known: Mapping[str, Buffer]) -> Stmt:
    """A nest around one store, with that as a block; any other statement as it is."""
    if isinstance(stmt, For) and _is_plain(stmt):
        return replace(stmt, body=(_nested(stmt.body[0], (*loops, stmt), names, known),))
    is_fit = isinstance(stmt, Store) and all(is_independent(replace(each, body=(stmt,))) for each in loops)
    return _block_of(stmt, loops, names, known) if is_fit and loops else stmt


def _is_plain(loop: For) -> bool:
    is_counted = loop.kind == "serial" and loop.min == Const(0) and isinstance(loop.extent, Const)
    return is_counted and len(loop.body) == 1


def _block_of(stmt: Stmt, loops: tuple[For, ...], names: Names, known: Mapping[str, Buffer]) -> Block:
    """A store as a block with an axis for each loop."""
    axes = tuple(
        Axis(Var(names.fresh("v")), Range(Const(0), each.extent), "spatial", each.var) for each in loops
    )
    inside: dict[str, Expr] = {axis.value.name: axis.var for axis in axes if isinstance(axis.value, Var)}
    body: Body = (substituted(stmt, inside),)
    return Block(names.fresh("block"), axes, *accessed(body, known), body)


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
        op, drawn = self.draws.pick(("min", "max")), self.value(axes, source, known)
        return self.made(source.shape, axes, Binary(op, self.load(source, axes), drawn), known)

    def value(self, axes: Sequence[Var], buffer: Buffer, known: Sequence[Buffer]) -> Expr:
        """A value of any kind for each element of a buffer."""
        frame = Frame(buffers=tuple(known), extreme=self.extreme)
        for axis, dim in zip(axes, static_shape(buffer) or (), strict=True):
            frame = frame.with_loop(Known(axis, 0, dim - 1))
        sampler = Sampler(self.draws, frame)
        return sampler.kept(sampler.value(self.dtype, self.draws.between(1, 5)), self.dtype)

    def filled(self, buffer: Buffer, known: Sequence[Buffer]) -> Stmt:
        """What fills a buffer that is there, by a value of any kind for each element."""
        axes = self.axes(buffer.shape)
        value = self.value(axes, buffer, known)
        named = [
            Axis(var, Range(Const(0), dim), "spatial", var)
            for var, dim in zip(axes, buffer.shape, strict=True)
        ]
        return self.looped(named, _regions(value, [*known, buffer]), Store(buffer.name, axes, value), None)

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
