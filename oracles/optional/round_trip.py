"""Round trip: the program written out and read back gives the same results.

Each backend writes what it reads: `reference` ONNX text and bytes, `tvm` TVMScript and JSON, `torch` and
`inductor` an exported program.
"""

from collections.abc import Iterator
from dataclasses import replace

from corpus.case import Case
from oracles.backends import find_backend
from oracles.optional import Asking, VariantRun, named

NAME = "round-trip"


def ways(case: Case, asking: Asking) -> Iterator[VariantRun]:
    """Yield the optimised way by each of the backend's written forms."""
    backend = find_backend(asking.target.backend)
    for form in backend.written_as:
        config = replace(asking.optimised, settings=(*asking.optimised.settings, ("via", form)))
        yield VariantRun(named(NAME, config, f"via {form}"))
