"""What a failure does, as far as its symptom tells: two defects of one pass differ in it.

A symptom is kept as text (`oracles.verdict.Symptom`): outcome, phase, kind, site, message, side.
"""

from __future__ import annotations

import re

SEPARATOR = " | "
_OF_MEMORY = frozenset({"SIGSEGV", "SIGABRT", "SIGBUS"})
_STRUCTURAL = ("shape", "dtype")
"""Kinds of wrong results over which any later node may stumble."""


def names_itself(symptom: str, passes: tuple[str, ...] = ()) -> bool:
    """Return whether an equal symptom of an equal release is the same bug, before anything is reduced.

    It is where the un-optimised program or an importer says it: what an operator gives against what it
    declares, an exception, the native function of a crash. What only optimised programs show may follow from
    any pass, unless the known bug needs none of those (`passes`) that can be disabled.
    """
    outcome, phase, *rest = [*symptom.split(SEPARATOR), ""]
    is_optimised = "optimised" in rest
    if outcome == "mismatch":  # kind, operator, side; another wrong value has its wrong side for an operator
        return len(rest) == len(("kind", "operator", "side", "")) and rest[2] == "un-optimised"
    is_told = outcome in ("exception", "crash") and len(rest) > 2
    return is_told and (phase == "import" or not is_optimised or not passes)


_DTYPE = re.compile(r"\b(?:bfloat|float|u?int|complex)\d+\b|\bbool\b")


def says_the_same(symptom: str, known: str) -> bool:
    """Return whether two symptoms are equal.

    Exceptions may name other dtypes, as one check does of each. They may show un-optimised alone or
    everywhere: an optimiser that drops what fails is no other bug.
    """
    if symptom == known:
        return True
    is_told = symptom.startswith("exception") and known.startswith("exception")
    return is_told and _bare(symptom) == _bare(known)


def _bare(symptom: str) -> str:
    return _DTYPE.sub("*", symptom.removesuffix(f"{SEPARATOR}un-optimised"))


_IN_THE_MACHINE = re.compile(r"crash \| execute \| SIG\w+ \| libtvm_runtime tvm::runtime::(memory|vm)::")
"""A death in TVM's own machine: in what it does between operators, not in one."""


def is_of_any_operator(symptom: str) -> bool:
    """Whether a symptom that names itself holds for a family of operators, whichever the program has."""
    return symptom.startswith("mismatch") or _IN_THE_MACHINE.match(symptom) is not None


def may_follow(symptom: str, known: str) -> bool:
    """Return whether a failure may be the effect of a bug that shows as `known`, the passes being the same.

    Equal symptoms may; so may two kinds of wrong values, and what raises or dies over a wrong shape or dtype.
    """
    if symptom == known:
        return True
    (outcome, kind), (other, known_kind) = _read(symptom), _read(known)
    if other != "mismatch":
        return False
    if known_kind in _STRUCTURAL:
        return outcome != "mismatch" or kind == known_kind
    return outcome == "mismatch" and kind not in _STRUCTURAL


def is_same_or_stumbles(symptom: str, known: str) -> bool:
    """Return whether two wrong results show alike, or an exception may stumble over a known one."""
    is_wrong = symptom.startswith("mismatch")
    return symptom == known if is_wrong else symptom != known and may_follow(symptom, known)


def is_one_damage(symptom: str, known: str) -> bool:
    """Return whether two crashes ended in one signal, or in any of those by which damaged memory shows."""
    (_, signal), (_, other) = _read(symptom), _read(known)
    return signal == other or {signal, other} <= _OF_MEMORY


def _read(symptom: str) -> tuple[str, str]:
    """Return the outcome and the kind of a symptom."""
    parts = [*symptom.split(SEPARATOR), "", ""]
    return parts[0], parts[2]
