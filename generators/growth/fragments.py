"""Composite operators written out in smaller ones, as exporters do; what a compiler puts together again.

A fragment is the textbook definition of a composite: a recipe of steps over one value. It is placed by the
same gate as a single operator (types, ranges, budget), with the scope's own constants, axes and reuse.
"""

import math
from contextlib import suppress
from dataclasses import dataclass

from generators.growth.rewrites import RECIPES, place_path
from generators.growth.steps import (
    Definition,
    Leaning,
    Steps,
    apply,
    is_defined,
    place,
    place_wanted,
    recognising,
)
from generators.language.profile import Profile
from generators.language.scope import Scope
from generators.language.values import RandomSource
from oracles.operators import find_operator
from oracles.relation.arithmetic import rounded
from oracles.relation.program import UNTYPED_REALMS, Call, DoesNotFit, DTypeFamily, Operand
from oracles.relation.types import (
    ALL,
    F32,
    F64,
    FLOATS,
    I32,
    I64,
    NUMERIC,
    TENSORS,
    U8,
    DType,
    Range,
    TensorType,
    is_float,
    sequence_of,
)

PATH_SHARE = 14
"""How many times as often as a definition a path comes up."""


def _mean(place: Steps, x: Operand, axis: int) -> Operand:
    if place.scope.opset >= 18:
        return place("ReduceMean", x, place.scope.fix_ints([axis]), keepdims=1)
    return place("ReduceMean", x, axes=(axis,), keepdims=1)


def _squared(place: Steps, x: Operand) -> Operand:
    if place.scope.draws.chance(0.5):
        return place("Mul", x, x)
    return place("Pow", x, place.number(2, x))


def _axis(place: Steps, x: Operand) -> int:
    """The last axis mostly, as definitions have it; sometimes any, from either end."""
    if not x.rank or 0 in x.shape:
        raise DoesNotFit("no axis")
    return -1 if place.scope.draws.chance(0.7) else place.scope.axis(x.rank)


def _layer_norm(place: Steps, x: Operand) -> Operand:
    axis = _axis(place, x)
    centred = place("Sub", x, _mean(place, x, axis))
    variance = place.positive(_mean(place, _squared(place, centred), axis), 0)
    deviation = place("Sqrt", place("Add", variance, place.number(1e-3, x)))
    normal = place("Div", centred, deviation)
    scaled = place("Mul", normal, place.scope.supply(x.dtype, x.shape[-1:]))
    return place("Add", scaled, place.scope.supply(x.dtype, x.shape[-1:]))


def _rms_norm(place: Steps, x: Operand) -> Operand:
    mean = place.positive(_mean(place, _squared(place, x), _axis(place, x)), 0)
    root = place("Sqrt", place("Add", mean, place.number(1e-2, x)))
    inverted = place.scope.draws.chance(0.5)
    normal = place("Mul", x, place("Reciprocal", root)) if inverted else place("Div", x, root)
    return place("Mul", normal, place.scope.supply(x.dtype, x.shape[-1:]))


def _gelu(place: Steps, x: Operand) -> Operand:
    inner = place("Erf", place("Div", x, place.number(math.sqrt(2), x)))
    gate = place("Add", inner, place.number(1, x))
    if place.scope.draws.chance(0.5):
        return place("Mul", place("Mul", x, gate), place.number(0.5, x))
    return place("Mul", place("Mul", x, place.number(0.5, x)), gate)


def _tanh_gelu(place: Steps, x: Operand) -> Operand:
    cube = place("Mul", place("Pow", x, place.number(3, x)), place.number(0.044715, x))
    inner = place("Mul", place("Add", x, cube), place.number(math.sqrt(2 / math.pi), x))
    gate = place("Add", place("Tanh", inner), place.number(1, x))
    return place("Mul", place("Mul", x, place.number(0.5, x)), gate)


def _silu(place: Steps, x: Operand) -> Operand:
    inner = x if place.scope.draws.chance(0.5) else place("Mul", x, place.number(1.702, x))
    return place("Mul", x, place("Sigmoid", inner))


def _softmax(place: Steps, x: Operand) -> Operand:
    exponent = place("Exp", x)
    total = place("ReduceSum", exponent, place.scope.fix_ints([_axis(place, x)]), keepdims=1)
    return place("Div", exponent, total)


def _hard_swish(place: Steps, x: Operand) -> Operand:
    shifted = place("Add", x, place.number(3, x))
    clipped = place("Clip", shifted, *(place.scope.fix_scalar(end, x.dtype) for end in (0, 6)))
    return place("Mul", x, place("Div", clipped, place.number(6, x)))


def _attention(place: Steps, x: Operand) -> Operand:
    if x.rank < 3 or 0 in x.shape:
        raise DoesNotFit("no batch")
    perm = (*range(x.rank - 2), x.rank - 1, x.rank - 2)
    scores = place("MatMul", x, place("Transpose", x, perm=perm))
    scaled = place("Div", scores, place.number(math.sqrt(max(x.shape[-1], 1)), x))
    return place("MatMul", place("Softmax", scaled, axis=-1), x)


def _quantised(place: Steps, x: Operand) -> Operand:
    """Quantise a value and dequantise it, with a scale that covers it."""
    scope, zero = place.scope, place.scope.draws.pick((0, 128))
    scale = scope.fix_scalar(rounded(max(x.range.magnitude, 0.1)) / 127, x.dtype)
    point = scope.fix_scalar(zero, U8)
    return place("DequantizeLinear", place("QuantizeLinear", x, scale, point), scale, point)


def _sequence(place: Steps, x: Operand) -> Operand:
    """Into a sequence with others of its type, and one of them out again."""
    scope = place.scope
    first, second = (scope.supply(*x.type) for _ in range(2))
    made = place("SequenceConstruct", x, first)
    made = place("SequenceInsert", made, second, scope.fix_scalar(0, I64))
    return place("SequenceAt", made, scope.fix_scalar(scope.draws.pick((0, 1, 2, -1)), I64))


def _split_sequence(place: Steps, x: Operand) -> Operand:
    """Apart along an axis and together again."""
    axis = _axis(place, x)
    made = place("SplitToSequence", x, place.scope.fix_scalar(1, I64), axis=axis)
    return place("ConcatFromSequence", made, axis=axis)


_ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Max", "Min")


def _chain(place: Steps, x: Operand) -> Operand:
    """Arithmetic with constants, on either side; a divisor is known to be away from zero."""
    scope, draws = place.scope, place.scope.draws
    away = Range(-math.inf, math.inf, 0.1 if is_float(x.dtype) else 1)
    for _ in range(draws.between(2, 3)):
        name = draws.pick(_ARITHMETIC)
        is_left = draws.chance(0.6)
        if name == "Div" and not is_left and not x.range.is_within(away):
            raise DoesNotFit("may be zero")
        within = away if name == "Div" and is_left else None
        other = scope.create(x.dtype, (), within) if draws.chance(0.6) else scope.partner(x, within)
        x = place(name, x, other) if is_left else place(name, other, x)
    return x


_LISTED = tuple(dtype for dtype in TENSORS if sequence_of(dtype))


@dataclass(frozen=True, slots=True)
class Fragment:
    """A definition, the most nodes that it needs, and the element types that it is for."""

    define: Definition
    nodes: int
    dtypes: tuple[DType, ...] = FLOATS
    realm: DTypeFamily | None = None


FRAGMENTS = (
    Fragment(_layer_norm, 9),
    Fragment(_rms_norm, 6),
    Fragment(_gelu, 5),
    Fragment(_tanh_gelu, 8),
    Fragment(_silu, 3),
    Fragment(_softmax, 3),
    Fragment(_hard_swish, 4),
    Fragment(_attention, 5),
    Fragment(_quantised, 2, (F32,)),
    Fragment(_sequence, 3, _LISTED, DTypeFamily.CONTAINER),
    Fragment(_split_sequence, 2, (F32, F64, I32, I64), DTypeFamily.CONTAINER),
    Fragment(_chain, 3, NUMERIC),
)
REWRITABLE = (
    *(Fragment(define, nodes, TENSORS) for define, nodes in RECIPES),
    *(Fragment(place_path, 2, TENSORS) for _ in range(PATH_SHARE)),
)
"""What has a shorter form, and what stands where a rewrite may begin; nodes are the fewest."""


def place_fragment(scope: Scope, focus: Operand, room: int) -> bool:
    """Put a definition after the focus; False, and whatever was placed is the caller's to take back."""
    realms = (None, *scope.profile.realms)
    fitting = [one for one in (*FRAGMENTS, *REWRITABLE) if one.nodes <= room and one.realm in realms]
    found = [one for one in fitting if focus.dtype in one.dtypes]
    with suppress(DoesNotFit):
        if found:
            scope.draws.pick(found).define(Steps(scope, room), focus)
            return True
    return False


_DEPTH = 2
"""How deep bodies stand inside bodies."""
_TRIES = 6


class Bodies:
    """Grows the graphs inside of nodes by the same operators as programs."""

    def grow(self, inner: Scope, focus: Operand, nodes: int) -> list[Operand]:
        """Put some nodes one after another, from a value on; their results."""
        leaning, made = Leaning(inner.draws), [focus]
        for _ in range(nodes):
            now = made[-1]
            apart = UNTYPED_REALMS if inner.depth < _DEPTH else UNTYPED_REALMS | {DTypeFamily.CONTROL}
            operator = leaning.choose(inner, now, inner.profile.realms - apart)
            mark, count = inner.mark(), len(inner.pool)
            if operator is None or not is_defined(operator, now) or not apply(inner, operator, now):
                inner.restore(mark)
                continue
            made.append(next(value for value in inner.pool[count:] if value.producer is not None))
        return [value for value in made[1:] if value.dtype in ALL]

    def wanted(self, inner: Scope, wanted: TensorType) -> Operand:
        """A result of the wanted type: of an operator that can give it, or a copy."""
        realms = inner.profile.realms - UNTYPED_REALMS - {DTypeFamily.CONTROL, DTypeFamily.CONTAINER}
        for _ in range(_TRIES):
            mark = inner.mark()
            operator = recognising(inner.draws, wanted, inner.opset, realms)
            found = operator and place_wanted(inner, operator, wanted)
            if found:
                return found
            inner.restore(mark)
        placed = self.use(inner, "Identity", Call((inner.supply(*wanted),)))
        if placed is None:
            raise DoesNotFit("a copy")
        return placed[0]

    def use(self, inner: Scope, name: str, call: Call) -> tuple[Operand, ...] | None:
        """Add a node of the operator of that name; None if a result leaves the budget."""
        return place(inner, find_operator(name), call)


def new_scope(draws: RandomSource, profile: Profile) -> Scope:
    """An empty program that may hold control flow."""
    return Scope(draws, profile, Bodies())
