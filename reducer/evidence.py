"""Evidence before search: the operators and nodes that the failure itself names."""

import re

from oracles.verdict import Outcome, Verdict
from reducer.move import Hints
from reducer.subject.base import Subject

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_CAMEL = re.compile(r"[A-Z][a-z0-9]*|[a-z0-9]+")
_QUOTED = re.compile(
    r"Name:\s*'([^']*)'|node \(([^()]*)\)|Node \(([^()]*)\)|'([^'\s]+)'|node[: ]+\"([^\"]+)\""
)


def read_hints(verdict: Verdict | None, culprit: str = "") -> Hints:
    """Read the operators and nodes that a failing run names, and the node at which it stopped.

    If a result contradicts its declaration, the verdict's own words name the node.
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
    stopped = next((run for run in (verdict.runs if verdict else ()) if run.at), None)
    stopped_at, dims = (stopped.at, stopped.dims) if stopped is not None else ("", {})
    found = (stopped_at,) if stopped_at else (culprit, *quoted)
    names = tuple(dict.fromkeys(name for name in found if name))
    operators = tuple(dict.fromkeys(_words(text)))
    return Hints(operators=operators, nodes=names, stopped_at=stopped_at, dims=dims)


def needed_operator(verdict: Verdict | None, subject: Subject) -> str:
    """The operator at which the framework stopped, if the symptom names it: it must stay.

    Empty where the framework's stack names no node.
    """
    at = next((run.at for run in (verdict.runs if verdict else ()) if run.at), "")
    if verdict is None or verdict.symptom is None:
        return ""
    operator = subject.operator_of(at)
    return operator if verdict.symptom.message.startswith(f"{operator}: ") else ""


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
