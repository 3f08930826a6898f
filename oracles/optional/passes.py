"""Passes: those of a TIR program may not change their input, break it, or fail on their own work.

Tzer, section 3.4, and its bugs of immutable modules (section 5.5.3).
"""

from collections.abc import Iterator
from dataclasses import replace

from corpus.case import Case
from oracles.abilities import language_of
from oracles.optional import Asking, VariantRun, named

NAME = "passes"


def ways(case: Case, asking: Asking) -> Iterator[VariantRun]:
    """Yield the optimised way once more, with three checks around each pass of the case's own sequence."""
    if case.passes and language_of(case.format).checks_passes:
        settings = (*asking.optimised.settings, ("checks", True))
        yield VariantRun(named(NAME, replace(asking.optimised, settings=settings)))
