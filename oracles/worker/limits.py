"""What a refusal declares: the form that a compiler says it does not do, and who says otherwise."""

from __future__ import annotations

import re
from typing import Iterable, Iterator  # noqa: UP035 (Python 3.8)

DOCUMENTED = "documented: "
"""What stands before a sentence of the compiler's documentation in a trace."""

_NOT_CONSTANT = re.compile(
    r"\bdynamic (\w+)|\bonly constant (\w+)|\bnon-?constant (\w+)"
    r"|\b(\w+) must be (?:a )?(?:constant|static)\b",
    re.I,
)
_OF_A_STATE = re.compile(r"\b(symbolic|unknown) (\w+)", re.I)
_TAKEN = re.compile(r"cannot handle (\w+(?: inputs?)?)")
_NOT_THERE = re.compile(
    r"^(.+?)(?: is| are)?(?: currently)? (?:not (?:currently |yet )?|un)(?:supported|implemented)"
)
_ONLY = re.compile(r"\bonly supports? (.+?)\.?$", re.I | re.M)
_SHAPES = re.compile(r"shapes?|dims?|dimensions?|ranks?|extents?|sizes?")
"""Words for one thing: that of a tensor which need not be known before it runs."""

_CLAIMS = re.compile(r"\b(supports?|handles?|retains?|allows?|accepts?)\b", re.I)
_HEDGES = re.compile(r"\b(not|no|only|except|unless|unsupported|currently|yet|cannot)\b|n't", re.I)


def form_of(message: str) -> str:
    """The form that a refusal names: `dynamic pads`, `other than 3D`; empty if it names none.

    What must be constant is dynamic where it is refused.
    """
    found = _NOT_CONSTANT.search(message)
    if found:
        return f"dynamic {next(word for word in found.groups() if word).lower()}"
    found = _OF_A_STATE.search(message)
    if found:
        return f"{found.group(1).lower()} {found.group(2).lower()}"
    found = _TAKEN.search(message)
    if found:
        return found.group(1)
    found = _ONLY.search(message)
    if found:
        return f"other than {found.group(1)}"
    found = _NOT_THERE.search(message)
    return found.group(1) if found else ""


def documents_along(error: BaseException, module: str) -> Iterator[str]:
    """What is documented of the functions and modules of a package that an exception came through."""
    trace = error.__traceback__
    while trace is not None:
        known, code = trace.tb_frame.f_globals, trace.tb_frame.f_code
        if str(known.get("__name__", "")).startswith(module):
            told = (known.get("__doc__"), getattr(trace.tb_frame.f_locals.get("cls"), "__doc__", None))
            for text in (*told, *code.co_consts[:1]):
                if isinstance(text, str):
                    yield text
        trace = trace.tb_next


def claim_of(form: str, texts: Iterable[str]) -> str:
    """The first sentence of documents that claims the form without a reservation; empty if none does."""
    wanted = _words(form)
    if len(wanted) < 2:
        return ""
    for text in texts:
        for sentence in re.split(r"(?<=[.:])\s+|\n\s*\n", text):
            plain = " ".join(sentence.split())
            if _CLAIMS.search(plain) and not _HEDGES.search(plain) and wanted <= _words(plain):
                return plain
    return ""


def _words(text: str) -> frozenset[str]:
    """The words of a text in the singular: shapes and dims are one, and so are dynamic and symbolic."""
    words = re.findall(r"[a-z]+", text.lower())
    return frozenset(
        "shape" if _SHAPES.fullmatch(word) else _STATES.get(word, word[:-1] if word.endswith("s") else word)
        for word in words
    )


_STATES = {"dynamic": "dynamic", "symbolic": "dynamic", "unknown": "dynamic", "axes": "axis"}
