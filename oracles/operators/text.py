"""Operators on text. What depends on the words themselves is asked of words that are known."""

import math

import numpy as np

from oracles.relation.arithmetic import WHOLE
from oracles.relation.operator import Inverse, Operator, RangeRule, Sampler, TypeRule, same_type
from oracles.relation.program import (
    FIRST_OPSET,
    MAX_RANK,
    RANKS,
    Attribute,
    Call,
    DTypeFamily,
    Kind,
    Operand,
    Scope,
)
from oracles.relation.rules import TO_TRUTH, gives_dtype, inside, inverted, joined, shaped
from oracles.relation.types import ANYTHING, BOOL, I64, TEXT, Range, Shape, TensorType, broadcast

_PATTERNS = ("a.*", "[a-z]+", ".*", "", "[0-9.-]+", "(ab|z)", "\\w+", "A b")
_DELIMITERS = (",", "-", "::", "ab")


def _sample_concat(scope: Scope, focus: Operand) -> Call | None:
    other = scope.partner(focus)
    if broadcast(focus.shape, other.shape) is None:
        return None
    return Call((focus, other) if scope.draws.chance(0.5) else (other, focus))


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


def _entry(
    name: str,
    sample: Sampler,
    infer: TypeRule,
    bound: RangeRule,
    inverse: Inverse,
    since: int = 20,
    ranks: range = RANKS,
) -> Operator:
    return Operator(name, Kind.TEXT, WHOLE, (TEXT,), ranks=ranks, since=since, realm=DTypeFamily.TEXT).by(
        sample, infer, bound, inverse
    )


_CONCAT = Inverse(gives_dtype, _solve_concat)
_MATCH = inverted(lambda shape: True, _solve_match, BOOL)
_SPLIT, _LINE = inverted(_can_be_split, _solve_split), inverted(_is_line, _solve_normalise)
_UNBOUNDED = inside(-math.inf, math.inf)

OPERATORS = (
    _entry("StringConcat", _sample_concat, shaped(joined), _UNBOUNDED, _CONCAT),
    _entry("RegexFullMatch", _sample_match, TO_TRUTH, inside(0, 1), _MATCH),
    _entry("StringSplit", _sample_split, _infer_split, _bound_split, _SPLIT, ranks=range(MAX_RANK)),
    _entry("StringNormalizer", _sample_normalise, same_type, _UNBOUNDED, _LINE, FIRST_OPSET, range(1, 3)),
)
