"""Inputs from the seed, changed where a model's values are not finite: what the commands make of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from corpus.case import Case
from generators.mixture import Plan
from tests.triage.test_cli import crux
from triage.cases.sources import finite_source, open_one, open_to_run
from triage.console.options import CaseOptions

SQRT = """<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y)
    <float c = {3}> { a = Sub(x, c) y = Sqrt(a) }"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(onnx.parser.parse_model(SQRT).SerializeToString())
    return path


def test_a_verdict_says_what_was_changed_and_given_inputs_are_never_changed(file: Path) -> None:
    np.savez(file.parent / "given.npz", x=np.zeros(4, np.float32))
    made = crux(file.parent, "check", "model.onnx", "--json")
    given = crux(file.parent, "check", "model.onnx", "--inputs", "given.npz", "--json")
    assert json.loads(given.stdout)["notes"] == []
    (note,) = json.loads(made.stdout)["notes"]
    assert note.startswith("inputs from the seed, changed so that every value is finite (Sqrt y: x in 3 …")


def test_what_only_looks_at_a_case_runs_nothing(file: Path) -> None:
    options = CaseOptions()
    assert open_one(str(file), options).notes == ()
    changed = open_to_run(str(file), options)
    assert np.all(changed.inputs["x"] >= 3)  # type: ignore[operator]
    assert open_to_run(str(file), options).case_id == changed.case_id


def test_a_kept_case_is_never_changed(file: Path) -> None:
    kept = Case("onnx", file.read_bytes(), {"x": np.zeros(4, np.float32)})
    kept.save(file.parent / "kept")
    assert open_to_run(str(file.parent / "kept"), CaseOptions()).case_id == kept.case_id


def test_a_model_to_mutate_brings_changed_inputs_the_same_for_any_seed(file: Path) -> None:
    plan = Plan(strategy="mutate", source=file)
    found = []
    for seed in (0, 5):
        with finite_source(plan, CaseOptions(seed=seed)) as settled:
            assert settled.source is not None
            found.append(Case.load(settled.source))
    assert found[0] == found[1]
    assert np.all(found[0].inputs["x"] >= 3)  # type: ignore[operator]
