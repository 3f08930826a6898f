"""The templates of reports and scripts, and the filters that make foreign text harmless in them."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template, select_autoescape


def render(template: str, **values: Any) -> str:
    """Fill a template of `triage/views/templates`; a name that is missing is an error."""
    return _environment().get_template(template).render(**values)


def template_of(text: str) -> Template:
    """Return a template that is given as its text, to be included by another one."""
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
    made.filters.update(repr=repr, comment=as_comment, code=as_code, fence=as_fence, cell=as_cell, row=as_row)
    return made


def hash_of(script: str) -> str:
    """Return the hash by which a page's policy lets one script run, and no other."""
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
    """Return a block of code in Markdown, whatever fences it holds; what is not plain is written out."""
    text = "".join(char if char.isprintable() or char in "\n\t" else ascii(char)[1:-1] for char in text)
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    ticks = "`" * (longest + 1)
    return f"{ticks}{language}\n{text.rstrip()}\n{ticks}"
