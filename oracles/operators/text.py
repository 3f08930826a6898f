"""Operators on text. What depends on the words themselves is asked of words that are known."""

import numpy as np

from oracles.operators.elementwise import joined_shape
from oracles.relation.arithmetic import WHOLE
from oracles.relation.open_checks import recogniser
from oracles.relation.operator import Inverse, Operator
from oracles.relation.program import MAX_RANK, Attribute, Call, DTypeFamily, Kind, Operand, Scope
from oracles.relation.types import (
    ANYTHING,
    BOOL,
    I64,
    TEXT,
    TRUTH,
    DType,
    Range,
    Shape,
    TensorType,
    broadcast,
)

_PATTERNS = ("a.*", "[a-z]+", ".*", "", "[0-9.-]+", "(ab|z)", "\\w+", "A b")
_DELIMITERS = (",", "-", "::", "ab")


def _sample_concat(scope: Scope, focus: Operand) -> Call | None:
    other = scope.partner(focus)
    if broadcast(focus.shape, other.shape) is None:
        return None
    return Call((focus, other) if scope.draws.chance(0.5) else (other, focus))


def _infer_concat(call: Call) -> tuple[TensorType, ...]:
    return (TensorType(TEXT, joined_shape(call)),)


def _solve_concat(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    other = scope.supply(TEXT, scope.draws.pick((wanted.shape, ())))
    return Call((scope.supply(*wanted), other))


def _sample_match(scope: Scope, focus: Operand) -> Call:
    return Call((focus,), {"pattern": scope.draws.pick(_PATTERNS)})


def _solve_match(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    return _sample_match(scope, scope.supply(TEXT, wanted.shape))


def _sample_split(scope: Scope, focus: Operand) -> Call | None:
    """Split known words: the longest list of pieces is a dim of the result."""
    known = focus.content
    if known is None or not focus.is_constant or not known.size or not all(known.reshape(-1).tolist()):
        return None
    # An empty word has no pieces by one reading and one by another.
    attributes: dict[str, Attribute] = {"delimiter": scope.draws.pick(_DELIMITERS)}
    if scope.draws.chance(0.4):
        attributes["maxsplit"] = scope.draws.between(1, 2)
    return Call((focus,), attributes, 2)


def _most_pieces(call: Call) -> int:
    """The length of the longest list of pieces."""
    known, delimiter = call.operand(0).content, call.attributes["delimiter"]
    assert known is not None
    words = [str(word) for word in known.reshape(-1).tolist()]
    most = call.integer("maxsplit", -1)
    return max((len(word.split(str(delimiter), most)) for word in words), default=0)


def _infer_split(call: Call) -> tuple[TensorType, ...]:
    shape = call.operand(0).shape
    return TensorType(TEXT, (*shape, _most_pieces(call))), TensorType(I64, shape)


def _bound_split(call: Call) -> tuple[Range, ...]:
    return ANYTHING, Range(0, _most_pieces(call))


def _solve_split(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    """The first word has as many pieces as are wanted, and no other has more."""
    *shape, most = wanted.shape
    delimiter = scope.draws.pick(_DELIMITERS[:3])
    words = np.full(shape, delimiter.join(["z"] * most), dtype=object).reshape(-1)
    for at in range(1, len(words)):
        words[at] = delimiter.join(["y"] * scope.draws.between(1, most))
    fixed = scope.constant(words.reshape(shape).astype(np.str_), TEXT)
    return Call((fixed,), {"delimiter": delimiter}, 2)


def _can_be_split(shape: Shape) -> bool:
    return 1 <= len(shape) <= MAX_RANK and 0 not in shape and shape[-1] <= 4


def _sample_normalise(scope: Scope, focus: Operand) -> Call | None:
    """Case is changed or left; no word is dropped."""
    if focus.rank == 2 and focus.shape[0] != 1:
        return None
    return Call((focus,), _case(scope)) if 0 not in focus.shape else None


def _case(scope: Scope) -> dict[str, Attribute]:
    action = scope.draws.pick(("LOWER", "UPPER", "NONE", None))
    attributes: dict[str, Attribute] = {"case_change_action": action} if action else {}
    attributes["locale"] = "C"
    return {**attributes, "is_case_sensitive": 1} if scope.draws.chance(0.3) else attributes


def _solve_normalise(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    return Call((scope.supply(*wanted),), _case(scope))


def _is_line(shape: Shape) -> bool:
    return 0 not in shape and (len(shape) == 1 or (len(shape) == 2 and shape[0] == 1))


def _unbounded(call: Call) -> tuple[Range, ...]:
    return (ANYTHING,)


_TEXT: tuple[DType, ...] = (TEXT,)

OPERATORS = (
    Operator(
        "StringConcat",
        Kind.TEXT,
        WHOLE,
        _TEXT,
        _sample_concat,
        _infer_concat,
        _unbounded,
        since=20,
        inverse=Inverse(recogniser(lambda shape: True), _solve_concat),
        realm=DTypeFamily.TEXT,
    ),
    Operator(
        "RegexFullMatch",
        Kind.TEXT,
        WHOLE,
        _TEXT,
        _sample_match,
        lambda call: (TensorType(BOOL, call.operand(0).shape),),
        lambda call: (TRUTH,),
        since=20,
        inverse=Inverse(recogniser(lambda shape: True, BOOL), _solve_match),
        realm=DTypeFamily.TEXT,
    ),
    Operator(
        "StringSplit",
        Kind.TEXT,
        WHOLE,
        _TEXT,
        _sample_split,
        _infer_split,
        _bound_split,
        range(MAX_RANK),
        since=20,
        inverse=Inverse(recogniser(_can_be_split), _solve_split),
        realm=DTypeFamily.TEXT,
    ),
    Operator(
        "StringNormalizer",
        Kind.TEXT,
        WHOLE,
        _TEXT,
        _sample_normalise,
        bound=_unbounded,
        ranks=range(1, 3),
        inverse=Inverse(recogniser(_is_line), _solve_normalise),
        realm=DTypeFamily.TEXT,
    ),
)
