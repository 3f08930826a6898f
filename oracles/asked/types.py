"""Types: after each pass they are those that the backend infers anew, and results have those of before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from corpus.case import Case
from oracles.asked import Asking, Way, named
from oracles.backends import find_backend

NAME = "types"


def ways(case: Case, asking: Asking) -> Iterator[Way]:
    """Run the optimised configuration again with types compared after every pass, the case's own included."""
    backend = find_backend(asking.target.backend)
    if backend.typed_by:
        settings = (*asking.optimised.settings, (backend.typed_by, True))
        yield Way(named(NAME, replace(asking.optimised, settings=settings)))
