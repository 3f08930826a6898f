"""Well-formedness: the backend checks the module after each pass, so that the one that broke it is named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from corpus.case import Case
from oracles.asked import Asking, Way, named
from oracles.backends import find_backend

NAME = "well-formed"


def ways(case: Case, asking: Asking) -> Iterator[Way]:
    """Run the optimised configuration again with a check after every pass, the case's own passes included."""
    backend = find_backend(asking.target.backend)
    if backend.checked_by:
        settings = (*asking.optimised.settings, (backend.checked_by, True))
        yield Way(named(NAME, replace(asking.optimised, settings=settings)))
