"""A language of programs, to the generators: the record that each module of `generators/languages` makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

from corpus.case import Case
from corpus.errors import UserError
from corpus.formats import language_in
from generators.language.budget import Budget
from generators.language.counts import Counts


class Made(Protocol):
    """A generated program, in the language whose format is `format`."""

    @property
    def format(self) -> str:
        """The format of its case."""

    def as_case(self, seed: int) -> Case:
        """The program as a case that names its seed as origin."""

    def counts(self) -> Counts:
        """Count the operators, and operators by dtype, shape and neighbour."""


def _as_it_is(mode: str, seed: int, program: Any) -> Case:
    case: Case = program.as_case(seed)
    return case


def _no_mutant(given: Case, seed: int, nodes: int, budget: Budget) -> Any:
    raise UserError(f"{given.origin}: to mutate, name an ONNX model of tensors without external data")


@dataclass(frozen=True, kw_only=True)
class Language:
    """A language of programs, to what generates them; it leaves out what does not apply to its programs."""

    in_mode: Callable[[str, int, Any], Case] = _as_it_is
    """The case of a program as a mode has it: what it owes is a setting, what was done to it a note."""

    mutated: Callable[[Any, int, Case], Case] = lambda program, seed, case: case
    """The case of a valid program that was changed, so that what it declares may not hold."""

    mutant: Callable[[Case, int, int, Budget], Any] = _no_mutant
    """One to four changes to a user's case; UserError for one that nothing changes."""

    operators: Callable[[Any], set[str]] = lambda program: set()
    """The operators that a target's table must have; none where all its programs are the target's own."""

    forms: Callable[[Any], tuple[str, ...]] = lambda program: ()
    """The operators with the element types of their operands and results, for what releases refuse."""

    coverage: Callable[[Any], Mapping[str, int]] = lambda program: {}
    """Counts of operators and of pieces of coverage."""

    comes_small: bool = False
    """Whether a broken or endangered program of a mixture is mostly one of few nodes."""

    brings_passes: bool = False
    """Whether its programs come with the passes that suit their form, so that none are drawn for them."""

    strategies: Mapping[str, float] = field(default_factory=dict)
    """The strategies of its blocks of a mixture, with shares, where a target runs such programs as well."""

    searches_inputs: bool = False
    """Whether inputs can be searched under which every value of a program is finite."""


@cache
def language_of(format: str) -> Language:
    """The language of that name, of which nothing is known where only users' own strategies make programs."""
    found: Language | None = language_in("generators.languages", format)
    return found or Language()
