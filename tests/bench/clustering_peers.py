"""How others put failure texts into clusters, written anew from their descriptions, to be scored beside ours.

Each maps {file: text} to {file: cluster} and is told nothing else.
"""

import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence

from oracles.naming import signature_of_text
from triage.clustering.linkage import average_linkage

Texts = Mapping[str, str]
Clusters = dict[str, str]

_PYTHON_FRAME = re.compile(r'^ *File "([^"\n]+)", line (\d+),? in (\S+)', re.M)
_EXCEPTION = re.compile(r"^(?:[a-z_]\w*\.)*([A-Z]\w+): ?(.*)", re.M)
_EXIT = re.compile(r"\[exit (\d+)\]")


def nnsmith(texts: Texts) -> Clusters:
    """NNSmith files a failure under the hash of its text."""
    return {name: hashlib.sha1(text.encode()).hexdigest() for name, text in texts.items()}


def clusterfuzz(texts: Texts) -> Clusters:
    """ClusterFuzz's crash state: the kind of failure and the three innermost frames' functions."""
    return {name: f"{_kind(text)} {_frames(text)[:3]}" for name, text in texts.items()}


def casr(texts: Texts, cut: float = 0.3) -> Clusters:
    """CASR: frames weigh less the further from the crash they are; hierarchical clustering at .3."""
    stacks = {name: tuple(_frames(text)) for name, text in texts.items()}
    keys = {stack: str(number) for number, stack in enumerate(sorted(set(stacks.values())))}
    by_key = {key: stack for stack, key in keys.items()}
    groups = average_linkage(by_key, lambda a, b: 1 - _alike(by_key[a], by_key[b]), cut)
    cluster_of = {key: group[0] for group in groups for key in group}
    return {name: cluster_of[keys[stack]] for name, stack in stacks.items()}


def oatest(texts: Texts) -> Clusters:
    """OATest (section 4.1.3) takes crashes of one message for one bug; numbers and quoted names dropped."""
    return {name: re.sub(r"'[^']*'|\d+", "#", _message(text)) for name, text in texts.items()}


def drain(texts: Texts, alike: float = 0.5, depth: int = 2) -> Clusters:
    """Drain on the messages that our own parser reads: a tree by length and first words, then a template."""
    leaves: dict[tuple[object, ...], list[list[str]]] = {}
    found = {}
    for name in sorted(texts):
        words = [re.sub(r"\S*\d\S*", "<*>", word) for word in _parsed(texts[name]).split()]
        key = (len(words), *words[:depth])
        found[name] = f"{key} {_place(leaves.setdefault(key, []), words, alike)}"
    return found


PEERS: dict[str, Callable[[Texts], Clusters]] = {
    "NNSmith's hash": nnsmith,
    "ClusterFuzz-like": clusterfuzz,
    "CASR-like": casr,
    "OATest's": oatest,
    "Drain on our parse": drain,
}


def _kind(text: str) -> str:
    raised, code = _EXCEPTION.findall(text[text.rfind("Traceback") :]), _EXIT.findall(text)
    return raised[0][0] if raised else f"exit {code[-1]}" if code else ""


def _message(text: str) -> str:
    raised = _EXCEPTION.findall(text[text.rfind("Traceback") :])
    return " ".join(raised[0]) if raised else (text.strip().splitlines() or [""])[0]


def _frames(text: str) -> list[str]:
    """The functions of a trace, innermost first."""
    functions = [function for _, _, function in _PYTHON_FRAME.findall(text)]
    return functions if "most recent call first" in text else functions[::-1]


def _parsed(text: str) -> str:
    return " ".join(value for _, value in signature_of_text(text).components)


def _alike(one: Sequence[str], two: Sequence[str]) -> float:
    """The position-dependent model: the common subsequence of frames, weighed by depth and offset."""
    if not (one and two):
        return float(one == two)
    best = [[0.0] * (len(two) + 1) for _ in range(len(one) + 1)]
    for i, first in enumerate(one):
        for j, second in enumerate(two):
            same = math.exp(-0.04 * min(i, j) - 0.13 * abs(i - j)) if first == second else 0.0
            best[i + 1][j + 1] = max(best[i][j] + same, best[i][j + 1], best[i + 1][j])
    return best[-1][-1] / sum(math.exp(-0.04 * at) for at in range(max(len(one), len(two))))


def _place(templates: list[list[str]], words: list[str], alike: float) -> int:
    """The template that shares the most words, widened to these; a new one where none shares enough."""
    shared = [sum(a == b for a, b in zip(template, words, strict=True)) for template in templates]
    if shared and max(shared) >= alike * len(words):
        best = shared.index(max(shared))
        templates[best] = [a if a == b else "<*>" for a, b in zip(templates[best], words, strict=True)]
        return best
    templates.append(words)
    return len(templates) - 1
