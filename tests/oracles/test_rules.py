"""The rules: found by themselves, in order, each deciding only what it is for."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import oracles.rules
from corpus.case import Case
from corpus.formats.onnx import parse
from corpus.onnx.canonical import measure
from corpus.target import Target
from oracles.judge import Judge
from oracles.naming import signature
from oracles.numerics.compare import Tolerance
from oracles.numerics.input_noise import contradiction, outputs_contradict
from oracles.probes.context import Context
from oracles.probes.record import Recording
from oracles.rules import find_rules
from oracles.rules.failures import is_due_to_refuse
from oracles.rules.wrong_results import has_functions
from oracles.sandbox.sandbox import Job
from oracles.verdict import AGREEMENT, REFUSAL, SURVIVAL, Config, Notes, Outcome, Phase, Run, Status, Verdict
from reducer.api import reduce_case
from reducer.course import Options
from tests.helpers.failing import ORT, on_ort

CASE = Case("onnx", b"", {})


class Quiet:
    """Noise of a model without nodes."""

    recording = Recording({}, None, True)
    types: Mapping[str, onnx.TypeProto.Tensor] = MappingProxyType({})

    def __init__(self) -> None:
        self.notes = Notes()

    def ancestors(self, name: str) -> set[str]:
        return {name}


class Facts:
    """What a context would answer."""

    def __init__(self, kind: str = "", complaint: str | None = None, referee: Status = Status.OK) -> None:
        self.kind = kind
        self.complaint = complaint
        self.names: frozenset[str] = frozenset()
        self.tolerance = self.screen = Tolerance()
        self.is_random = False
        self.plain = None
        self.nodes: tuple[onnx.NodeProto, ...] = ()
        self.has_open_operators = False
        self.noise = Quiet()
        self.steps = 0.0
        self.contradiction = self.undefined = ""
        self.floor_quotients = ()
        self.repeats = ()
        self.referee = Run(Config("reference"), referee, Phase.EXECUTE)

    def excuse(self, run: Run) -> str:
        return self.undefined

    def left_open(self, output: str) -> str:
        return self.undefined

    def declared(self, name: str) -> None:
        return None

    def written_out(self) -> None:
        return None

    def contradicted_by_interpreter(self, run: Run) -> None:
        return None

    def classify(self, run: Run) -> str:
        return "" if run.is_ok else self.kind


def ran(status: Status, label: str = "none", **details: object) -> Run:
    return Run(Config(label), status, Phase.EXECUTE, **details)  # type: ignore[arg-type]


OK, THROWN, DEAD, LATE, STARVED = (
    ran(status)
    for status in (Status.OK, Status.EXCEPTION, Status.CRASH, Status.TIMEOUT, Status.OUT_OF_MEMORY)
)


def decide(runs: tuple[Run, ...], facts: Facts) -> Verdict | None:
    verdicts = (rule.judge(CASE, runs, cast(Context, facts)) for rule in find_rules())
    return next((verdict for verdict in verdicts if verdict is not None), None)


def test_every_file_of_the_package_holds_rules():
    files = {path.stem for path in Path(oracles.rules.__path__[0]).glob("*.py")} - {"__init__"}
    assert {rule.judge.__module__.rsplit(".", 1)[1] for rule in find_rules()} == files
    assert [rule.name for rule in find_rules()[:2]] == ["undefined", "crash"]


@pytest.mark.parametrize(
    ("runs", "facts", "outcome", "side"),
    [
        ((OK, OK), Facts(), None, ""),
        ((DEAD, DEAD), Facts(), Outcome.CRASH, ""),
        ((OK, DEAD), Facts(), Outcome.CRASH, "optimised"),
        ((THROWN, DEAD), Facts(complaint="bad"), Outcome.CRASH, "optimised"),
        ((LATE, LATE), Facts(), Outcome.TIMEOUT, ""),
        ((OK, LATE), Facts(), Outcome.TIMEOUT, "optimised"),
        ((STARVED, OK), Facts(), Outcome.OUT_OF_MEMORY, ""),
        ((THROWN, THROWN), Facts("out-of-memory"), Outcome.OUT_OF_MEMORY, ""),
        ((THROWN, OK), Facts("unsupported"), Outcome.UNSUPPORTED, ""),
        ((OK, THROWN), Facts("unsupported"), Outcome.EXCEPTION, "optimised"),
        ((OK, THROWN), Facts("ill-marked"), Outcome.UNSUPPORTED, ""),
        ((THROWN, OK), Facts("invalid-input"), Outcome.INVALID, ""),
        ((THROWN, THROWN), Facts(complaint="bad"), Outcome.INVALID, ""),
        ((OK, THROWN), Facts(complaint="bad"), Outcome.EXCEPTION, "optimised"),
        ((THROWN, OK), Facts(), Outcome.EXCEPTION, "un-optimised"),
        ((THROWN, OK), Facts(referee=Status.EXCEPTION), Outcome.INVALID, ""),
        ((THROWN, THROWN), Facts(referee=Status.OK), Outcome.EXCEPTION, ""),
        ((THROWN, THROWN), Facts(referee=Status.EXCEPTION), Outcome.INVALID, ""),
        ((THROWN,), Facts(referee=Status.OK), Outcome.EXCEPTION, ""),
        ((THROWN,), Facts("unsupported"), Outcome.UNSUPPORTED, ""),
    ],
)
def test_runs_and_facts_make_an_outcome(runs, facts, outcome, side):
    verdict = decide(runs, facts)
    assert (verdict and verdict.outcome) == outcome
    assert verdict is None or (verdict.symptom is not None and verdict.symptom.side == side)


def test_a_verdict_rests_on_the_baseline_and_the_run_that_fails():
    dead = ran(Status.CRASH, "extended")
    verdict = decide((OK, ran(Status.OK, "all"), dead), Facts())
    assert verdict.runs == (OK, dead)


def test_another_result_on_every_run_is_a_mismatch_of_the_baseline():
    facts = Facts()
    one, other = (ran(Status.OK, outputs={"y": np.array([value])}) for value in (1, 2))
    facts.repeats = (one, other)  # type: ignore[assignment]
    verdict = decide((one, one), facts)
    assert (verdict.symptom.kind, verdict.symptom.site) == ("nondeterministic", "un-optimised")
    facts.undefined = "an index out of bounds"
    assert decide((one, one), facts) is None
    facts.undefined = ""
    facts.is_random = True
    assert decide((one, one), facts) is None


# Declared against actual: a result of another shape than its operator fixes is found where it arises

F = np.float32
EMPTY = np.zeros((0, 4), F)
SHOWN = {
    "refused further down": "t = ReduceSumSquare<keepdims = 1>(x, a) y = Reshape(t, s)",
    "measured": "t = ReduceL1<keepdims = 0>(x, a) y = Shape(t)",
    "a buffer that is used again": "n = Shape(r) t = ReduceL1<keepdims = 0>(n, b) u = Shape(t) y = Shape(u)",
    "of integers": "n = Cast<to = 6>(x) t = ReduceSumSquare<keepdims = 0>(n, a) y = Reshape(t, s)",
    "after other nodes": "n = Neg(x) t = ReduceL2(n, a) u = Abs(t) v = Neg(u) y = Reshape(v, s)",
}
"""Reductions, along an axis counted from the end, of tensors without elements."""


@pytest.fixture(scope="module")
def _shows(judge: Judge) -> None:
    outputs = judge.runs(alone(), judge.configs[:1])[0].outputs
    if outputs["y"].shape == (1, 4):  # type: ignore[union-attr]
        pytest.skip("this release of onnxruntime reduces empty tensors as specified")


def case_of(nodes: str, x: np.ndarray, output: str = "y") -> Case:
    shape = ",".join(map(str, x.shape))
    constants = "<int64[1] a = {-2}, int64[1] b = {-1}, int64[2] s = {2, 2}, float r = {1.0}>"
    graph = f"g (float[{shape}] x) => ({output}) {constants} {{ {nodes} }}"
    return on_ort(graph, opset=18, x=x)


def alone() -> Case:
    """Where no run fails and none differs, the declaration of the output gives it away."""
    return case_of("y = ReduceSum<keepdims = 1>(x, a)", EMPTY, "float[1,4] y")


def test_a_model_that_declares_another_rank_shows_nothing_of_its_operator(judge):
    case = case_of("y = ReduceSum<keepdims = 1>(x, a)", EMPTY, "float[n] y")
    assert "where its inputs fix" not in judge.verdict(case).title


@pytest.mark.usefixtures("_shows")
@pytest.mark.parametrize("name", SHOWN)
def test_whatever_follows_from_a_wrong_shape_is_one_bug_of_one_node(judge, name, tmp_path):
    case = case_of(SHOWN[name], EMPTY)
    verdict = judge.verdict(case)
    assert verdict.outcome is Outcome.MISMATCH, verdict.title
    assert str(verdict.symptom) == "mismatch | compare | shape | Reduction | un-optimised"
    reduction = reduce_case(case, tmp_path / "out", Options(target=ORT))
    assert reduction.after.nodes == 1
    expected = signature(judge.verdict(alone()), measure(parse(alone().program)), alone())
    assert reduction.signature == expected


@pytest.mark.usefixtures("_shows")
def test_axes_that_flow_in_fix_a_shape_too(judge):
    graph = (
        "g (float[0,4] x, int64[1] a) => (y) <int64[2] s = {2, 2}>"
        " { t = ReduceSumSquare<keepdims = 1>(x, a) y = Reshape(t, s) }"
    )
    case = on_ort(graph, opset=18, x=EMPTY, a=np.array([-2]))
    assert str(judge.verdict(case).symptom) == "mismatch | compare | shape | Reduction | un-optimised"


@pytest.mark.parametrize(
    "nodes",
    [
        "t = ReduceSum(x, a) y = Neg(t)",
        "y = NonZero(x)",
        "y = Reshape(x, s)",
        "t = Identity(x) y = Concat<axis = 0>(t, x)",
    ],
)
def test_what_keeps_to_its_types_is_left_alone(judge, nodes):
    assert judge.verdict(case_of(nodes, np.ones((1, 4), F))).outcome is Outcome.PASS


def test_an_output_that_the_model_itself_declares_wrongly_is_no_bug(judge):
    case = case_of("y = Neg(x)", np.ones((1, 4), F), "float[3,4] y")
    assert outputs_contradict(parse(case.program), {"y": np.ones((1, 4), F)})
    verdict = judge.verdict(case)
    assert verdict.outcome is Outcome.PASS
    assert any("corrected" in note for note in verdict.notes)


@pytest.mark.parametrize(
    ("declared", "value", "kind"),
    [
        ([2, 3], np.zeros((2, 3), F), ""),
        ([2, None], np.zeros((2, 3), F), ""),
        (["N", 3], np.zeros((0, 3), F), ""),
        (None, np.zeros((2, 3), F), ""),
        ([2, 0], np.zeros((2, 3), F), "shape"),
        ([2, 3], np.zeros((2, 3, 1), F), "shape"),
        ([], np.zeros(1, F), "shape"),
        ([2], np.zeros(2, np.float64), "dtype"),
        ([2], [np.zeros(3, F)], ""),
        ([2], None, ""),
    ],
)
def test_only_what_is_fixed_can_be_contradicted(declared, value, kind):
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, declared).tensor_type  # type: ignore[arg-type]
    found = contradiction(tensor, value)  # type: ignore[arg-type]
    assert (found.kind if found else "") == kind


# Programs that must be refused or survived, judged by onnxruntime; and functions that change nothing

X = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
Y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)


def demanding(*nodes, initializers=(), functions=(), settings=()) -> Case:
    graph = helper.make_graph(list(nodes), "g", [X], [Y], initializer=list(initializers))
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("local", 1)]
    model = helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=10)
    inputs = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    return Case("onnx", model.SerializeToString(), inputs, Target("ort"), settings=settings)


TRANSPOSED = helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0, 2])
PLAIN = helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])


def test_a_refusal_that_is_due_is_no_bug(judge):
    verdict = judge.verdict(demanding(TRANSPOSED, settings=(REFUSAL,)))
    assert verdict.outcome is Outcome.INVALID
    assert verdict.title.startswith("refused")


def test_what_is_accepted_with_good_reason_is_no_bug(judge):
    assert judge.verdict(demanding(PLAIN, settings=(REFUSAL,))).outcome is Outcome.PASS


def given_back(job: Job, **_: Any) -> tuple[Run, ...]:
    """What a backend says that runs anything and gives back its input."""
    ok = Run(Config("none"), Status.OK, Phase.EXECUTE, outputs={"y": job.inputs["x"]})
    return tuple(replace(ok, config=config) for config in job.configs)


def test_silent_acceptance_of_what_all_others_refuse_is_a_bug(judge, monkeypatch):
    monkeypatch.setattr(judge.executor, "run", given_back)
    verdict = judge.verdict(demanding(TRANSPOSED, settings=(REFUSAL,)))
    assert verdict.outcome is Outcome.MISMATCH
    assert verdict.symptom.kind == "accepted"
    assert "accepted although invalid" in verdict.title
    assert judge.verdict(demanding(PLAIN, settings=(REFUSAL,))).outcome is Outcome.PASS


def test_a_backend_that_reads_no_onnx_accepts_nothing(torch_judge, monkeypatch):
    monkeypatch.setattr(torch_judge.executor, "run", given_back)
    case = replace(demanding(TRANSPOSED, settings=(REFUSAL,)), target=None)
    assert torch_judge.verdict(case).outcome is Outcome.PASS


def test_a_dangerous_value_may_be_refused_but_not_kill(judge):
    far = helper.make_tensor("far", TensorProto.INT64, [1], [1000])
    gather = helper.make_node("Gather", ["x", "far"], ["y"])
    case = demanding(gather, initializers=[far], settings=(SURVIVAL,))
    assert judge.verdict(case).outcome is Outcome.INVALID
    died = Run(Config("none"), Status.CRASH, Phase.EXECUTE)
    assert is_due_to_refuse(case, (died,)) is True


def test_what_every_configuration_refuses_of_values_that_nobody_knows_is_no_bug(judge):
    ratio = helper.make_tensor("ratio", TensorProto.FLOAT, [], [2.0])
    dropout = helper.make_node("Dropout", ["x", "ratio"], ["y"])
    case = demanding(dropout, initializers=[ratio])
    assert judge.verdict(case).is_bug
    assert judge.verdict(replace(case, settings=(AGREEMENT,))).outcome is Outcome.INVALID
    ok, refused = (Run(Config("none"), status, Phase.EXECUTE) for status in (Status.OK, Status.EXCEPTION))
    assert is_due_to_refuse(replace(case, settings=(AGREEMENT,)), (ok, refused)) is None
    assert is_due_to_refuse(replace(case, settings=(AGREEMENT,)), (refused, ok)) is False


def test_a_program_without_demands_is_left_to_the_other_rules():
    ok = Run(Config("none"), Status.OK, Phase.EXECUTE)
    assert is_due_to_refuse(demanding(PLAIN), (ok, ok)) is None
    assert has_functions(demanding(PLAIN), (ok, ok)) is None


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
    case = demanding(CALL, functions=[DOUBLE])
    assert has_functions(case, ()) is True
    assert judge.verdict(case).outcome is Outcome.PASS


@pytest.mark.parametrize(("lower_levels", "jobs"), [(False, 1), (True, 3)])
def test_a_program_with_functions_costs_a_campaign_two_runs_if_the_lower_levels_are_left_out(
    monkeypatch, lower_levels, jobs
):
    asked: list[Job] = []
    with Judge(Target("ort"), lower_levels=lower_levels) as judge:
        run = judge.executor.run
        monkeypatch.setattr(judge.executor, "run", lambda job, **more: asked.append(job) or run(job, **more))
        assert judge.verdict(demanding(CALL, functions=[DOUBLE])).outcome is Outcome.PASS
    assert len(asked) == jobs


def test_a_call_that_gives_another_result_than_its_body_is_a_bug(judge, monkeypatch):
    """The backend takes a call for the identity."""
    run = judge.executor.run

    def mistaken(job: Job, *, fresh: bool = False) -> tuple[Run, ...]:
        return run(job, fresh=fresh) if b"double" not in job.program else given_back(job)

    monkeypatch.setattr(judge.executor, "run", mistaken)
    verdict = judge.verdict(demanding(CALL, functions=[DOUBLE]))
    assert verdict.outcome is Outcome.MISMATCH
    assert verdict.symptom.site == "functions"


def test_what_a_scale_of_0_leaves_open_is_so_within_a_function(judge):
    """The product of nothing is what lay in memory, which is a bug; divided by 0 it is anything."""
    quantised = helper.make_function(
        "local",
        "quantised",
        ["x", "scale", "zero", "w", "of_w"],
        ["y"],
        [
            helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
            helper.make_node(
                "QLinearMatMul", ["q", "scale", "zero", "w", "scale", "of_w", "scale", "zero"], ["y"]
            ),
        ],
        [helper.make_opsetid("", 20)],
    )
    constants = {
        "scale": np.array(0.0, np.float32),
        "zero": np.array(0, np.uint8),
        "w": np.zeros((0, 1), np.int8),
        "of_w": np.array(0, np.int8),
    }
    graph = helper.make_graph(
        [helper.make_node("quantised", ["x", *constants], ["y"], domain="local")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 0])],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, [4, 1])],
        [numpy_helper.from_array(each, name) for name, each in constants.items()],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("local", 1)]
    model = helper.make_model(graph, opset_imports=opsets, functions=[quantised], ir_version=10)
    case = Case("onnx", model.SerializeToString(), {"x": np.zeros((4, 0), np.float32)}, Target("ort"))
    verdict = judge.verdict(case)
    assert verdict.outcome is Outcome.PASS
    assert "left open: a scale that is not above 0" in verdict.notes
