"""Keeping people out of reports: no home folder, user or host name, and nothing that changes each time."""

from __future__ import annotations

import getpass
import os
import re
import socket
import tempfile
from functools import cache
from pathlib import Path

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
    """Return the text without private names and without what changes from run to run."""
    for word, replacement in _private_words():
        text = text.replace(word, replacement)
    for pattern, replacement in PASSING:
        text = pattern.sub(replacement, text)
    return re.sub(r"(?<![\w/])/(?:home|Users)/[^/\s:'\"]+", "~", text)


def private_words_in(content: bytes) -> list[str]:
    """Return the private names that a file holds."""
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
