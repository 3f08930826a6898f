"""Relax programs of TVM, to the judge."""

from collections.abc import Iterator

from corpus.case import Case
from oracles.abilities import Describe, Language, Rewritten
from oracles.naming import names_of_graph, pattern_of_graph
from oracles.numerics.rewrites import GRAPH_REWRITES, GraphTypes
from oracles.probes.graph_context import open_graph


def _rewrites(case: Case, describe: Describe) -> Iterator[Rewritten]:
    types = _known_types(case, describe)
    for what, rewrite in GRAPH_REWRITES.items():
        found = rewrite(case.parsed, types)
        if found is not None:
            yield Rewritten(what, found.to_bytes(), everywhere=True)


def _known_types(case: Case, describe: Describe) -> GraphTypes:
    """The tensors of static dims, as the framework infers them; what flows in included."""
    answer = describe(case.program, case.inputs)
    told = {item.name: (item.dtype, item.shape) for item in case.parsed.main.inputs}
    found = {**told, **{name: (each[0], each[1]) for name, each in answer.get("types", {}).items()}}
    types: dict[str, tuple[str, tuple[int, ...]]] = {}
    for name, (dtype, dims) in found.items():
        sizes = tuple(dim for dim in dims or () if isinstance(dim, int))
        if dtype and dims is not None and len(sizes) == len(dims):
            types[name] = dtype, sizes
    return types


LANGUAGE = Language(
    open=open_graph,
    names=names_of_graph,
    pattern=pattern_of_graph,
    referee_knows_rules=True,
    rewrites=_rewrites,
    arithmetic=("relax.multiply", "relax.add", "relax.subtract"),
)
