"""Evidence before search: the operators and nodes that the failure itself names."""

from __future__ import annotations

import re

from oracles.verdict import Outcome, Verdict
from reducer.move import Hints

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_CAMEL = re.compile(r"[A-Z][a-z0-9]*|[a-z0-9]+")
_QUOTED = re.compile(
    r"Name:\s*'([^']*)'|node \(([^()]*)\)|Node \(([^()]*)\)|'([^'\s]+)'|node[: ]+\"([^\"]+)\""
)


def read_hints(verdict: Verdict | None, culprit: str = "") -> Hints:
    """What the failing run's message names, and the node at which the recording run stopped.

    Of a result that contradicts its declaration the verdict's own words name the node.
    """
    text = "\n".join(run.message for run in (verdict.runs if verdict else ()) if not run.is_ok)
    if (
        verdict is not None
        and verdict.outcome is Outcome.MISMATCH
        and verdict.symptom
        and verdict.symptom.side
    ):
        text, culprit = verdict.title, ""
    quoted = [next(filter(None, groups), "") for groups in _QUOTED.findall(text)]
    names = tuple(dict.fromkeys(name for name in (culprit, *quoted) if name))
    return Hints(operators=tuple(dict.fromkeys(_words(text))), nodes=names)


def _words(text: str) -> list[str]:
    """Words of the text, and the runs of words inside CamelCase names: FuseReluClip names Relu and Clip."""
    words: list[str] = []
    for word in _WORD.findall(text):
        parts = _CAMEL.findall(word)
        for start in range(len(parts)):
            for end in range(start + 1, min(start + 4, len(parts)) + 1):
                words.append("".join(parts[start:end]))
        words.append(word)
    return words
