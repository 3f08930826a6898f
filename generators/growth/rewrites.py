"""Paths of operators as documented graph optimisations look for, class by class rather than rule by rule.

What a compiler rewrites is a path of neighbours: something linear, perhaps moved, then scaled; a padding and
the window after it; a cast there and back. A path here says which classes or operators may stand at each of
its steps; every operator of a step is as likely as any other, and is drawn with the attributes, operands and
types that its sampler allows.

Each is an identity of arithmetic or of shapes that any optimiser may use, with the constants in odd shapes
and on either side, so that the conditions under which it holds are tried as well.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import cache

import numpy as np

from generators.growth.steps import Definition, Steps, away_from_zero
from generators.language.scope import Scope
from oracles.operators import all_operators
from oracles.relation.operator import Operator
from oracles.relation.program import MAX_RANK, DoesNotFit, Kind, Operand
from oracles.relation.types import BOOL, NUMPY, TENSORS, extent

Step = tuple[Kind | str, ...]
"""What may stand at one place: classes, names of operators, or nothing at all (the empty name)."""

_MOVE: Step = (Kind.LAYOUT,)
_MOVED: Step = (Kind.LAYOUT, "Slice", "Gather", "Split", "Concat", "Pad", "")
_SHAPED: Step = ("Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "")
_LINEAR: Step = (Kind.LINEAR,)
_MATRIX: Step = ("MatMul", "Gemm", "Einsum", "Conv")
_SCALE: Step = ("BatchNormalization", "Add", "Mul", "Sub", "Div", "Sum")
_CLAMP: Step = ("Relu", "Clip", "Min", "Max", "Abs", "LeakyRelu")
_ANY: Step = (
    Kind.ARITHMETIC,
    Kind.ACTIVATION,
    Kind.MATH,
    Kind.NORM,
    Kind.REDUCE,
    Kind.PART,
    Kind.POOL,
    Kind.PAD,
)
_STEPPED: Step = (
    Kind.POOL,
    Kind.LAYOUT,
    Kind.PART,
    Kind.PAD,
    Kind.ACTIVATION,
    *_MATRIX,
    "Softmax",
    "Add",
    "Mul",
)
_PIECE: Step = ("Slice", "Split", "Gather", "Concat", "Tile", "Expand", "Pad")
_COUNT: Step = ("Shape", "Size", "NonZero", "ArgMax", "TopK")

PATHS: tuple[tuple[Step, ...], ...] = (
    (_LINEAR, _MOVED, _SCALE, (Kind.ACTIVATION, "")),
    (_SHAPED, _MATRIX, _SHAPED, _SCALE),
    (_MATRIX, _SHAPED, _SCALE, (Kind.ACTIVATION, "")),
    (_LINEAR, _SCALE, _SCALE, (Kind.ACTIVATION, "")),
    (_LINEAR, (Kind.ACTIVATION,), _LINEAR),
    (("Pad",), (Kind.POOL, "Conv", "ConvTranspose", "Pad")),
    (_CLAMP, _CLAMP),
    (("Cast", "CastLike"), (*_MOVE, ""), ("Cast", "CastLike"), ("Cast", *_ANY)),
    (_MOVE, _MOVE, (*_LINEAR, *_ANY)),
    (("Transpose",), _ANY, ("Transpose",)),
    (("Mul", "Div", "Transpose", ""), _MATRIX, ("Mul", "Div", "Transpose", "Add")),
    (_PIECE, _PIECE),
    ((Kind.REDUCE, Kind.POOL), _MOVED, (Kind.REDUCE, *_LINEAR, *_SCALE)),
    (("Add", "Expand", "Tile", "Unsqueeze", "Dropout"), (Kind.NORM, Kind.ACTIVATION, "Dropout")),
    ((Kind.COMPARE, "Not"), (*_MOVE, ""), (Kind.LOGIC, "Cast"), (Kind.LOGIC, Kind.REDUCE, "Mul", "")),
    (("Div", "Mul", "Reciprocal"), ("Mul", "Div")),
    (_COUNT, (Kind.PART, "Cast", *_MOVE), (Kind.ARITHMETIC, Kind.REDUCE, Kind.PART, "Cast")),
    (_STEPPED, ("QuantizeLinear",), (*_MOVED, "DequantizeLinear")),
    (("QuantizeLinear",), ("DequantizeLinear",), _STEPPED, ("QuantizeLinear",), ("DequantizeLinear", "")),
    (("QuantizeLinear",), ("DequantizeLinear",), ("QuantizeLinear",), ("DequantizeLinear",)),
    (("DequantizeLinear",), _STEPPED, ("QuantizeLinear", *_MOVE)),
    (("MatMulInteger", "ConvInteger"), ("Cast",), ("Mul",), ("Add", "")),
    ((Kind.NORM,), _SCALE, (Kind.ACTIVATION, *_LINEAR)),
)

PATH_SHARE = 14
"""How many times as often as a recipe a path comes up."""
_TRIES = 6


@cache
def _standing(step: Step) -> tuple[Operator, ...]:
    """Return ONNX's own operators for a step."""
    return tuple(one for one in all_operators() if one.is_standard and (one.kind in step or one.name in step))


def place_path(place: Steps, focus: Operand) -> None:
    """Put a path after the focus."""
    draws = place.scope.draws
    path = draws.pick([path for path in PATHS if sum("" not in step for step in path) <= place.room] or [()])
    if not path:
        raise DoesNotFit("no room")
    for step in path:
        if "" not in step or draws.chance(0.6):
            focus = _place_step(place, step, focus)


def _place_step(place: Steps, step: Step, focus: Operand) -> Operand:
    """One operator of the step, the first of some that accepts."""
    scope = place.scope
    found = [one for one in _standing(step) if one.takes(focus.dtype, focus.rank, scope.opset)]
    for operator in (scope.draws.pick(found) for _ in range(_TRIES if found else 0)):
        mark = scope.mark()
        try:
            return place.sampled(operator, focus)
        except DoesNotFit:
            scope.restore(mark)
    raise DoesNotFit("no operator")


_NEUTRAL = (("Add", 0), ("Sub", 0), ("Mul", 1), ("Div", 1), ("Pow", 1), ("Mul", 0), ("Max", 0), ("Min", 1))
_NEUTRAL_TRUTH = (("And", 1), ("Or", 0), ("Xor", 0), ("And", 0), ("Or", 1), ("Equal", 1))
_MORE_DIMS = 0.15
_END = 2**31 - 1
"""An end that means as far as there is something."""


def _filled(place: Steps, value: float, like: Operand) -> Operand:
    """A constant of one value: a scalar, of the operand's shape, or of ones, rarely of one more dim."""
    draws = place.scope.draws
    shape = draws.pick([(), (1,), like.shape, (1,) * like.rank, like.shape[like.rank // 2 :]])
    if draws.chance(_MORE_DIMS) and like.rank < MAX_RANK:
        shape = (1,) * (like.rank + 1)
    return place.scope.fix(np.full(shape, max(value, extent(like.dtype).low), NUMPY[like.dtype]), like.dtype)


def place_neutral(place: Steps, x: Operand) -> None:
    """A constant that leaves an operand as it is, or makes it one, mostly on the side where it does."""
    draws = place.scope.draws
    name, value = draws.pick(_NEUTRAL_TRUTH if x.dtype is BOOL else _NEUTRAL)
    other = _filled(place, value, x)
    is_right = name in ("Div", "Pow") or draws.chance(0.6)
    place(name, *((x, other) if is_right else (other, x)))


def place_reciprocal(place: Steps, x: Operand) -> None:
    """A number over a value, times another one."""
    if not away_from_zero(x):
        raise DoesNotFit("may be zero")
    scope = place.scope
    inverse = place("Div", _filled(place, scope.draws.pick((1, 1, -1, 2)), x), x)
    place("Mul", *scope.draws.sample((inverse, scope.partner(inverse)), 2))


def _reshaped(place: Steps, x: Operand) -> None:
    if 0 in x.shape:
        raise DoesNotFit("a 0 would be a copied dim")
    place("Reshape", x, place.scope.fix_ints(x.shape))


def _there_and_back(place: Steps, x: Operand) -> None:
    if x.rank >= MAX_RANK:
        raise DoesNotFit("no rank left")
    axis = place.scope.draws.between(-x.rank - 1, x.rank)
    longer = place("Unsqueeze", x, place.scope.fix_ints([axis]))
    place("Squeeze", longer, place.scope.fix_ints([axis]))


def _sliced(place: Steps, x: Operand) -> None:
    scope, axis = place.scope, place.scope.axis(x.rank)
    end = scope.draws.pick((x.shape[axis], _END))
    place("Slice", x, *(scope.fix_ints([each]) for each in (0, end, axis)))


_STAYS: tuple[Callable[[Steps, Operand], object], ...] = (
    lambda place, x: place("Identity", x),
    lambda place, x: place("Cast", x, to=int(x.dtype)),
    lambda place, x: place("Expand", x, place.scope.fix_ints(x.shape)),
    _reshaped,
    _there_and_back,
)
_STAYS_ALONG: tuple[Callable[[Steps, Operand], object], ...] = (
    lambda place, x: place("Concat", x, axis=place.scope.axis(x.rank)),
    lambda place, x: place("Transpose", x, perm=tuple(range(x.rank))),
    lambda place, x: place("Pad", x, place.scope.fix_ints([0] * 2 * x.rank)),
    lambda place, x: place("Tile", x, place.scope.fix_ints([1] * x.rank)),
    lambda place, x: place("Gather", x, place.scope.fix_ints(range(x.shape[0])), axis=0),
    _sliced,
)


def place_stay(place: Steps, x: Operand) -> None:
    """A move that leaves everything where it is."""
    place.scope.draws.pick(_STAYS + _STAYS_ALONG if x.rank else _STAYS)(place, x)


def place_computed_shape(place: Steps, x: Operand) -> None:
    """A reshape to a shape that is taken from the value's own, as exporters write it for dynamic dims."""
    scope = place.scope
    if not x.rank or 0 in x.shape:
        raise DoesNotFit("no dims")
    at = scope.draws.below(x.rank)
    shape = place("Shape", x)
    dim = place("Gather", shape, scope.fix_ints([at]), axis=0)
    wanted = [x.shape[at], -1] if scope.draws.chance(0.5) else [-1, x.shape[at]]
    rest = scope.fix_ints([-1])
    joined = place("Concat", *((dim, rest) if wanted[1] == -1 else (rest, dim)), axis=0)
    place("Reshape", x, joined._replace(content=np.array(wanted)))


def place_pieces(place: Steps, x: Operand) -> None:
    """Cut along an axis in neighbouring pieces, and put together again, perhaps in another order."""
    scope, draws = place.scope, place.scope.draws
    axis = scope.axis(x.rank) if x.rank else 0
    if not x.rank or x.shape[axis] < 2:
        raise DoesNotFit("nothing to cut")
    cut = draws.between(1, x.shape[axis] - 1)
    pieces = [
        place("Slice", x, *(scope.fix_ints([each]) for each in (start, end, axis)))
        for start, end in ((0, cut), (cut, _END))
    ]
    place("Concat", *draws.sample(pieces, 2), axis=axis)


RECIPES: tuple[tuple[Definition, int], ...] = (
    (place_neutral, 1),
    (place_reciprocal, 2),
    (place_stay, 1),
    (place_computed_shape, 4),
    (place_pieces, 3),
    *((place_path, 2) for _ in range(PATH_SHARE)),
)
"""Each with the fewest nodes that it needs."""


def place_rewritable(scope: Scope, focus: Operand, room: int) -> bool:
    """Put what may be rewritten after the focus; if False, what was placed is the caller's to take back."""
    fitting = [recipe for recipe, nodes in RECIPES if nodes <= room and focus.dtype in TENSORS]
    with suppress(DoesNotFit):
        if fitting:
            scope.draws.pick(fitting)(Steps(scope, room), focus)
            return True
    return False
