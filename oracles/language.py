"""A language of programs, to the judge: the record that each module of `oracles/languages` makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from corpus.case import Case
from corpus.errors import UserError
from corpus.formats import language_in
from corpus.values import Value
from oracles.run import Config, Run

Describe = Callable[[bytes, Mapping[str, Value]], Mapping[str, Any]]
"""Asks the framework for the types in a program."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The same function written otherwise, for all ways to run it if `everywhere`.

    `inputs` are there where they change.
    """

    what: str
    program: bytes
    inputs: Mapping[str, Value] | None = None
    everywhere: bool = False


def _nothing_noted(program: Any) -> tuple[Any, tuple[str, ...]]:
    return program, ()


@dataclass(frozen=True, kw_only=True)
class Language:
    """A language of programs, to the judge; `program` is what its format's `parse` makes.

    What it must say: `open(opened, executor, tolerance=…, screen=…, accept_invalid=…)` makes the `Context`
    that rules ask; `names` are the program's own, which messages are made blind to; `pattern` is its
    operators and types in order, for a signature. What else it leaves out does not exist for it.
    """

    open: Callable[..., Any]
    names: Callable[[Any], frozenset[str]]
    pattern: Callable[[Any], str]

    repaired: Callable[[Any], tuple[Any, tuple[str, ...]]] = _nothing_noted
    """The program with wrong annotations put right, and what these were; the program itself if none was."""

    contradicts: Callable[[Case, Mapping[str, Value]], bool] = lambda case, outputs: False
    """Whether outputs contradict the program's own declaration of them."""

    is_suspect: Callable[[Case, Run], bool] = lambda case, run: False
    """Whether an interpreter of the language contradicts the un-optimised run."""

    has_functions: Callable[[Case], bool] = lambda case: False
    """Whether the program calls functions of its own, which optimised and un-optimised runs handle alike."""

    referee_knows_rules: bool = False
    """Whether the referee refuses nothing but what breaks a rule of the language."""

    rewrites: Callable[[Case, Describe], Iterator[Rewritten]] = lambda case, describe: iter(())
    """The program written otherwise, for the oracle `metamorphic`."""

    checks_passes: bool = False
    """Whether a backend's worker checks each pass of a case's own sequence, by the setting `checks`."""

    runs_quickly: bool = False
    """Whether programs may share a process, without checks of their arguments, by the setting `thin`."""

    screen: Callable[[Any, Sequence[Case], Sequence[Config]], list[Any]] | None = None
    """A first look at many programs in one run, by an executor: `oracles/screening.py`."""

    facts: Callable[[bytes], frozenset[str]] | None = None
    """What holds of a program before its passes; None where the backend says the same of every program."""

    arithmetic: tuple[str, str, str] = ("", "", "")
    """The operators that scale a tensor by another, add it, and take it away."""

    operators_tell: bool = True
    """Whether the operators of a reduced program tell its bug from others; else its own passes do."""

    written_out: Callable[[Any, str], str] = lambda program, operators: operators
    """The operators with those of the program's own functions in place of the calls."""

    computed: Callable[[Any], str] = lambda program: ""
    """Which operands a rewrite may take for constants, and are none."""


@dataclass(frozen=True)
class Opened:
    """A case whose program is parsed and repaired at most once; nobody may change the programs."""

    case: Case

    @cached_property
    def repaired(self) -> tuple[Any, tuple[str, ...]]:
        """The program with wrong annotations put right, and what these were; itself if none was."""
        return language_of(self.case.format).repaired(self.case.parsed)


@cache
def language_of(format: str) -> Language:
    """The language of that name; UserError if there is none, or if nobody has said how it is judged."""
    found: Language | None = language_in("oracles.languages", format)
    if found is None:
        raise UserError(f"{format} programs: crux does not know how to judge them")
    return found
