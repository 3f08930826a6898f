"""Stores of several lanes: arithmetic of lanes of buffers and of a number that all lanes share."""

from corpus.tir.forms import is_float, with_lanes
from corpus.tir.tree import Store
from corpus.tir.values import Binary, Broadcast, Buffer, Const, Expr, Load, Ramp
from generators.language.values import RandomSource
from generators.tir.frame import Frame, static_shape
from generators.tir.values import Sampler, usable

LANES = (2, 4, 4, 8, 8, 16)

_STEPS = (1, 1, 1, 1, 2, 3, -1, -1, -2)


def vector_store(draws: RandomSource, frame: Frame, fuel: int) -> Store | None:
    """Store some lanes along the last dim of a buffer; None where none is that long."""
    count, sampler = draws.pick(LANES), Sampler(draws, frame)
    known = [(each, static_shape(each) or ()) for each in frame.buffers if usable(each) and each.shape]
    long = [each for each, shape in known if shape[-1] >= count]
    if not long:
        return None
    buffer = draws.pick(long)
    number = sampler.kept(sampler.value(buffer.dtype, fuel), buffer.dtype)
    made: Expr = Broadcast(number, count)
    alike = [each for each in long if each.dtype == buffer.dtype]
    for _ in range(draws.between(1, 2)):
        source = draws.pick(alike)
        load = Load(source.name, _places(sampler, source, count), with_lanes(source.dtype, count))
        operators = ("add", "sub", "mul", "min", "max") if is_float(buffer.dtype) else ("min", "max")
        made = Binary(draws.pick(operators), load, made)
    return Store(buffer.name, _places(sampler, buffer, count), made)


def _places(sampler: Sampler, buffer: Buffer, count: int) -> tuple[Expr, ...]:
    """Some lanes of a row, in steps of either direction."""
    *head, length = static_shape(buffer) or ()
    step = sampler.draws.pick(_STEPS)
    if (count - 1) * abs(step) >= length:
        step = 1
    first = sampler.index(length - (count - 1) * abs(step))
    if step < 0:
        first = Binary("add", first, Const(-step * (count - 1)))
    return (*sampler.indices(tuple(head)), Ramp(first, Const(step), count))
