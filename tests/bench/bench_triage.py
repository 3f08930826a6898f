"""Measurement: clusters of labelled traces, ours and those of others, in one run. See BENCHMARKS.md.

`CRUX_TRACES_BENCH` names a folder of trace texts with `labels.json`, {file: cause}; the first word of a
file's name, up to a dot, says which release it is of.
"""

import hashlib
import itertools
import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.bench.clustering_peers import PEERS
from triage.clustering.grouping import cluster_traces, trace_signature

pytestmark = pytest.mark.bench
FOLDER = os.environ.get("CRUX_TRACES_BENCH", "")
METHODS = {
    **PEERS,
    "ours, L1": lambda texts: {name: trace_signature(text).digest for name, text in texts.items()},
    "ours, L1 and L2": cluster_traces,
}


@pytest.mark.skipif(not FOLDER, reason="CRUX_TRACES_BENCH names no folder of labelled traces")
def test_clusters_of_labelled_traces(capsys):
    labels = json.loads((Path(FOLDER) / "labels.json").read_text())
    texts = {name: (Path(FOLDER) / name).read_text(errors="replace") for name in labels}
    with capsys.disabled():
        causes = set(labels.values())
        print(f"\n{len(labels)} texts of {len(causes)} causes; a third of the causes, by hash, apart")
        print("| Method | Precision | Recall | F1 | B-cubed F1 | a third: precision | F1 | ORT | TVM |")
        print("|---|---|---|---|---|---|---|---|---|")
        for method, cluster in METHODS.items():
            print(f"| {method} | {' | '.join(_row(labels, cluster(texts)))} |")


def _row(labels: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    third = {name: cause for name, cause in labels.items() if _is_apart(cause)}
    precision, recall, f1 = pairwise(labels, found)
    apart = pairwise(third, found)
    figures = [precision, recall, f1, b_cubed(labels, found), apart[0], apart[2]]
    return [
        f"{figure:.3f}" for figure in (*figures, *(across(labels, found, each) for each in ("ort", "tvm")))
    ]


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


def b_cubed(labels: Mapping[str, str], found: Mapping[str, str]) -> float:
    """F1 of the precision and recall that a text sees on average."""
    both = Counter((labels[name], found[name]) for name in labels)
    sizes, causes = Counter(found[name] for name in labels), Counter(labels.values())
    precision = sum(count**2 / sizes[cluster] for (_, cluster), count in both.items()) / len(labels)
    recall = sum(count**2 / causes[cause] for (cause, _), count in both.items()) / len(labels)
    return 2 * precision * recall / (precision + recall)


def across(labels: Mapping[str, str], found: Mapping[str, str], package: str) -> float:
    """The share of pairs of one cause and two releases of a package that are together."""
    names = [name for name in labels if name.startswith(package)]
    pairs = [
        found[one] == found[two]
        for one, two in itertools.combinations(names, 2)
        if labels[one] == labels[two] and one.split(".")[0] != two.split(".")[0]
    ]
    return sum(pairs) / max(len(pairs), 1)
