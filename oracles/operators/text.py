"""Operators on text, and one that counts tokens.

What depends on the words themselves is asked of words that are known.
"""

import math

import numpy as np

from oracles.relation.arithmetic import ROUNDS, WHOLE
from oracles.relation.operator import Inverse, Operator
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
from oracles.relation.rules import TO_TRUTH, another_dim, gives_dtype, inside, inverted, joined, shaped
from oracles.relation.types import ANYTHING, BOOL, F32, I32, I64, TEXT, Range, Shape, TensorType, broadcast

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


# Counts of numbers


def _sample_grams(scope: Scope, focus: Operand) -> Call:
    return _grams(scope, focus, scope.draws.between(1, 4))


def _grams(scope: Scope, focus: Operand, count: int) -> Call:
    """Counts of single numbers; the pool is as wide as the result."""
    attributes: dict[str, Attribute] = {
        "max_gram_length": 1,
        "max_skip_count": 0,
        "min_gram_length": 1,
        "mode": scope.draws.pick(("TF", "IDF", "TFIDF")),
        "ngram_counts": (0,),
        "ngram_indexes": tuple(range(count)),
        "pool_int64s": tuple(range(count)),
        "weights": tuple(scope.draws.pick((1.0, 0.5, 2.0)) for _ in range(count)),
    }
    return Call((focus,), attributes)


def _infer_grams(call: Call) -> tuple[TensorType, ...]:
    count = len(call.tuple_of("ngram_indexes", ()))
    return (TensorType(F32, (*call.operand(0).shape[:-1], count)),)


def _bound_grams(call: Call) -> tuple[Range, ...]:
    return (Range(0, 2.0 * call.operand(0).shape[-1]),)


def _solve_grams(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    rows = wanted.shape[:-1]
    shape = (*rows, another_dim(scope, rows))
    return _grams(scope, scope.supply(scope.draws.pick(operator.dtypes), shape), wanted.shape[-1])


def _entry(name: str, since: int = 20, ranks: range = RANKS) -> Operator:
    return Operator(name, Kind.TEXT, WHOLE, (TEXT,), ranks=ranks, since=since, realm=DTypeFamily.TEXT)


_UNBOUNDED = inside(-math.inf, math.inf)

OPERATORS = (
    _entry("StringConcat").by(
        _sample_concat, shaped(joined), _UNBOUNDED, Inverse(gives_dtype, _solve_concat)
    ),
    _entry("RegexFullMatch").by(
        _sample_match, TO_TRUTH, inside(0, 1), inverted(lambda shape: True, _solve_match, BOOL)
    ),
    _entry("StringSplit", ranks=range(MAX_RANK)).by(
        _sample_split, _infer_split, _bound_split, inverted(_can_be_split, _solve_split)
    ),
    _entry("StringNormalizer", FIRST_OPSET, range(1, 3)).by(
        _sample_normalise, bound=_UNBOUNDED, inverse=inverted(_is_line, _solve_normalise)
    ),
    Operator("TfIdfVectorizer", Kind.REDUCE, ROUNDS, (I32, I64), ranks=range(1, 3), filled=True).by(
        _sample_grams, _infer_grams, _bound_grams, inverted(range(1, 3), _solve_grams, F32)
    ),
)
