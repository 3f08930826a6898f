"""How programs grow: each file here names `STRATEGIES`, and is found by itself.

A strategy is a function from a batch of seeds to their programs, in order. What it learns within a batch it
may use within that batch only, so that the programs are the same for any number of processes. One that a
file's `TAUGHT` names as well may draw from what a campaign has learned.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

from corpus.errors import UserError
from generators.feedback import NOTHING, CoverageSnapshot
from generators.language.emit import Made
from generators.language.profile import Budget

Strategy = Callable[[Sequence[int], int, Path | None, Budget], Iterator[Made]]
"""From seeds, a number of nodes, the file that `--from` names, and what a program may cost."""

Taught = Callable[[Sequence[int], int, CoverageSnapshot, Budget], Iterator[Made]]
"""From seeds, a number of nodes, what the campaign has learned, and what a program may cost."""

DEFAULT = "random"


def each_seed(program: Callable[[int, int, Budget], Made]) -> Strategy:
    """The strategy that makes the program of each seed by itself."""

    def programs(seeds: Sequence[int], nodes: int, source: Path | None, budget: Budget) -> Iterator[Made]:
        for seed in seeds:
            yield program(seed, nodes, budget)

    return programs


def untaught(taught: Taught) -> Strategy:
    """The strategy as it draws where nothing has been learned."""
    return lambda seeds, nodes, source, budget: taught(seeds, nodes, NOTHING, budget)


@cache
def strategies() -> dict[str, ModuleType]:
    """The files here by the strategies that they hold, sorted."""
    modules = [import_module(f"{__name__}.{info.name}") for info in iter_modules(__path__)]
    return dict(sorted((name, module) for module in modules for name in module.STRATEGIES))


def find_strategy(name: str, trust: bool = False) -> Strategy:
    """The strategy of this name, or of a user's file; raises `UserError`."""
    if ".py" in name:
        return _of_file(name, trust)
    if name not in strategies():
        raise UserError(f"--strategy {name}: there is {', '.join(strategies())}, or a file, PATH.py:NAME")
    found: Strategy = strategies()[name].STRATEGIES[name]
    return found


def find_taught(name: str) -> Taught | None:
    """The strategy of this name as it draws from what a campaign has learned; None where it does not."""
    found: Taught | None = getattr(strategies().get(name), "TAUGHT", {}).get(name)
    return found


def _of_file(name: str, trust: bool) -> Strategy:
    """The function `NAME` (`programs` where it is left out) of the file; running the file needs trust."""
    path, _, function = name.partition(":")
    if not trust:
        raise UserError(f"--strategy {name}: it runs the code of {path}; give --trust if you trust it")
    spec = spec_from_file_location(f"strategy_{Path(path).stem}", path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise UserError(f"--strategy {name}: there is no Python file {path}")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    found = getattr(module, function or "programs", None)
    if not callable(found):
        raise UserError(f"--strategy {name}: {path} has no function {function or 'programs'}")
    strategy: Strategy = found
    return strategy
