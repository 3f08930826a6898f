"""Wrong passes of our own over TVM's loops: the statement and the passes that it takes are what is left."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from corpus.tir.walk import statements
from oracles.backends import backends
from reducer.api import reduce_case
from reducer.options import Options
from tests.bench.planted_loops import MARKING
from tests.bench.planted_loops_cases import planted_case


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("tests.bench.planted_loops")
    monkeypatch.setitem(backends(), "planted_loops", module.backend())


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "passes"),
    [
        ("OtherBase", ("OtherBase",)),
        ("RefusesTangents", ("RefusesTangents",)),
        ("AfterAnother", (MARKING, "AfterAnother")),
    ],
    ids=["a wrong result", "a refusal", "a pass that needs another"],
)
def test_a_wrong_pass_is_found_with_its_statement(name: str, passes: tuple[str, ...], tmp_path: Path) -> None:
    case = planted_case(name, rounds=10)
    result = reduce_case(case, tmp_path / "out", Options(target=case.target))
    assert result.is_minimal
    assert len([*statements(result.case.parsed.main.body)]) <= 3
    assert result.case.passes == tuple(f"tirx.{each}" for each in passes)
    assert result.checks <= 60
