"""A language of programs, as people see it: the record that each module of `triage/languages` makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from corpus.case import Case
from corpus.formats import find_format, language_in

if TYPE_CHECKING:
    import onnx

    from oracles.judge import Judge
    from oracles.verdict import Run, Verdict


def _no_model(case: Case) -> onnx.ModelProto:
    import onnx

    return onnx.ModelProto()


@dataclass(frozen=True, kw_only=True)
class Language:
    """A language of programs to show, to report and to explain; it leaves out what it does not have."""

    evidence: Callable[[Case, Judge, Any], Any] | None = None
    """The evidence that a report shows of a case, which has this source (`reports/program_evidence.py`)."""

    source: Callable[[Case, Judge], Any] | None = None
    """The program as its framework's code (`repro/source.py`); None where the framework prints it."""

    listing: Callable[[Any], str] | None = None
    """A program as text for a person; None where that is what its format prints."""

    drawn: Callable[[Any, Any], Any] | None = None
    """A program as pictures have it, with the types that its framework infers (`views/drawn.py`)."""

    model: Callable[[Case], onnx.ModelProto] = _no_model
    """The program as an ONNX model, for what explains such alone; a model of nothing where it is none."""

    has_model: bool = False
    """Whether it is one."""

    operators: Callable[[Case], tuple[str, ...]] = lambda case: case.measure.ops
    """The operators that a title names, in order."""

    complaint: Callable[[Any], str | None] = lambda program: None
    """Why a checker of the language refuses the program; None where it does not, or there is none."""

    interpreted: Callable[[Case, Verdict], Run | None] = lambda case, verdict: None
    """An interpreter's run, where the verdict is that every run gives another thing."""

    without_remarks: Callable[[Case], Case] = lambda case: case
    """The case without documentation and metadata, which can hold an author's paths."""

    read_on: Callable[[Case], Iterator[Case]] = lambda case: iter(())
    """The case with something that reads its results: no pass removes what makes an output."""

    weights_apart: Callable[[Case], tuple[Case, Case] | None] = lambda case: None
    """The program that only gives its weights, and the whole with them as inputs; None if it has none."""

    extraction: Callable[[Any, Judge, int], Any] | None = None
    """What takes patterns or seeds out of documented tests (`cases/patterns.py`), with `keep` and `facts`."""

    relu: str = ""
    """The operator of a graph's binding that gives Relu of a tensor, to try a framework with."""


@cache
def language_of(format: str) -> Language:
    """The language of that name; UserError if there is none."""
    found: Language | None = language_in("triage.languages", format)
    return found or Language()


def list_case(case: Case) -> str:
    """A case's program as text, whatever its language."""
    listing = language_of(case.format).listing or find_format(case.format).print_text
    return listing(case.parsed)


def model_of(case: Case) -> onnx.ModelProto:
    """The program as an ONNX model; a model of nothing where it is none."""
    return language_of(case.format).model(case)
