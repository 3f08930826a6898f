"""A case's own sequence of passes: where it comes from, and whether its backend can run it."""

from collections.abc import Sequence
from dataclasses import replace

from corpus.case import PASSES, Case
from corpus.errors import UserError
from corpus.target import Target
from oracles.backends import find_backend


def with_sequence(case: Case) -> Case:
    """The case with the sequence that its target asks for (`@passes=A,B`), which is then the case's own.

    Raises `UserError` for passes that the target does not have, or not in this order.
    """
    if case.target is None:
        return case
    target, names = _taken_apart(case.target)
    case = replace(case.with_passes(names), target=target) if names else case
    if complaint := misplaced(case.passes, target, case.format, case.program):
        raise UserError(f"target {target}: @passes={','.join(case.passes)}: {complaint}")
    return case


def split(target: Target) -> tuple[Target, tuple[str, ...]]:
    """The target without the sequence that it asks for, and that sequence; `UserError` as above."""
    target, names = _taken_apart(target)
    if complaint := misplaced(names, target, find_backend(target.backend).formats[0]):
        raise UserError(f"target {target}: @passes={','.join(names)}: {complaint}")
    return target, names


def _taken_apart(target: Target) -> tuple[Target, tuple[str, ...]]:
    asked = target.get(PASSES)
    if not asked:
        return target, ()
    if find_backend(target.backend).sequences is None:
        raise UserError(f"target {target}: runs no passes by name")
    return target.without_setting(PASSES), tuple(name for name in asked.split(",") if name)


def misplaced(passes: Sequence[str], target: Target, format: str, program: bytes = b"") -> str:
    """Say why the target cannot run these passes in this order; empty if it can, or has no such passes."""
    sequences = find_backend(target.backend).sequences
    if not passes or sequences is None:
        return ""
    return sequences.misplaced(passes, sequences.facts_of(format, program))
