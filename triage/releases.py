"""Releases in their order."""

from __future__ import annotations

import re


def is_before(release: str, other: str) -> bool:
    """Whether a release is older than another: by its numbers; `1.31.1.post0` is not before `1.31.1`."""
    return _numbers(release) < _numbers(other)


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", release))
