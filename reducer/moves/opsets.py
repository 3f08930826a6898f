"""Older operator sets: each imported domain in the least version in which its operators mean the same."""

from __future__ import annotations

from functools import partial

from reducer.move import Hints, Move, Search, SearchOf
from reducer.subject.onnx.opsets import least_versions, lowered
from reducer.subject.onnx.subject import OnnxSubject
from reducer.subject.order import size


def lower_opsets(subject: OnnxSubject, hints: Hints) -> Search:
    """All domains at once; else domain by domain, the least version that will do."""
    if size(lowered(subject)) >= size(subject):
        return subject
    if (yield partial(lowered, subject)):
        return lowered(subject)
    best = subject
    for domain, least in least_versions(subject.model).items():
        best = yield from _lower(best, domain, least)
    return best


def _lower(subject: OnnxSubject, domain: str, least: int) -> SearchOf[OnnxSubject]:
    """Lower one domain's opset by bisection. Ask for the least first: too old a version rarely fails."""
    works = max(item.version for item in subject.model.opset_import if item.domain == domain)
    fails, version = least - 1, least
    while works - fails > 1:
        if (yield partial(lowered, subject, {domain: version})):
            works = version
        else:
            fails = version
        version = (works + fails) // 2
    found = lowered(subject, {domain: works})
    return found if size(found) < size(subject) else subject


MOVES = (Move("lower operator sets", 551, lower_opsets, renames=True, on=OnnxSubject),)
