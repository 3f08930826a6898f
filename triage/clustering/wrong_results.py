"""How far two wrong results are apart: minimal passes, operators, dtypes and the kind of difference.

One rewrite that is wrong shows with an operator more or less around it, in float32 and float64, as another
value or as zero. It is another bug where an operator stands in for another, NaN for a value, and integers for
floats. Those are one only where a rewrite of the same operators is wrong whatever the type: its passes are
known, several operators are needed, or nothing is computed (a wrong shape, an operator that moves elements).
"""

import functools
import re
from collections import Counter
from collections.abc import Mapping

from rapidfuzz.distance import Indel

WEIGHTS = {"ops": 0.4, "kind": 0.27, "dtypes": 0.27, "passes": 0.06}
PLAIN_KINDS = frozenset({"value", "zeros", "sign", "off by one", "ulp", "saturation"})
"""Kinds of values that one bug gives on one input or another."""
_PLACES = frozenset({"tensor(int32)", "tensor(int64)", "tensor(bool)"})
_DTYPE = re.compile(r"(?:bfloat|float|u?int|bool|complex)\d*(?:_?e\dm\d\w*)?")
"""Graphs of other formats than ONNX say the types of what flows in as words of their own."""
_REFUSED = re.compile(r"op_type:(\w+)")
_LEVEL = re.compile(r"(?:L\d|_\w+ExecutionProvider)$")
SLIGHTLY = 0.3
FAIRLY = 0.6

Facts = Mapping[str, str]


def obstacle(one: Facts, two: Facts) -> str:
    """Say why two wrong results can never be one bug; without a common pass operators must be equal."""
    if _site(one) != _site(two):
        return f"the site differs: {one.get('site') or 'none'} and {two.get('site') or 'none'}"
    passes, others = passes_of(one), passes_of(two)
    if not (passes <= others or others <= passes) or bool(passes) != bool(others):
        return f"the minimal passes differ: {one.get('passes') or 'none'} and {two.get('passes') or 'none'}"
    if not passes and names(one) != names(two):
        return f"the operators differ: {' '.join(names(one))} and {' '.join(names(two))}"
    return ""


def _site(facts: Facts) -> str:
    """The operator that breaks its declaration; of an invalid model that is accepted the rule it breaks."""
    site = facts.get("site", "")
    if facts.get("kind") != "accepted":
        return site
    operator, rule = _REFUSED.search(site), site.rpartition("Error] ")[2].partition(". ")[0]
    return f"{operator.group(1) if operator else ''} {rule}"


def distance(name: str, one: Facts, two: Facts) -> float:
    """The distance of two wrong results in one of `WEIGHTS`."""
    if name == "ops":
        return 0.0 if _is_one_core(one, two) else _between_operators(names(one), names(two))
    if name == "dtypes":
        return _between_dtypes(dtypes(one), dtypes(two), _is_one_rewrite(one, two))
    if name == "kind":
        return _between_kinds(one.get("kind", ""), two.get("kind", ""), _is_one_core(one, two))
    if name == "passes":
        return Indel.normalized_distance(sorted(passes_of(one)), sorted(passes_of(two)))
    return Indel.normalized_distance(one.get(name, "").split(), two.get(name, "").split())


def passes_of(facts: Facts) -> frozenset[str]:
    """The minimal passes; one that runs at two levels of optimisation, or for a provider, is one."""
    return frozenset(_LEVEL.sub("", name) for name in facts.get("passes", "").split())


def _is_one_core(one: Facts, two: Facts) -> bool:
    """Whether the same passes took away and put in the same nodes.

    Where they put in the same, one of what they take away is enough: Mul and Div both become the factor of
    a fused MatMul.
    """
    if not (one.get("core") and two.get("core")) or passes_of(one) != passes_of(two):
        return False
    (gone, come), (others_gone, others_come) = _gone_and_come(one["core"]), _gone_and_come(two["core"])
    return come == others_come and (gone == others_gone or (bool(come) and bool(gone & others_gone)))


def _gone_and_come(core: str) -> tuple[Counter[str], Counter[str]]:
    words = core.split()
    return Counter(word for word in words if word[0] == "-"), Counter(
        word for word in words if word[0] == "+"
    )


def names(facts: Facts) -> list[str]:
    """The operators of a pattern such as `Pad:float32 MaxPool:float32`, or of `float32 relu add`.

    Identity computes nothing, and names nothing beside an operator that does.
    """
    every = (word.partition(":")[0] for word in facts.get("ops", "").split())
    named = [name for name in every if not _DTYPE.fullmatch(name)]
    return [name for name in named if name != "Identity"] or named


def dtypes(facts: Facts) -> frozenset[str]:
    """The dtypes of a pattern."""
    words = facts.get("ops", "").split()
    return frozenset(
        filter(None, (word if _DTYPE.fullmatch(word) else word.partition(":")[2] for word in words))
    )


def _between_operators(one: list[str], two: list[str]) -> float:
    """1 where an operator stands in for another; less where one pattern only has some more."""
    if Counter(one) <= Counter(two) or Counter(two) <= Counter(one):
        return Indel.normalized_distance(one, two)
    return 1.0


def _is_one_rewrite(one: Facts, two: Facts) -> bool:
    """Whether equal operators were rewritten in a way that has nothing to do with the types of elements.

    An operator that fails alone, by passes that nobody knows, may well be a kernel of one type.
    """
    if _is_one_core(one, two):
        return True
    if names(one) != names(two) or passes_of(one) != passes_of(two):
        return False
    computes_nothing = one.get("kind") == two.get("kind") == "shape" or all(map(_only_moves, names(one)))
    return bool(one.get("passes")) or len(names(one)) > 1 or computes_nothing


@functools.cache
def _only_moves(operator: str) -> bool:
    """Whether by the standard it gives back any type that it takes, text too, and takes only places beside.

    Such an operator cannot compute with its elements.
    """
    import onnx  # only some pairs need it, and it takes longer than all comparisons

    if not onnx.defs.has(operator):
        return False
    schema = onnx.defs.get_schema(operator)
    made = schema.outputs[0]
    taken = [each for each in schema.inputs if each.type_str != made.type_str]
    is_any = "tensor(string)" in made.types and len(taken) < len(schema.inputs)
    return is_any and all(set(each.types) <= _PLACES for each in taken)


def _between_dtypes(one: frozenset[str], two: frozenset[str], is_one_rewrite: bool) -> float:
    if one == two:
        return 0.0
    families = [
        {re.sub(r"^(bfloat|float).*|^u?(int)\d+$", r"\1\2", each) for each in side} for side in (one, two)
    ]
    families = [{each.removeprefix("b") for each in side} for side in families]
    if families[0] == families[1]:
        return SLIGHTLY
    return FAIRLY if is_one_rewrite else 1.0


def _between_kinds(one: str, two: str, is_one_core: bool) -> float:
    """The distance of two kinds of mismatch; within one rewrite a NaN is one more wrong value."""
    if one == two:
        return 0.0
    if is_one_core and {one, two} <= PLAIN_KINDS | {"nan", "inf"}:
        return SLIGHTLY
    return SLIGHTLY if {one, two} <= PLAIN_KINDS else 1.0
