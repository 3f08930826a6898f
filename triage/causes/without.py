"""A program without the nodes of one operator: their results are given as they were recorded."""

from __future__ import annotations

from corpus.case import Case
from oracles.judge import Judge
from reducer.language import open_nodes


def without_operator(case: Case, operator: str, judge: Judge) -> Case | None:
    """The case with the results of an operator's nodes as inputs; None where nothing of it would be left."""
    opened = open_nodes(case, judge)
    if opened is None:
        return None
    subject, _ = opened
    rest = frozenset(index for index, node in enumerate(subject.nodes) if node.op_type != operator)
    if not rest or len(rest) == len(subject.nodes):
        return None
    part = subject.keep_nodes(rest)
    return part.case(case) if part is not None and part.is_valid else None
