"""A failure's text as it was written, out of the form in which somebody else printed it.

A container's log puts the time and the stream before each line, a reply to an issue `>`, pytest `E`; a
structured log has the whole text in one string, a report of tests in XML, and rich draws a box around it.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator

_STAMPS = (
    re.compile(r"\d{4}-\d\d-\d\dT[\d:.,]+(?:Z|[+-]\d\d:?\d\d)? (?:std(?:out|err) [FP] )?"),
    re.compile(r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S+ [\w.@/-]+(?:\[\d+\])?: "),
    re.compile(r"[\w.-]+ +\| "),
    re.compile(r"> ?"),
)
"""What logs of containers, the journal, compose and quotations put before every line."""

MOST_OF_THEM = 0.8
_TRACEBACK = re.compile(r"^(.*)Traceback \(most recent call last\):", re.M)
_WINDOWS = re.compile(r"(?:\w:)?(?:\\[\w.+-]+){2,}")
_ELEMENT = re.compile(r"<(failure|error|system-err)\b[^>]*>(.*)</\1>", re.S)
_BOX = re.compile(r"^\s*[│┃|] ?(.*?)\s*[│┃|]\s*$", re.M)
_EDGE = re.compile(r"^\s*[╭╰┌└┏┗+][─━-].*[╮╯┐┘┓┛+]\s*$\n?", re.M)
_OF_PYTEST = re.compile(r"^E   ", re.M)


def as_written(text: str) -> str:
    """Take a text out of a log or a quotation; one that stands in neither comes back as it is."""
    text = _longest_string(text) or _element(text) or text
    text = _WINDOWS.sub(lambda path: path.group().replace("\\", "/"), text.replace("\r\n", "\n"))
    text = _BOX.sub(r"\1", _EDGE.sub("", text)) if _EDGE.search(text) else text
    for stamp in _STAMPS:
        text = _without(stamp, text)
    return _set_out(_of_pytest(text))


def _set_out(text: str) -> str:
    """The traceback without what stands before each of its lines, times and numbers in it being any."""
    start = _TRACEBACK.search(text)
    if start is None or not start.group(1):
        return text
    before = re.compile(re.sub(r"\d+", r"\\d+", re.escape(start.group(1))))
    rest = text[start.start() :]
    if _without(before, rest) is rest:
        return text
    lines = [before.sub("", line, count=1) if before.match(line) else line for line in text.splitlines()]
    is_quoted = start.group(1).endswith('"')
    return "\n".join(line.removesuffix('"') if is_quoted else line for line in lines)


def _without(stamp: re.Pattern[str], text: str) -> str:
    """Return the lines without the stamp, where most of those that say anything have it."""
    lines = text.splitlines()
    said = [line for line in lines if line.strip()]
    stamped = sum(1 for line in said if stamp.match(line))
    if not said or stamped < MOST_OF_THEM * len(said):
        return text
    return "\n".join(stamp.sub("", line, count=1) for line in lines)


def _longest_string(text: str) -> str:
    """Return the longest text of several lines in a structured log; empty where it is none."""
    if not text.lstrip().startswith("{"):
        return ""
    found: list[str] = []
    for line in text.splitlines():
        try:
            found += [each for each in _strings(json.loads(line)) if "\n" in each]
        except (ValueError, RecursionError):
            return ""
    return max(found, key=len, default="")


def _element(text: str) -> str:
    """Return the words of a failure in an XML report of tests; empty if there is none."""
    found = _ELEMENT.search(text)
    return html.unescape(found.group(2)).removeprefix("<![CDATA[").removesuffix("]]>") if found else ""


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _strings(each)


def _of_pytest(text: str) -> str:
    """Return the error that pytest shows, without the source around it."""
    marked = [line for line in text.splitlines() if _OF_PYTEST.match(line)]
    return "\n".join(line[4:] for line in marked) if len(marked) > 1 else text
