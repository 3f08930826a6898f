"""Measurement: labelled failing models through `check --db`, `reduce --all` and `triage`. See BENCHMARKS.md.

`CRUX_FAILURES_BENCH` names a folder of folders with `model.onnx`, `inputs.npz` and `meta.json` (package,
version, label, verdict, confidence). Models of other releases than the installed ones are run where
`CRUX_PYTHONS` names an interpreter that has them, as `1.20.1=PATH,1.15.0=PATH`.
"""

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from tests.bench.bench_triage import pairwise

pytestmark = pytest.mark.bench
FOLDER = os.environ.get("CRUX_FAILURES_BENCH", "")
PYTHONS = dict(pair.split("=", 1) for pair in os.environ.get("CRUX_PYTHONS", "").split(",") if pair)
BACKENDS = {"onnxruntime": "ort", "apache-tvm": "tvm"}
HARMLESS = ("pass", "invalid", "unsupported", "nonfinite")
LOW = "low"


@pytest.mark.timeout(0)
@pytest.mark.skipif(not FOLDER, reason="CRUX_FAILURES_BENCH names no folder of labelled failures")
def test_labelled_failures_through_the_commands(capsys, tmp_path):
    labels = {path.parent: json.loads(path.read_text()) for path in sorted(Path(FOLDER).glob("*/meta.json"))}
    by_target = defaultdict(list)
    for folder, label in labels.items():
        if target := target_of(label):
            by_target[target].append(folder)
    verdicts = {}
    for target, folders in by_target.items():
        found = crux(tmp_path, "check", *map(str, folders), "--target", target, "--db", "crux.db")
        verdicts |= dict(zip(folders, found, strict=True))
    before = scored(tmp_path, labels)
    crux(tmp_path, "reduce", "--all", "--trust", "--db", "crux.db")
    with capsys.disabled():
        show_verdicts({folder: labels[folder] for folder in verdicts}, verdicts)
        print("\n| | Bugs | Labels | Clusters | Precision | Recall | F1 |\n" + "|---" * 7 + "|")
        print(f"| before reduction | {before} |\n| reduced | {scored(tmp_path, labels)} |")


def target_of(label):
    """The target on which a labelled model is run; none where its release cannot be had."""
    try:
        is_installed = version(label["package"]) == label["version"]
    except PackageNotFoundError:
        is_installed = False
    backend = BACKENDS[label["package"]]
    if is_installed:
        return backend
    python = PYTHONS.get(label["version"])
    return f"{backend}@python={python}" if python else None


def crux(folder, *arguments):
    start = "from triage.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", start, *arguments, "--json"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
        check=False,
    )
    assert done.returncode in (0, 1)
    return json.loads(done.stdout)


def scored(folder, labels):
    """The row of a table: how the bugs among the models lie in clusters."""
    causes, found = {}, {}
    for cluster in crux(folder, "triage", "--db", "crux.db"):
        for failure in cluster["failures"]:
            for origin in map(Path, failure["origins"]):
                label = labels.get(origin.parent if origin.suffix == ".onnx" else origin)
                if label and label["verdict"] == "bug" and label["confidence"] != LOW:
                    causes[origin], found[origin] = label["label"], cluster["id"]
    scores = pairwise(causes, found)
    counts = (len(causes), len(set(causes.values())), len(set(found.values())))
    return " | ".join([*map(str, counts), *(f"{score:.3f}" for score in scores)])


def show_verdicts(labels, verdicts):
    """Of models of each confidence: how many bugs are called bugs, and how many others."""
    print("\n| Confidence | Bugs called bugs | Others called bugs |\n|---|---|---|")
    for confidence in sorted({label["confidence"] for label in labels.values()}):
        called = Counter(
            (label["verdict"] == "bug", verdicts[folder]["outcome"] not in HARMLESS)
            for folder, label in labels.items()
            if label["confidence"] == confidence
        )
        bugs, others = called[True, True] + called[True, False], called[False, True] + called[False, False]
        print(f"| {confidence} | {called[True, True]} of {bugs} | {called[False, True]} of {others} |")
