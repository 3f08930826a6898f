"""Metamorphic rewrites: the same function written otherwise, optimised, gives the same results."""

from __future__ import annotations

from collections.abc import Iterator

from corpus.case import Case
from oracles.numerics import graph_rewrites
from oracles.numerics.rewrites import REWRITES
from oracles.optional import Asking, VariantRun, named

NAME = "metamorphic"


def ways(case: Case, asking: Asking) -> Iterator[VariantRun]:
    """Yield the optimised run of every rewrite that finds something to change."""
    if case.format == "relax":
        yield from _of_graph(case, asking)
    if case.format != "onnx" or case.external:
        return
    model = case.parsed
    for what, rewrite in REWRITES.items():
        found = rewrite(model, case.inputs)
        if found is not None:
            rewritten, inputs = found
            program = rewritten.SerializeToString(deterministic=True)
            yield VariantRun(named(NAME, asking.optimised, what), program, inputs)


def _of_graph(case: Case, asking: Asking) -> Iterator[VariantRun]:
    """Yield each rewrite of a Relax program under every way of compiling it, the optimised one first."""
    program = case.parsed
    types = _known_types(case, asking)
    configs = dict.fromkeys((asking.optimised, *asking.configs))
    for what, rewrite in graph_rewrites.REWRITES.items():
        found = rewrite(program, types)
        if found is not None:
            for config in configs:
                yield VariantRun(named(NAME, config, what), found.to_bytes())


def _known_types(case: Case, asking: Asking) -> graph_rewrites.Types:
    """Return the tensors of static dims, as the framework infers them; what flows in included."""
    answer = asking.describe(case.program, case.inputs)
    told = {item.name: (item.dtype, item.shape) for item in case.parsed.main.inputs}
    found = {**told, **{name: (each[0], each[1]) for name, each in answer.get("types", {}).items()}}
    types: dict[str, tuple[str, tuple[int, ...]]] = {}
    for name, (dtype, dims) in found.items():
        sizes = tuple(dim for dim in dims or () if isinstance(dim, int))
        if dtype and dims is not None and len(sizes) == len(dims):
            types[name] = dtype, sizes
    return types
