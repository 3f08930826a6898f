"""A declared limit as what it is to a project: something to ask for, not a bug to file."""

from __future__ import annotations

from collections.abc import Iterable

from oracles.verdict import Verdict
from triage.store.failures import DECLARED, is_limit

ASKED = (
    "The importer says itself that it does not handle this form; the model is valid and runs elsewhere, so "
    "this asks for the form, or for a line in the documentation that leaves it out"
)


def request_title(title: str, verdict: Verdict) -> str:
    """Return the title as that of a request where the verdict is a declared limit."""
    return f"Feature request: {title}" if is_limit(verdict) else title


def request_labels(labels: Iterable[str], verdict: Verdict) -> tuple[str, ...]:
    """Return the labels, the one of bugs being that of features where the verdict is a declared limit."""
    if not is_limit(verdict):
        return tuple(labels)
    return tuple("type:feature" if label == "type:bug" else label for label in labels)


def in_words(note: str) -> str:
    """Return a remark on a verdict as a sentence for maintainers."""
    return ASKED if note == DECLARED else note
