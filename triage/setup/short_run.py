"""Commands that run a few programs only, and so prepare nothing that pays for many."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from oracles.backends.inductor import HEADERS

FEW, MANY = 2, 1000
"""Cases for which nothing is prepared, and cases whose number is not known."""


@contextmanager
def in_short(cases: int = 1) -> Iterator[None]:
    """For a few cases no headers are compiled ahead: that takes seven CPU seconds, and saves two a case."""
    if cases > FEW:
        yield
        return
    earlier = os.environ.get(HEADERS)
    os.environ.setdefault(HEADERS, "0")
    try:
        yield
    finally:
        if earlier is None:
            del os.environ[HEADERS]
