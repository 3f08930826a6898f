"""A PrimFunc as Relax's passes take it: stages under one root block, each of which fills a buffer.

A stage computes each element by itself, reduces over further loops, or runs any statements of the strategy
`tir` on copies. It reads operands and what earlier stages have filled.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from corpus.tir.forms import integer_range, is_float, is_integer
from corpus.tir.program import OF_BLOCKS
from corpus.tir.tree import Alloc, Axis, Block, Body, For, Function, Stmt, Store
from corpus.tir.values import (
    Binary,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Range,
    Region,
    Var,
    literal,
    type_of,
)
from corpus.tir.walk import expressions, map_statements, substituted
from generators.language.values import RandomSource
from generators.relax.operator import Tensor
from generators.tir.blocks import accessed, whole
from generators.tir.frame import Frame, Known, Names, static_shape
from generators.tir.statements import Maker
from generators.tir.values import Sampler, bounded

DTYPES = ("float32", "float64", "int32", "int64")
"""Of operands and results: other types of TVM's have bugs of their own, which `tir` shows alone."""
_EXTENTS = (1, 2, 3, 4, 5)
_MOST_ELEMENTS = 24
_MOST_STAGES = 3
_MOST_STATEMENTS = 4
_REFUSED = frozenset({"isinf", "isfinite"})
"""What TVM's code generator takes of no program; `tir` has it seldom, and here it would hide the rest."""
_COARSE = frozenset({"float16", "bfloat16"})
"""Types that TVM may compute in a wider one: what a result may differ by is more than rounding of float32."""


def primfunc(draws: RandomSource, operands: Sequence[Tensor], target: Tensor) -> Function:
    """A PrimFunc of operands of these types, which come before its result."""
    making = _Making(draws, Maker(draws, Names()))
    given = [making.named("A", each) for each in operands]
    result = making.named("R", target)
    known, stages, own = list(given), list[Stmt](), list[Buffer]()
    for buffer in [*(making.scratch() for _ in range(draws.below(_MOST_STAGES))), result]:
        made, allocs = making.stage(buffer, tuple(known))
        stages += made
        own += [*allocs, *([buffer] if buffer is not result else ())]
        known.append(buffer)
    root = Block(making.maker.names.fresh("root"), (), (), (), tuple(stages), allocs=tuple(own))
    return Function((*given, result), (root,), attrs={"tirx.noalias": True, OF_BLOCKS: True})


def is_taken(function: Function) -> bool:
    """Whether TVM's code generator has all of its intrinsics, and each float its own width.

    Nothing is divided by a zero that is written there, and no constant is cast to a type that lacks it: TVM
    ends at these in any program.
    """
    found = [*expressions(function.body)]
    calls = (each.callee for each in found if isinstance(each, Call))
    is_refused = any(map(_ends_tvm, found)) or not _REFUSED.isdisjoint(calls)
    return not is_refused and _COARSE.isdisjoint(map(type_of, found))


def _ends_tvm(expr: Expr) -> bool:
    match expr:
        case Binary(op="div", b=Const(value=value)):
            return not value
        case Cast(dtype=dtype, value=Const(value=value)) if is_integer(dtype):
            low, high = integer_range(dtype)
            return not low <= value <= high
    return False


@dataclass(frozen=True, slots=True)
class _Making:
    """Makes the stages of one function."""

    draws: RandomSource
    maker: Maker

    def named(self, stem: str, told: Tensor) -> Buffer:
        """A new buffer of a tensor's type; its dims are of int64, as all of Relax's are."""
        dims = tuple(Const(int(dim), "int64") for dim in told.shape)
        start = Const(0, "int64")  # as in the functions that TVM makes of operators: FuseTIR compares the two
        return Buffer(self.maker.names.fresh(stem), dims, told.dtype, offset=start)

    def scratch(self) -> Buffer:
        """A new buffer that only the function sees."""
        dims = [self.draws.pick(_EXTENTS) for _ in range(self.draws.between(1, 3))]
        while prod(dims) > _MOST_ELEMENTS:
            dims.pop()
        return self.named("T", Tensor(self.draws.pick(DTYPES), tuple(dims)))

    def stage(self, buffer: Buffer, known: tuple[Buffer, ...]) -> tuple[Body, list[Buffer]]:
        """The statements that fill a buffer, and the memory that they need besides."""
        way = self.draws.below(10)
        summed = self.reduced(buffer, known) if 5 <= way < 8 else None
        if summed is not None:
            return summed, []
        is_plain = way < 5 or not buffer.shape
        return (self.mapped(buffer, known), []) if is_plain else self.opaque(buffer, known)

    def mapped(self, buffer: Buffer, known: tuple[Buffer, ...]) -> Body:
        """Compute each element by itself."""
        loops = self.loops(static_shape(buffer) or (), "i")
        frame = _frame(known, loops)
        value = Sampler(self.draws, frame).value(buffer.dtype, self.draws.between(1, 6))
        store = Store(
            buffer.name, tuple(loop.var for loop in loops), bounded(value, buffer.dtype, self.draws)
        )
        return self.nest(loops, [], (store,), None, (*known, buffer))

    def reduced(self, buffer: Buffer, known: tuple[Buffer, ...]) -> Body | None:
        """Sum along one dim of a known buffer, or take the extreme; None if none has the type."""
        fitting = [each for each in known if each.dtype == buffer.dtype and each.shape]
        if not fitting:
            return None
        source = self.draws.pick(fitting)
        shape = static_shape(source) or ()
        loops, (along,) = self.loops(static_shape(buffer) or (), "i"), self.loops(shape[-1:], "k")
        sampler = Sampler(self.draws, _frame(known, loops))
        value: Expr = Load(source.name, (*sampler.indices(shape[:-1]), along.var), source.dtype)
        op = self.draws.pick(("add", "max", "min"))
        if op == "add" and is_float(buffer.dtype) and self.draws.chance(0.5):
            other = Sampler(self.draws, _frame(known, [*loops, along])).leaf(buffer.dtype).expr
            value = Binary("mul", value, other)
        elif op == "add" and not is_float(buffer.dtype):
            value = Binary("floormod", value, Const(self.draws.pick((7, 16, 61)), buffer.dtype))
        at = tuple(loop.var for loop in loops)
        start = literal({"add": 0, "max": -1000, "min": 1000}[op], buffer.dtype)
        step = Store(buffer.name, at, Binary(op, Load(buffer.name, at, buffer.dtype), value))
        first = (Store(buffer.name, at, start),)
        return self.nest(loops, [along], (step,), first, (*known, buffer))

    def opaque(self, buffer: Buffer, known: tuple[Buffer, ...]) -> tuple[Body, list[Buffer]]:
        """Return statements of any kind as one block; they may write to all they see: copies."""
        pairs = [(each, replace(each, name=self.maker.names.fresh("C"))) for each in known if each.shape]
        copying = [stmt for pair in pairs for stmt in self.copied(*pair)]
        copies = tuple(copy for _, copy in pairs)
        frame = Frame(buffers=(*copies, buffer))
        filled = self.maker.filled(Frame(buffers=copies), buffer)
        found = (*filled, *self.maker.body(frame, self.draws.between(1, _MOST_STATEMENTS)))
        body, own = _without_memory(found)
        reads, writes = accessed(body, {each.name: each for each in frame.buffers})
        block = Block(self.maker.names.fresh("block"), (), reads, writes, body, allocs=tuple(own))
        return (*copying, block), [copy for _, copy in pairs]

    def copied(self, source: Buffer, copy: Buffer) -> Body:
        """Fill a buffer with what another one holds."""
        loops = self.loops(static_shape(source) or (), "i")
        at = tuple(loop.var for loop in loops)
        store = Store(copy.name, at, Load(source.name, at, source.dtype))
        return self.nest(loops, [], (store,), None, (source, copy))

    def loops(self, extents: Sequence[int], stem: str) -> list[For]:
        """Return empty loops of new names."""
        names = self.maker.names
        return [For(Var(names.fresh(stem)), Const(0), Const(each), "serial", ()) for each in extents]

    def nest(
        self, loops: list[For], along: list[For], body: Body, init: Body | None, known: tuple[Buffer, ...]
    ) -> Body:
        """Put statements as a block into loops, with an axis for each."""
        kinds = ["spatial"] * len(loops) + ["reduce"] * len(along)
        axes = tuple(
            Axis(Var(self.maker.names.fresh("v")), Range(Const(0), loop.extent), kind, loop.var)
            for loop, kind in zip((*loops, *along), kinds, strict=True)
        )
        inside: dict[str, Expr] = {axis.value.name: axis.var for axis in axes if isinstance(axis.value, Var)}
        body = substituted(body, inside)
        init = substituted(init, inside) if init is not None else None
        table = {each.name: each for each in known}
        reads, writes = accessed(body, table)
        written = {each.buffer for each in writes}
        at = {axis.value: axis.var for axis in axes[: len(loops)]}
        block = Block(
            self.maker.names.fresh("block"),
            axes,
            tuple(each for each in reads if each.buffer not in written),
            tuple(_element(table[each.buffer], tuple(at.values())) for each in writes),
            body,
            init,
        )
        inner: Body = (block,)
        for loop in [*loops, *along][::-1]:
            inner = (replace(loop, body=inner),)
        return inner


def _frame(known: tuple[Buffer, ...], loops: Sequence[For]) -> Frame:
    frame = Frame(buffers=known)
    for loop in loops:
        assert isinstance(loop.extent, Const)
        frame = frame.with_loop(Known(loop.var, 0, int(loop.extent.value) - 1))
    return frame


def _element(buffer: Buffer, at: tuple[Expr, ...]) -> Region:
    """The region of one element."""
    if len(at) != len(buffer.shape):
        return whole(buffer)
    return Region(buffer.name, tuple(Range(each, Const(1)) for each in at))


def _without_memory(body: Body) -> tuple[Body, list[Buffer]]:
    """A body whose memory stands before it, and that memory."""
    found: list[Buffer] = []

    def kept(stmt: Stmt) -> Stmt | Body:
        if not isinstance(stmt, Alloc):
            return stmt
        found.append(stmt.buffer)
        return ()

    return map_statements(body, kept), found
