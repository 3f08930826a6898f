"""torch's ONNX exporters as a target: what they export gives what eager torch gives."""

from collections import Counter

import numpy as np
import pytest

from corpus.case import Case
from corpus.errors import UserError
from corpus.graphs.program import Binding, Graph, GraphProgram, Input
from corpus.target import Target
from generators.legality import Legality
from generators.mixture import Plan, make_cases
from generators.mutations.modes import Mode
from oracles.judge import Judge
from oracles.numerics.compare import Tolerance
from oracles.probes.wrong_side import RUNNER, WRITTEN, is_exported, say_whose
from oracles.sandbox.executor import configs_of
from oracles.verdict import Config, Mark, Outcome, Phase, Run, Status, Verdict
from tests.helpers.models import case_of as case


def test_eager_torch_comes_first_and_an_exporter_can_be_chosen():
    labels = [config.label for config in configs_of(Target.parse("torch-onnx"), "onnx")]
    assert labels == ["eager", "dynamo", "torchscript"]
    assert len(configs_of(Target.parse("torch-onnx@exporter=dynamo"), "onnx")) == 2
    with pytest.raises(UserError, match="@exporter= is one of"):
        configs_of(Target.parse("torch-onnx@exporter=none"), "onnx")


@pytest.mark.slow
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_what_is_exported_gives_the_same(exporter):
    pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    text = "g (float[2,3] x) => (float[3,2] y) { a = Relu(x) b = Exp(a) y = Transpose(b) }"
    with Judge(Target.parse(f"torch-onnx@exporter={exporter}")) as judge:
        verdict = judge.verdict(case(text, x=np.ones((2, 3), "float32")))
    assert verdict.outcome is Outcome.PASS, verdict.title
    assert [run.config.label for run in verdict.runs] == ["eager", exporter]


@pytest.mark.slow
def test_what_the_exporter_has_no_words_for_is_no_bug():
    pytest.importorskip("torch")
    text = "g (float[2,3] x) => (float[2,3] y) { y = Asinh(x) }"
    with Judge(Target.parse("torch-onnx@exporter=torchscript")) as judge:
        verdict = judge.verdict(case(text, x=np.ones((2, 3), "float32")))
        assert verdict.outcome in (Outcome.UNSUPPORTED, Outcome.PASS), verdict.title
        plan = Plan("random", Mode.STRICT, nodes=3, legality=Legality(judge.executor.vocabulary()))
        outcomes = Counter(judge.verdict(each).outcome for each in make_cases(plan, range(10)))
    assert outcomes[Outcome.PASS] > 5


@pytest.mark.slow
def test_the_exporter_tells_which_of_torchs_own_operators_it_knows():
    pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    with Judge(Target("torch-onnx")) as judge:
        known = judge.executor.vocabulary() or frozenset()
    own = {name.removeprefix("org.pytorch.aten.") for name in known}
    assert {"add", "relu", "movedim", "sort"} <= own
    assert own.isdisjoint({"searchsorted", "kthvalue", "cummax", "mode", "*"})


@pytest.mark.slow
def test_a_program_of_torch_is_exported_as_well():
    pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    main = Graph((Input("x", "float32", (3,)),), (Binding("a", "torch.neg", ({"ref": "x"},)),), ("a",))
    program = GraphProgram("torch", main).to_bytes()
    with Judge(Target.parse("torch-onnx@exporter=dynamo"), format="torch") as judge:
        verdict = judge.verdict(Case("torch", program, {"x": np.float32([1, 2, 3])}))
    assert verdict.outcome is Outcome.PASS, verdict.title


def run(label: str, value: float | None, phase: Phase = Phase.EXECUTE) -> Run:
    """A run that gives one number, or raises."""
    if value is None:
        return Run(Config(label), Status.EXCEPTION, phase, error="ValidationError", message="no such type")
    return Run(Config(label), Status.OK, phase, outputs={"y": np.float32([value])})


@pytest.mark.parametrize(
    ("failing", "independent", "said", "is_elsewhere"),
    [
        (2.0, 2.0, WRITTEN, False),
        (2.0, 1.0, RUNNER, True),
        (2.0, 3.0, "a third result", False),
        (2.0, None, "does not decide", False),
        (None, None, WRITTEN, False),
        (None, 1.0, RUNNER, True),
    ],
)
def test_an_independent_run_says_whether_the_exporter_or_the_runner_is_wrong(
    failing, independent, said, is_elsewhere
):
    outcome = Outcome.EXCEPTION if failing is None else Outcome.MISMATCH
    verdict = Verdict(outcome, Phase.EXECUTE, "t", runs=(run("eager", 1.0), run("dynamo", failing)))
    notes = say_whose(verdict, run("dynamo, by ONNX's reference evaluator", independent), Tolerance())
    assert said in notes.texts[0]
    assert (Mark.ELSEWHERE in notes.marks) is is_elsewhere


def test_what_the_exporter_itself_raises_is_asked_of_nobody_else():
    raised = (run("eager", 1.0), run("dynamo", None, Phase.OPTIMISE))
    assert not is_exported(Verdict(Outcome.EXCEPTION, Phase.OPTIMISE, "t", runs=raised))
    refused = (run("eager", 1.0), run("dynamo", None))
    assert is_exported(Verdict(Outcome.EXCEPTION, Phase.EXECUTE, "t", runs=refused))
