"""How far two signatures of one backend and outcome are apart (L2): 0 is the same, 1 nothing in common.

Exceptions are compared by message (a sequence of words), operator and site. Site and operator both say
*where*: one which neither side names leaves its weight to the other, and both leave theirs to the message.
Where a message itself names an operator that the other does not, and the reverse, that is two operators.
Crashes are compared by operators (or the caller, in a bare trace), site and last words, as far as there are
any, and are two where other operands are special; wrong results as `triage.clustering.wrong_results` says.
Timeouts are exact: nothing is similar to them.
"""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from rapidfuzz.distance import Indel

from oracles.naming import Signature
from triage.clustering import wrong_results
from triage.projects import project_of, project_of_module

MERGE = 0.25
"""Average distances up to this are one cluster."""
RELATED = 0.45
"""Distances up to this are shown as related, and never merged."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_MISSING = re.compile(r"has no attribute (\w+)")
"""What Python misses of an object tells the line at which it stands, more than all other words."""
_UNHANDLED = re.compile(
    r"(?:have a default for|un-registered function on type:?|know how to handle type|treat type) `?([\w.]+)"
)
"""The kind of node that a dispatch of TVM has no case for: one site serves every kind, each its own gap."""
_OF_MEMORY = frozenset({"SIGSEGV", "SIGABRT", "SIGBUS"})
_SIGNAL = 0.2
"""What a different signal adds where one damage to memory ends in one or the other, at the same operators."""
UN_OPTIMISED = "un-optimised"
"""The side of a failure that only the un-optimised run has; without a side every run has it."""
BEFORE_REDUCTION = "before reduction"
"""The basis of a signature that a few checks gave; only its like are its neighbours."""
COMPARED = ("exception", "crash", "mismatch")
_CRASH = {"ops": 0.4, "site": 0.3, "message": 0.3}


@dataclass(frozen=True, slots=True)
class Part:
    """One component of a comparison: its share of the whole, and how far the two texts are apart in it."""

    name: str
    weight: float
    distance: float
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two signatures side by side; `obstacle` says in words why they can never be one where that is so."""

    distance: float
    parts: tuple[Part, ...] = ()
    obstacle: str = ""


def compare(first: Signature, second: Signature) -> Comparison:
    """The weighted distance of two signatures, part by part; 1 with an obstacle for two kinds."""
    if first.components == second.components:
        return Comparison(0.0)
    one, two = _facts(first), _facts(second)
    _add_operators(one, two)
    obstacle = _obstacle(one, two)
    if obstacle:
        return Comparison(1.0, obstacle=obstacle)
    if _is_one_refusal(one, two):
        return Comparison(0.0)
    if one["outcome"] == "mismatch":
        parts = tuple(_part_of_results(name, one, two) for name in wrong_results.WEIGHTS)
        return Comparison(sum(part.weight * part.distance for part in parts), parts)
    parts = tuple(
        _part(name, weight, one.get(name, ""), two.get(name, ""))
        for name, weight in _weights(one, two).items()
    )
    return Comparison(sum(part.weight * part.distance for part in parts), parts)


def _is_one_refusal(one: Mapping[str, str], two: Mapping[str, str]) -> bool:
    """Whether a node that the same passes put in is refused for its types, or as it runs."""
    is_one_rewrite = bool(one.get("rewrite")) and all(
        one.get(name) == two.get(name) for name in ("rewrite", "error", "op")
    )
    return is_one_rewrite or (bool(one.get("ill-typed")) and one.get("ill-typed") == two.get("ill-typed"))


def _part(name: str, weight: float, one: str, two: str) -> Part:
    return Part(name, weight, _distance(name, one, two), one, two)


def _part_of_results(name: str, one: Mapping[str, str], two: Mapping[str, str]) -> Part:
    shown = "ops" if name == "dtypes" else name
    apart = wrong_results.distance(name, one, two)
    return Part(name, wrong_results.WEIGHTS[name], apart, one.get(shown, ""), two.get(shown, ""))


def group_of(signature: Signature) -> tuple[str, str] | None:
    """The backend and outcome within which a signature has neighbours; None where only equals are one bug."""
    facts = _facts(signature)
    outcome = facts.get("outcome", "")
    if outcome not in COMPARED:
        return None
    return facts["backend"], " ".join(filter(None, (outcome, facts.get("basis", ""))))


def _facts(signature: Signature) -> dict[str, str]:
    """The components by name, in the vocabulary of comparisons: a bare trace knows its package and caller."""
    return dict(_facts_of(signature.components))


@functools.lru_cache(maxsize=1 << 14)
def _facts_of(components: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    facts = dict(components)
    package = facts.get("package", "")
    facts["backend"] = facts.get("backend") or next(iter(project_of_module(package).backends), package)
    if "rewritten" in facts:
        facts.setdefault("op", facts["rewritten"])
    if "caller" in facts:
        facts.setdefault("ops", facts["caller"])
    return facts


def _add_operators(one: dict[str, str], two: dict[str, str]) -> None:
    """Add the operators that only one message names, if both name some and no component has operators."""
    if one.get("op") or two.get("op"):
        return
    named, other = (_operators(facts.get("message", "")) for facts in (one, two))
    if named - other and other - named:
        one["op"], two["op"] = (" ".join(sorted(each)) for each in (named - other, other - named))


@functools.lru_cache(maxsize=1 << 14)
def _operators(message: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", message)) & _operator_types()


@functools.cache
def _operator_types() -> frozenset[str]:
    import onnx  # only some texts need it, and it takes longer than all comparisons

    return frozenset(schema.name for schema in onnx.defs.get_all_schemas())


def _obstacle(one: Mapping[str, str], two: Mapping[str, str]) -> str:
    sides = () if _is_one_check(one, two) else ("side",)
    for name in ("backend", "outcome", *sides, *(() if _is_one_damage(one, two) else ("signal",))):
        if one.get(name, "") != two.get(name, "") and not _fail_unoptimised(name, one, two):
            return f"the {name} differs: {one.get(name) or 'none'} and {two.get(name) or 'none'}"
    if one.get("outcome") == "crash" and (told := _other_operands(one, two)):
        return told
    for pattern, words in ((_MISSING, "attribute is missing"), (_UNHANDLED, "kind of node is not handled")):
        missing, other = (pattern.findall(facts.get("message", "")) for facts in (one, two))
        if missing != other:
            return f"another {words}: {' '.join(missing) or 'none'} and {' '.join(other) or 'none'}"
    if one.get("outcome") not in COMPARED:
        return f"{one.get('outcome') or 'such failures'}: only equal signatures are one bug"
    return wrong_results.obstacle(one, two) if one["outcome"] == "mismatch" else ""


def _fail_unoptimised(name: str, one: Mapping[str, str], two: Mapping[str, str]) -> bool:
    """Whether two sides are those of one failure: another optimiser only drops what fails."""
    return name == "side" and {one.get(name, ""), two.get(name, "")} == {"", UN_OPTIMISED}


def _other_operands(one: Mapping[str, str], two: Mapping[str, str]) -> str:
    """Why two crashes are two: what is special of the operands is known of both, and nothing is in both."""
    first, second = (set(facts.get("operands", "").split("; ")) - {""} for facts in (one, two))
    if not first or not second or first & second:
        return ""
    return f"they die over other operands: {one['operands']} / {two['operands']}"


def _is_one_damage(one: Mapping[str, str], two: Mapping[str, str]) -> bool:
    """Whether two crashes at equal operators differ in how the system noticed damaged memory."""
    signals = {one.get("signal", ""), two.get("signal", "")}
    return (
        signals <= _OF_MEMORY
        and "caller" not in one
        and bool(one.get("ops"))
        and one["ops"] == two.get("ops")
    )


def _is_one_check(one: Mapping[str, str], two: Mapping[str, str]) -> bool:
    """Whether one check at one site says the same in both: then it does not matter which ways meet it.

    Programs of one bug differ in what else they hold, and so in the ways of compiling that come so far.
    """
    return bool(one.get("site")) and all(one.get(name) == two.get(name) for name in ("site", "message", "op"))


def _weights(one: Mapping[str, str], two: Mapping[str, str]) -> dict[str, float]:
    """The share of each component, moved away from those that neither side has."""
    if one.get("outcome") == "crash":
        present = {name: weight for name, weight in _CRASH.items() if one.get(name) or two.get(name)}
        rest = 1 - (_SIGNAL if one.get("signal") != two.get("signal") else 0)
        shares = {name: rest * weight / sum(present.values()) for name, weight in present.items()}
        return shares | ({"signal": _SIGNAL} if rest < 1 else {})
    weights = dict(project_of(one.get("backend", "")).weights)
    heirs = {"site": "op", "op": "site"}
    absent = [name for name in heirs if not (one.get(name) or two.get(name))]
    for name in absent:
        heir = "message" if len(absent) == len(heirs) else heirs[name]
        weights[heir] = weights.get(heir, 0.0) + weights.pop(name)
    return weights


def _distance(name: str, one: str, two: str) -> float:
    if name == "site":
        return _between_sites(one, two)
    if name in ("op", "signal"):
        return float(one != two)
    return Indel.normalized_distance(_words(one, name), _words(two, name))


def _between_sites(one: str, two: str) -> float:
    """Half by file, half by function, in the words of their names: a release renames a function slightly."""
    if not (one and two):
        return float(one != two)
    (file, _, function), (other_file, _, other_function) = one.partition(" "), two.partition(" ")
    pairs = ((file, other_file), (function, other_function))
    return sum([Indel.normalized_distance(_site_words(a), _site_words(b)) for a, b in pairs]) / len(pairs)


@functools.lru_cache(maxsize=1 << 14)
def _site_words(text: str) -> tuple[str, ...]:
    return tuple(_WORDS.findall(text))


@functools.lru_cache(maxsize=1 << 14)
def _words(text: str, name: str) -> tuple[str, ...]:
    return tuple(text.split() if name == "ops" else re.findall(r"\w+", text))
