"""Types: after each pass they are those that the backend infers anew, and results have those of before."""

from collections.abc import Iterator

from corpus.case import Case
from oracles.backends import find_backend
from oracles.optional import Asking, VariantRun, instrumented

NAME = "types"


def ways(case: Case, asking: Asking) -> Iterator[VariantRun]:
    """Run the optimised configuration again with types compared after every pass, the case's own included."""
    return instrumented(NAME, asking, find_backend(asking.target.backend).typed_by)
