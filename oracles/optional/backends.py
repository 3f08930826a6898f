"""Across backends: what another framework makes of the same program."""

from collections.abc import Iterator
from dataclasses import replace

from corpus.case import Case
from corpus.target import Target
from oracles.backends import backends
from oracles.extras import comes_with_others, is_installed
from oracles.optional import Asking, VariantRun, named

NAME = "backends"


def ways(case: Case, asking: Asking) -> Iterator[VariantRun]:
    """Yield the first way of every other backend that is installed; those of one framework count as one."""
    own = backends()[asking.target.backend]
    seen = {own.package}
    if own.baseline:
        seen.add(backends()[own.baseline].package)
    for name, backend in sorted(backends().items()):
        if backend.package not in seen and (
            is_installed(backend.package) or comes_with_others(backend.package)
        ):
            seen.add(backend.package)
            config = replace(backend.configs(Target(name))[0], backend=name)
            yield VariantRun(named(NAME, replace(config, label=f"{name} {config.label}")))
