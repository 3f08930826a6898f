"""Measurement: clusters of labelled traces, ours and those of others, in one run. See BENCHMARKS.md.

`CRUX_TRACES_BENCH` names a folder of trace texts with `labels.json`, {file: cause}; the first word of a
file's name, up to a dot, says which release it is of.
"""

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from oracles.naming import signature_of_text
from triage.clustering.grouping import cluster_traces, trace_signature

pytestmark = pytest.mark.bench
FOLDER = os.environ.get("CRUX_TRACES_BENCH", "")


@pytest.mark.skipif(not FOLDER, reason="CRUX_TRACES_BENCH names no folder of labelled traces")
def test_clusters_of_labelled_traces(say):
    labels = json.loads((Path(FOLDER) / "labels.json").read_text())
    texts = {name: (Path(FOLDER) / name).read_text(errors="replace") for name in labels}
    causes = set(labels.values())
    say(f"\n{len(labels)} texts of {len(causes)} causes; a third of the causes, by hash, apart")
    say("| Method | Precision | Recall | F1 | F1 on a third |\n|---|---|---|---|---|")
    for method, cluster in METHODS.items():
        say(f"| {method} | {' | '.join(_row(labels, cluster(texts)))} |")


def _row(labels: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    third = {name: cause for name, cause in labels.items() if _is_apart(cause)}
    figures = (*pairwise(labels, found), pairwise(third, found)[2])
    return [f"{figure:.3f}" for figure in figures]


def _is_apart(cause: str) -> bool:
    return hashlib.sha256(cause.encode()).digest()[0] % 3 == 0


def pairwise(labels: Mapping[str, str], found: Mapping[str, str]) -> tuple[float, float, float]:
    """Precision, recall and F1 over all pairs of texts."""
    both, labelled, clustered = (
        sum(count * (count - 1) // 2 for count in Counter(map(key, labels)).values())
        for key in (lambda name: (labels[name], found[name]), labels.__getitem__, found.__getitem__)
    )
    precision, recall = both / max(clustered, 1), both / max(labelled, 1)
    return precision, recall, 2 * precision * recall / max(precision + recall, 1e-9)


# How others put failure texts into clusters, written anew from their descriptions, to be scored beside ours
# Each maps {file: text} to {file: cluster} and is told nothing else.

Texts = Mapping[str, str]
Clusters = dict[str, str]

_EXCEPTION = re.compile(r"^(?:[a-z_]\w*\.)*([A-Z]\w+): ?(.*)", re.M)


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


def _message(text: str) -> str:
    raised = _EXCEPTION.findall(text[text.rfind("Traceback") :])
    return " ".join(raised[0]) if raised else (text.strip().splitlines() or [""])[0]


def _parsed(text: str) -> str:
    return " ".join(value for _, value in signature_of_text(text).components)


def _place(templates: list[list[str]], words: list[str], alike: float) -> int:
    """The template that shares the most words, widened to these; a new one where none shares enough."""
    shared = [sum(a == b for a, b in zip(template, words, strict=True)) for template in templates]
    if shared and max(shared) >= alike * len(words):
        best = shared.index(max(shared))
        templates[best] = [a if a == b else "<*>" for a, b in zip(templates[best], words, strict=True)]
        return best
    templates.append(words)
    return len(templates) - 1


METHODS: dict[str, Callable[[Texts], Clusters]] = {
    "OATest's": oatest,
    "Drain on our parse": drain,
    "ours, L1": lambda texts: {name: trace_signature(text).digest for name, text in texts.items()},
    "ours, L1 and L2": cluster_traces,
}
