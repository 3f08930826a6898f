"""Programs that must be refused or survived, judged by onnxruntime; and functions that change nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper

from corpus.case import Case
from corpus.target import Target
from oracles.judge import Judge
from oracles.rules.refusals import is_due_to_refuse
from oracles.rules.wrong_results import has_functions
from oracles.sandbox.sandbox import Job
from oracles.verdict import AGREEMENT, REFUSAL, SURVIVAL, Config, Outcome, Phase, Run, Status

X = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
Y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)


def case_of(*nodes, initializers=(), functions=(), settings=()) -> Case:
    graph = helper.make_graph(list(nodes), "g", [X], [Y], initializer=list(initializers))
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("local", 1)]
    model = helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=10)
    inputs = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    return Case("onnx", model.SerializeToString(), inputs, Target("ort"), settings=settings)


TRANSPOSED = helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0, 2])
PLAIN = helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])


def test_a_refusal_that_is_due_is_no_bug(judge):
    verdict = judge.verdict(case_of(TRANSPOSED, settings=(REFUSAL,)))
    assert verdict.outcome is Outcome.INVALID
    assert verdict.title.startswith("refused")


def test_what_is_accepted_with_good_reason_is_no_bug(judge):
    assert judge.verdict(case_of(PLAIN, settings=(REFUSAL,))).outcome is Outcome.PASS


@contextmanager
def accepting(target: str) -> Iterator[Judge]:
    """A judge whose backend runs anything and gives back its input."""

    def accept(job: Job, *, fresh: bool = False) -> tuple[Run, ...]:
        ok = Run(Config("none"), Status.OK, Phase.EXECUTE, outputs={"y": job.inputs["x"]})
        return tuple(replace(ok, config=config) for config in job.configs)

    with Judge(Target(target)) as judge, pytest.MonkeyPatch.context() as patched:
        patched.setattr(judge.executor, "run", accept)
        yield judge


def test_silent_acceptance_of_what_all_others_refuse_is_a_bug():
    with accepting("ort") as judge:
        verdict = judge.verdict(case_of(TRANSPOSED, settings=(REFUSAL,)))
        assert verdict.outcome is Outcome.MISMATCH
        assert verdict.symptom is not None
        assert verdict.symptom.kind == "accepted"
        assert "accepted although invalid" in verdict.title
        assert judge.verdict(case_of(PLAIN, settings=(REFUSAL,))).outcome is Outcome.PASS


def test_a_backend_that_reads_no_onnx_accepts_nothing():
    pytest.importorskip("torch", reason="torch is not installed")
    case = replace(case_of(TRANSPOSED, settings=(REFUSAL,)), target=None)
    with accepting("torch") as judge:
        assert judge.verdict(case).outcome is Outcome.PASS


def test_a_dangerous_value_may_be_refused_but_not_kill(judge):
    far = helper.make_tensor("far", TensorProto.INT64, [1], [1000])
    gather = helper.make_node("Gather", ["x", "far"], ["y"])
    case = case_of(gather, initializers=[far], settings=(SURVIVAL,))
    assert judge.verdict(case).outcome is Outcome.INVALID
    died = Run(Config("none"), Status.CRASH, Phase.EXECUTE)
    assert is_due_to_refuse(case, (died,)) is True


def test_what_every_configuration_refuses_of_values_that_nobody_knows_is_no_bug(judge):
    ratio = helper.make_tensor("ratio", TensorProto.FLOAT, [], [2.0])
    dropout = helper.make_node("Dropout", ["x", "ratio"], ["y"])
    case = case_of(dropout, initializers=[ratio])
    assert judge.verdict(case).is_bug
    assert judge.verdict(replace(case, settings=(AGREEMENT,))).outcome is Outcome.INVALID
    ok, refused = (Run(Config("none"), status, Phase.EXECUTE) for status in (Status.OK, Status.EXCEPTION))
    assert is_due_to_refuse(replace(case, settings=(AGREEMENT,)), (ok, refused)) is None
    assert is_due_to_refuse(replace(case, settings=(AGREEMENT,)), (refused, ok)) is False


def test_a_program_without_demands_is_left_to_the_other_rules():
    ok = Run(Config("none"), Status.OK, Phase.EXECUTE)
    assert is_due_to_refuse(case_of(PLAIN), (ok, ok)) is None
    assert has_functions(case_of(PLAIN), (ok, ok)) is None


DOUBLE = helper.make_function(
    "local",
    "double",
    ["a"],
    ["b"],
    [helper.make_node("Add", ["a", "a"], ["b"])],
    [helper.make_opsetid("", 20)],
)
CALL = helper.make_node("double", ["x"], ["y"], domain="local")


def test_functions_are_compared_with_themselves_written_out(judge):
    case = case_of(CALL, functions=[DOUBLE])
    assert has_functions(case, ()) is True
    assert judge.verdict(case).outcome is Outcome.PASS


def test_a_call_that_gives_another_result_than_its_body_is_a_bug(monkeypatch):
    """The backend takes a call for the identity."""
    with Judge(Target("ort")) as wrong:
        run = wrong.executor.run

        def mistaken(job: Job, *, fresh: bool = False) -> tuple[Run, ...]:
            if b"double" not in job.program:
                return run(job, fresh=fresh)
            ok = Run(Config("none"), Status.OK, Phase.EXECUTE, outputs={"y": job.inputs["x"]})
            return tuple(replace(ok, config=config) for config in job.configs)

        monkeypatch.setattr(wrong.executor, "run", mistaken)
        verdict = wrong.verdict(case_of(CALL, functions=[DOUBLE]))
    assert verdict.outcome is Outcome.MISMATCH
    assert verdict.symptom is not None
    assert verdict.symptom.site == "functions"
