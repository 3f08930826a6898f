"""Metamorphic rewrites: the same function written otherwise, optimised, gives the same results."""

from collections.abc import Iterator

from corpus.case import Case
from oracles.abilities import language_of
from oracles.optional import Asking, VariantRun, named

NAME = "metamorphic"


def ways(case: Case, asking: Asking) -> Iterator[VariantRun]:
    """Every rewrite that changes something, optimised; by all ways where the language says so."""
    for each in language_of(case.format).rewrites(case, asking.describe):
        configs = (asking.optimised, *asking.configs) if each.everywhere else (asking.optimised,)
        for config in dict.fromkeys(configs):
            yield VariantRun(named(NAME, config, each.what), each.program, each.inputs)
