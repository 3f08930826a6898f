"""Minimal pass sets against labels: how many agree, and how many checks each took; printed, never asserted.

`CRUX_PASSES_BENCH` names folders of labelled cases, separated by colons. A case's `meta.json` labels it with
`minimal_passes`, the exact set (taken where the installed release shows the `verdict` *bug* in the `same`
way), or with a `root_cause` that names the pass or a kernel.
"""

import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from corpus.load import open_case
from corpus.target import Target
from oracles.judge import Judge
from oracles.optimisers import ort_passes as ort
from reducer.pass_sets import PassSet, find_pass_set

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]

TARGET = Target("ort")
FOLDERS = [Path(name) for name in os.environ.get("CRUX_PASSES_BENCH", "").split(":") if name]


@dataclass(frozen=True)
class Row:
    """A labelled case with what was found; None where it shows no bug."""

    folder: Path
    label: Mapping[str, Any]
    found: PassSet | None

    @property
    def agrees(self) -> bool | None:
        """None where there is nothing to compare."""
        if self.found is None:
            return None
        if "minimal_passes" in self.label:
            return set(self.found.minimal) == set(self.label["minimal_passes"] or ())
        cause = set(re.findall(r"\w+", self.label["root_cause"].replace("PadFusion", "Pad_Fusion")))
        named = cause & set(ort.OPTIMIZERS)
        return named <= set(self.found.minimal) and bool(named) == bool(self.found.minimal)

    def line(self) -> str:
        said = {True: "agrees", False: "DIFFERS", None: "no bug"}[self.agrees]
        wanted = self.label.get("minimal_passes", self.label.get("root_cause"))
        found = self.found
        if found is None:
            return f"{self.folder.name:32} {said}  label: {wanted}"
        most = int(2 * len(found.minimal) * math.log2(len(ort.OPTIMIZERS)) + 2)
        text = " ".join(found.minimal) or "(none)"
        unique = "" if found.unique else "  not unique"
        differs = "" if self.agrees else f"  label: {wanted}"
        return (
            f"{self.folder.name:32} {said}  {found.checks + 1:2} of {most:2} checks  {text}{unique}{differs}"
        )


def test_agreement_with_labels(say):
    if not FOLDERS:
        pytest.skip("CRUX_PASSES_BENCH names no folder of labelled cases")
    for folder in FOLDERS:
        with Judge(TARGET) as judge:
            rows = [Row(case, label, find(judge, case)) for case, label in labelled(folder)]
        judged = [row for row in rows if row.agrees is not None]
        checks = sorted(row.found.checks + 1 for row in rows if row.found is not None)
        say(f"\n{folder.name}", *(row.line() for row in rows), sep="\n")
        say(f"{sum(bool(row.agrees) for row in judged)} of {len(judged)} agree; checks {summary(checks)}")
        assert judged


def find(judge: Judge, folder: Path) -> PassSet | None:
    case = open_case(folder, target=TARGET)
    verdict = judge.verdict(case)
    return find_pass_set(judge, case, verdict) if verdict.is_bug else None


def labelled(folder: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The cases that say something of the passes of the installed onnxruntime."""
    installed = version("onnxruntime")
    for path in sorted(folder.glob("*/meta.json")):
        label = json.loads(path.read_text())
        status = (label.get("by_version") or {}).get(installed, {}).get("status", "same")
        wanted = label.get("verdict", "bug") == "bug" and status == "same"
        if label["package"] == "onnxruntime" and wanted and (path.parent / "model.onnx").exists():
            yield path.parent, label


def summary(checks: list[int]) -> str:
    return f"least {checks[0]}, median {checks[len(checks) // 2]}, most {checks[-1]}" if checks else "none"
