"""Paths of operators as documented graph optimisations look for, class by class rather than rule by rule.

What a compiler rewrites is a path of neighbours: something linear, perhaps moved, then scaled; a padding and
the window after it; a cast there and back. A path here says which classes or operators may stand at each of
its steps; every operator of a step is as likely as any other, and is drawn with the attributes, operands and
types that its sampler allows.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from functools import cache

from generators.growth.steps import Steps
from oracles.operators import all_operators
from oracles.relation.operator import Operator
from oracles.relation.program import Kind, Operand
from oracles.relation.scope import DoesNotFit
from oracles.relation.types import F32, NUMERIC, extent

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

_TRIES = 6
_WEIGHTS = 0.6
"""How often the other operands of a path are weights, as in exported models: constants of their own."""
_BRANCHES = 0.2
"""How often an inner value of a path has another user: most rewrites hold only where there is none."""
_SUITED = 0.4
"""How often the focus is brought to a type that an operator of the first step takes."""


@cache
def _standing(step: Step) -> tuple[Operator, ...]:
    """Return ONNX's own operators for a step."""
    return tuple(one for one in all_operators() if one.is_standard and (one.kind in step or one.name in step))


def place_path(place: Steps, focus: Operand) -> None:
    """Put a path after the focus, or beside it."""
    draws = place.scope.draws
    path = draws.pick([path for path in PATHS if sum("" not in step for step in path) <= place.room] or [()])
    if not path:
        raise DoesNotFit("no room")
    if draws.chance(_SUITED):
        focus = _suited(place, path[0], focus)
    with place.scope.with_weights() if draws.chance(_WEIGHTS) else nullcontext():
        for step in path:
            if "" not in step or draws.chance(0.6):
                focus = _place_step(place, step, focus)
                _branch(place, focus)


def _branch(place: Steps, value: Operand) -> None:
    """Now and then another user of an inner value, beside the path."""
    if place.room > 2 and place.scope.draws.chance(_BRANCHES):
        mark = place.scope.mark()
        try:
            _place_step(place, _ANY, value)
        except DoesNotFit:
            place.scope.restore(mark)


def _suited(place: Steps, step: Step, focus: Operand) -> Operand:
    """The focus in a type and a rank that some operator of the step takes."""
    scope = place.scope
    operator = scope.draws.pick(_standing(step))
    if focus.dtype not in operator.dtypes:
        usual = [one for one in scope.profile.dtypes if one in operator.dtypes and one in NUMERIC]
        dtype = scope.draws.pick(usual or [F32])
        if not focus.range.is_within(extent(dtype)):
            raise DoesNotFit("no cast")
        focus = place("Cast", focus, to=int(dtype))
    if focus.rank in operator.ranks or 0 in focus.shape:
        return focus
    wanted = scope.draws.pick([rank for rank in operator.ranks if rank <= 4] or [focus.rank])
    cut = max(focus.rank - wanted + 1, 1)
    shape = (*(1,) * (wanted - focus.rank), *focus.shape)
    if focus.rank > wanted:
        shape = (math.prod(focus.shape[:cut]), *focus.shape[cut:]) if wanted else ()
    if math.prod(shape) != math.prod(focus.shape):
        raise DoesNotFit("no scalar")
    return place("Reshape", focus, scope.fix_ints(shape))


def _place_step(place: Steps, step: Step, focus: Operand) -> Operand:
    """One operator of the step, the first of some that accepts."""
    scope = place.scope
    found = [one for one in _standing(step) if one.takes(focus.dtype, focus.rank, scope.opset)]
    for operator in (scope.draws.pick(found) for _ in range(_TRIES if found else 0)):
        mark = scope.mark()
        try:
            return place.sampled(operator, focus)[0]
        except DoesNotFit:
            scope.restore(mark)
    raise DoesNotFit("no operator")
