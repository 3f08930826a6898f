"""A case's own sequence of passes: where it comes from, and whether its backend can run it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from corpus.case import PASSES, Case
from corpus.errors import UserError
from corpus.target import Target
from oracles.backends import Sequenced, find_backend


def with_sequence(case: Case) -> Case:
    """The case with the sequence that its target asks for (`@passes=A,B`), which is then the case's own.

    Raises `UserError` for passes that the target does not have, or not in this order.
    """
    if case.target is None:
        return case
    target, names = split(case.target)
    case = replace(case.with_passes(names), target=target) if names else case
    _must_be_placed(case.passes, target)
    return case


def split(target: Target) -> tuple[Target, tuple[str, ...]]:
    """The target without the sequence that it asks for, and that sequence; `UserError` as above."""
    asked = target.get(PASSES)
    if not asked:
        return target, ()
    if not isinstance(find_backend(target.backend), Sequenced):
        raise UserError(f"target {target}: runs no passes by name")
    names = tuple(name for name in asked.split(",") if name)
    _must_be_placed(names, target)
    return target.without_setting(PASSES), names


def _must_be_placed(names: Sequence[str], target: Target) -> None:
    if complaint := misplaced(names, target):
        raise UserError(f"target {target}: @passes={','.join(names)}: {complaint}")


def misplaced(passes: Sequence[str], target: Target) -> str:
    """Why the target cannot run these passes in this order; empty where it can, or runs none by name."""
    backend = find_backend(target.backend)
    return backend.misplaced(passes) if passes and isinstance(backend, Sequenced) else ""
