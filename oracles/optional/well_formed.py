"""Well-formedness: the backend checks the module after each pass, so that the one that broke it is named."""

from collections.abc import Iterator

from corpus.case import Case
from oracles.backends import find_backend
from oracles.optional import Asking, VariantRun, instrumented

NAME = "well-formed"


def ways(case: Case, asking: Asking) -> Iterator[VariantRun]:
    """Run the optimised configuration again with a check after every pass, the case's own passes included."""
    return instrumented(NAME, asking, find_backend(asking.target.backend).checked_by)
