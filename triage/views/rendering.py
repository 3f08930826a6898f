"""The templates of reports and scripts, and the filters that make foreign text harmless in them."""

import base64
import getpass
import hashlib
import os
import re
import socket
import tempfile
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template, select_autoescape

from oracles.normalise import parse_message, template
from triage.views.listing import cells


def render(template: str, **values: Any) -> str:
    """Fill a template of `triage/views/templates`; a name that is missing is an error."""
    return _environment().get_template(template).render(**values)


def template_of(text: str) -> Template:
    """A template that is given as its text, to be included by another one."""
    return _environment().from_string(text)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("triage.views"),
        autoescape=select_autoescape(("html.j2",), default_for_string=False),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters.update(
        cells=cells, repr=repr, comment=as_comment, code=as_code, fence=as_fence, cell=as_cell, row=as_row
    )
    return made


def hash_of(script: str) -> str:
    """The hash by which a page's policy lets one script run, and no other."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def as_comment(text: str) -> str:
    """One line of plain text that cannot leave a comment."""
    return "".join(char if char.isprintable() else " " for char in text)


def as_code(text: str) -> str:
    """Inline code in Markdown, whatever backticks it holds."""
    text = " ".join(as_comment(text).split())
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    ticks = "`" * (longest + 1)
    padding = " " if text.startswith("`") or text.endswith("`") or not text else ""
    return f"{ticks}{padding}{text}{padding}{ticks}"


def as_cell(text: object) -> str:
    """Text inside a table of Markdown."""
    escaped = " ".join(as_comment(str(text)).split()).replace("\\", "\\\\").replace("|", "\\|")
    return escaped.replace("<", "&lt;").replace("`", "'")


def as_row(text: object) -> str:
    """Text of ours, with code in backticks, inside a table of Markdown."""
    return " ".join(as_comment(str(text)).split()).replace("|", "\\|")


def as_fence(text: str, language: str = "") -> str:
    """A block of code in Markdown, whatever fences it holds; what is not plain is written out."""
    text = "".join(char if char.isprintable() or char in "\n\t" else ascii(char)[1:-1] for char in text)
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    ticks = "`" * (longest + 1)
    return f"{ticks}{language}\n{text.rstrip()}\n{ticks}"


MOST_CHARACTERS = 3_000
Piece = tuple[str, bool]
"""A piece of the text, and whether it was left out."""


def shown_text(text: str, names: Iterable[str] = ()) -> list[Piece]:
    """The text in pieces; numbers, names, shapes and wrappings, which the template drops, are marked."""
    text = text[:MOST_CHARACTERS]
    parsed = parse_message(text)
    kept = f"{parsed.op} {parsed.site} {template(parsed.rest, names)}"
    words, others = _words(text), _words(kept)
    steps = SequenceMatcher(None, words, others, autojunk=False).get_opcodes()
    return list(
        _joined((word, what != "equal") for what, start, end, *_ in steps for word in words[start:end])
    )


def _words(text: str) -> list[str]:
    return re.findall(r"\w+|\s+|[^\w\s]", text)


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


COMMON_USERS = frozenset({"root", "user", "ubuntu", "runner", "nobody", "docker", "admin"})
PASSING = (
    (re.compile(r"\x1b\[[0-9;]*[A-Za-z]"), ""),
    (re.compile(r"\b0x[0-9a-fA-F]{6,}\b"), "0x…"),
    (re.compile(r"\[\d\d:\d\d:\d\d\] "), ""),
    (re.compile(r"[^\s\"'(\[]*/(?:site|dist)-packages/"), ""),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?"), "<time>"),
    (re.compile(r"\b(pid|tid|thread|process)([ =:]+)\d+", re.IGNORECASE), r"\1\2…"),
)
"""What changes from run to run or from place to place and says nothing."""


def scrub(text: str) -> str:
    """The text without private names and without what changes from run to run."""
    for word, replacement in _private_words():
        text = text.replace(word, replacement)
    for pattern, replacement in PASSING:
        text = pattern.sub(replacement, text)
    return re.sub(r"(?<![\w/])/(?:home|Users)/[^/\s:'\"]+", "~", text)


def private_words_in(content: bytes) -> list[str]:
    """The private names that a file holds."""
    return [word for word, _ in _private_words() if word.encode() in content]


@cache
def _private_words() -> tuple[tuple[str, str], ...]:
    """List the replacements, the longest first; words too common to tell a person are left alone."""
    words = {str(Path.home()): "~", os.getcwd(): ".", tempfile.gettempdir() + "/": "<tmp>/"}
    host = socket.gethostname()
    if len(host) >= 4 and host != "localhost":
        words[host] = "<host>"
    user = _user()
    if len(user) >= 4 and user not in COMMON_USERS:
        words[user] = "<user>"
    words = {word: replacement for word, replacement in words.items() if len(word) > 1}
    return tuple(sorted(words.items(), key=lambda item: -len(item[0])))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
