"""No model that an exporter wrote is called a bug, at any level: there is none in them."""

from pathlib import Path

import pytest

pytest.importorskip("torch")
from corpus.load import open_case
from oracles.verdict import Outcome
from tests.zoo.models import ZOO, Entry, build

QUICK = ("helper-classifier", "helper-labels", "helper-gatherer", "gpt-infinite")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("zoo")


def marked(entry: Entry) -> object:
    return pytest.param(entry, id=entry.name, marks=[] if entry.name in QUICK else pytest.mark.slow)


@pytest.mark.parametrize("entry", [marked(entry) for entry in ZOO])
def test_a_model_of_an_exporter_is_no_bug(entry, judge, folder):
    if entry.net is not None and entry.dynamo:
        pytest.importorskip("onnxscript")
    verdict = judge.verdict(open_case(build(entry, folder)))
    assert verdict.outcome is Outcome.PASS, verdict.title
