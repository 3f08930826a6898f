"""The frameworks that run programs, one file each, found by themselves."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from corpus.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence, Set
    from typing import Any

    from corpus.target import Target
    from oracles.run import Config, Run


class Backend(Protocol):
    """What crux reads of a backend's file; the worker's half (`load`, `run`) is called in the worker only."""

    NAME: str
    PACKAGE: str
    __file__: str

    def configs(self, target: Target) -> tuple[Config, ...]:
        """The un-optimised baseline (not of `Compared`), the optimised config, then the lower levels."""

    def classify(self, run: Run) -> str:
        """`unavailable`, `unsupported`, `out-of-memory`, `invalid-input`, or "" for what may be a bug."""


@runtime_checkable
class Optimising(Protocol):
    """What a backend's file has besides where the passes of its optimiser can be told apart and disabled.

    The runs are such as were made with their log. `DISABLED_BY` is how its users disable the pass `{}`.
    """

    DISABLED_BY: str

    def fired(self, run: Run) -> tuple[str, ...]:
        """The passes that changed the program, in order, and that in which the run died."""

    def suspects(self, run: Run) -> tuple[str, ...]:
        """The passes, by the names under which they can be disabled, that may have changed the program."""

    def optimizers(self, run: Run) -> tuple[str, ...]:
        """Every pass that can be disabled."""

    def likely(self, names: Iterable[str], operators: Set[str]) -> tuple[str, ...]:
        """Those of the passes that have something to start at in a program of these operators."""

    def without(self, config: Config, disabled: Iterable[str]) -> Config:
        """The configuration with these passes disabled as well."""


@runtime_checkable
class TellsPasses(Optimising, Protocol):
    """An optimiser whose log tells of any one pass whether it changed the program."""

    documented: Callable[[str, str], dict[str, Any]]
    """In the worker: the programs that the tests of a file make, given its path and its content in base64."""

    def may_have_fired(self, run: Run) -> tuple[str, ...]:
        """The passes that changed the program, or that one which did is told together with."""

    def told_with(self, name: str) -> tuple[str, ...]:
        """The passes that are to be disabled for the log to tell of this one alone."""

    def has_fired(self, run: Run, name: str) -> bool:
        """Whether the pass changed the program in a run without those."""


@runtime_checkable
class Staged(Protocol):
    """A backend with configurations that do only a part of what another one does."""

    def stages(self, config: Config) -> tuple[Config, ...]:
        """Those that do less than this one, the least first."""


@runtime_checkable
class Sequenced(Protocol):
    """A backend that runs a case's own sequence of passes, by their names, before it builds the program.

    Of those that are drawn, some are `SELDOM` of any effect.
    """

    SEQUENCEABLE: tuple[str, ...]
    SELDOM: frozenset[str]

    def facts_of(self, format: str, program: bytes) -> frozenset[str]:
        """What holds of a program of a format before any pass has run; the table of passes has the words."""

    def misplaced(self, names: Sequence[str], facts: frozenset[str] = ...) -> str:
        """Why these passes cannot stand in this order where the facts hold; empty where they can."""

    def repaired(self, names: Iterable[str], facts: frozenset[str] = ...) -> tuple[str, ...]:
        """The passes with what each of them needs put in before it: a valid sequence."""


@runtime_checkable
class Compared(Protocol):
    """A backend that has no un-optimised mode to be trusted: another one's is the baseline."""

    BASELINE: str


@runtime_checkable
class Lowered(Protocol):
    """A backend that reads no ONNX: which models are accepted is our own lowering's doing."""

    LOWERED: bool


@runtime_checkable
class ComputesWide(Protocol):
    """A backend that on the CPU computes floats of 16 bits as float32 and rounds once an operator."""

    WIDE_ON_CPU: bool


@runtime_checkable
class Native(Protocol):
    """A backend whose own machine code can be watched.

    `LIBRARIES` are patterns of paths below its packages' folder, each with the namespace that counts (empty:
    all of it).
    """

    LIBRARIES: tuple[tuple[str, str], ...]


@runtime_checkable
class Speaking(Protocol):
    """A backend with operators of its own beside ONNX's: the strategy that makes programs of them."""

    DIALECT: str


@runtime_checkable
class Forking(Protocol):
    """A backend whose tests each run in a process of their own: that costs little beside a compilation."""

    FORK_PER_TEST: bool


@runtime_checkable
class Referred(Protocol):
    """A backend whose graphs another backend of ours runs as well, in float64."""

    REFEREE: str
    ASKED: str
    """The oracles that such programs are judged by where none are asked for."""


@runtime_checkable
class RunsGraphs(Protocol):
    """A backend that runs programs of formats of graphs as well as ONNX models.

    Its worker half has `describe(program, types)`: the types of all bindings, or an `error`.
    """

    FORMATS: tuple[str, ...]
    DOUBLE: tuple[tuple[str, str | int], ...]
    """The settings that run a graph in float64, un-optimised; empty where there are none."""


@runtime_checkable
class OpensFiles(Protocol):
    """A backend whose worker half opens foreign files of these formats: `open_program(name, base64)`."""

    OPENS: tuple[str, ...]


@runtime_checkable
class ComparesItself(Protocol):
    """A backend that has ways of its own to run graphs, the un-optimised one first."""

    def configs_of_graphs(self, target: Target, format: str) -> tuple[Config, ...]:
        """For programs of a format: the baseline, then what is compared with it."""


@runtime_checkable
class RoundTripping(Protocol):
    """A backend that can write a program out and read it back first: by the setting `via`, one of these."""

    WRITTEN_AS: tuple[str, ...]


@runtime_checkable
class ChecksModules(Protocol):
    """A backend that can check the module after every pass: by this setting."""

    CHECKED_BY: str


@runtime_checkable
class Tagging(Protocol):
    """A backend that can say of a failure what a person would want to know of it."""

    def tags(self, run: Run) -> tuple[str, ...]:
        """Notes for the verdict, such as `importer-limit`."""


def _found() -> Iterator[Backend]:
    """Each backend, imported when its turn comes."""
    for info in pkgutil.iter_modules(__path__):
        yield cast(Backend, importlib.import_module(f"{__name__}.{info.name}"))


@cache
def backends() -> dict[str, Backend]:
    """Every backend by its name."""
    return {module.NAME: module for module in _found()}


@cache
def find_backend(name: str) -> Backend:
    """The backend of that name; raises `UserError` when there is none."""
    for module in _found():
        if name == module.NAME:
            return module
    added = backends().get(name)  # by a measurement that brings a backend of its own
    if added is not None:
        return added
    raise UserError(f"target {name!r}: there is no such backend; known are {', '.join(sorted(backends()))}")
