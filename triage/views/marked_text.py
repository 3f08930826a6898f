"""A failure's text with what its template leaves out marked, so that a person sees what was compared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher

from oracles.text.normalise import parse_message, template

MOST_CHARACTERS = 3_000
Piece = tuple[str, bool]
"""A piece of the text, and whether it was left out."""


def shown_text(text: str, names: Iterable[str] = ()) -> list[Piece]:
    """The text in pieces; numbers, names, shapes and wrappings, which the template drops, are marked."""
    text = text[:MOST_CHARACTERS]
    parsed = parse_message(text)
    kept = f"{parsed.op} {parsed.site} {template(parsed.rest, names)}"
    words, others = _words(text), _words(kept)
    matcher = SequenceMatcher(None, words, others, autojunk=False)
    return list(_joined(_pieces(words, matcher)))


def _words(text: str) -> list[str]:
    return re.findall(r"\w+|\s+|[^\w\s]", text)


def _pieces(words: list[str], matcher: SequenceMatcher[str]) -> Iterator[Piece]:
    for what, start, end, _, _ in matcher.get_opcodes():
        for word in words[start:end]:
            yield word, what != "equal"


def _joined(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Join neighbours of one kind into one piece; white space goes with the piece before it."""
    current, marked = "", False
    for word, is_marked in pieces:
        if current and not word.isspace() and is_marked != marked:
            yield current, marked
            current = ""
        marked = is_marked if not word.isspace() or not current else marked
        current += word
    if current:
        yield current, marked
