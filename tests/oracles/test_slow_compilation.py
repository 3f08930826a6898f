"""A compiler that takes long is no hang: it gets more time, and what it gives is compared as usual."""

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from corpus.case import Case
from corpus.target import Target
from oracles.judge import Judge
from oracles.probes.context import Context
from oracles.rules.failures import hang
from oracles.sandbox import processes
from oracles.verdict import Config, Limits, Outcome, Phase, Run, Status
from tests.helpers.failing import model

TARGET = Target("inductor")


@pytest.fixture(scope="module")
def chain() -> Case:
    pytest.importorskip("torch")
    nodes = [("Tanh", ["x"], ["a"]), ("MatMul", ["a", "x"], ["b"]), ("Softmax", ["b"], ["y"])]
    graph = model(nodes, {"x": (1, [4, 4])}, {"y": (1, [4, 4])})
    return Case("onnx", graph.SerializeToString(), {"x": np.eye(4, dtype=np.float32)}, TARGET)


def compiled(case: Case) -> Run:
    with Judge(TARGET) as judge:
        return judge.runs(case, judge.configs[1:2])[0]


@pytest.mark.parametrize(
    ("plain", "took", "outcome"),
    [(2.0, 39.0, Outcome.UNDECIDED), (2.0, 61.0, Outcome.TIMEOUT), (2.0, 0.1, Outcome.TIMEOUT)],
)
def test_a_hang_takes_twenty_times_the_plain_run_or_sleeps(plain, took, outcome):
    context = SimpleNamespace(
        steps=1, names=frozenset(), executor=SimpleNamespace(limits=Limits(cpu_seconds=20))
    )
    runs = (
        Run(Config("none"), Status.OK, Phase.EXECUTE, cpu_seconds=plain),
        Run(Config("all"), Status.TIMEOUT, Phase.OPTIMISE, cpu_seconds=took),
    )
    verdict = hang(Case("onnx", b"", {}), runs, cast(Context, context))
    assert verdict is not None
    assert verdict.outcome is outcome


@pytest.mark.slow
def test_a_model_that_compiles_slowly_passes_and_says_what_it_took(chain):
    usual = compiled(chain)
    short = Limits(cpu_seconds=usual.cpu_seconds / 5, wall_seconds=60)
    heard: list[str] = []
    processes.LISTENERS.append(heard.append)
    try:
        with Judge(TARGET, limits=short) as judge:
            first = judge.runs(chain, judge.configs[:2])
            verdict = judge.verdict(chain)
    finally:
        processes.LISTENERS.remove(heard.append)
    assert first[1].status is Status.TIMEOUT
    assert verdict.outcome is Outcome.PASS, verdict.title
    assert any("no hang" in note for note in verdict.notes), verdict.notes
    assert all(": " in text for text in heard)
