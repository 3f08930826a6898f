"""How programs grow, one file a strategy. A file here that names `programs` is found by itself.

A strategy is a function from a batch of seeds to their programs, in order. What it learns within a batch it
may use within that batch only, so that the programs are the same for any number of processes. One that names
`taught` as well may draw from what a campaign has learned.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from pkgutil import iter_modules

from corpus.errors import UserError
from generators.feedback import CoverageSnapshot
from generators.language.emit import Made
from generators.language.profile import Budget

Strategy = Callable[[Sequence[int], int, Path | None, Budget], Iterator[Made]]
"""From seeds, a number of nodes, the file that `--from` names, and what a program may cost."""

Taught = Callable[[Sequence[int], int, CoverageSnapshot, Budget], Iterator[Made]]
"""From seeds, a number of nodes, what the campaign has learned, and what a program may cost."""

DEFAULT = "random"


@cache
def strategy_names() -> tuple[str, ...]:
    """The strategies there are, sorted."""
    return tuple(sorted(info.name for info in iter_modules(__path__)))


def find_strategy(name: str, trust: bool = False) -> Strategy:
    """The strategy of this name, or of a user's file; raises `UserError`."""
    if ".py" in name:
        return _of_file(name, trust)
    if name not in strategy_names():
        raise UserError(f"--strategy {name}: there is {', '.join(strategy_names())}, or a file, PATH.py:NAME")
    found: Strategy = import_module(f"{__name__}.{name}").programs
    return found


def find_taught(name: str) -> Taught | None:
    """The strategy of this name as it draws from what a campaign has learned; None where it does not."""
    if name not in strategy_names():
        return None
    found: Taught | None = getattr(import_module(f"{__name__}.{name}"), "taught", None)
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
