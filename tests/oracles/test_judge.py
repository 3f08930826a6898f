"""Verdicts on small models in the real onnxruntime: what is called a bug, and what is not."""

import json

import ml_dtypes
import numpy as np
import onnx
import pytest

from corpus.case import Case
from corpus.load import open_case
from corpus.target import Target
from oracles.judge import Judge
from oracles.sandbox.executor import Executor
from oracles.sandbox.sandbox import Job
from oracles.screening import REPORT, screen
from oracles.verdict import Config, Limits, Outcome, Phase, Run, Status
from tests.helpers.commands import crux
from tests.helpers.failing import clip_exception, quotient
from tests.helpers.models import case_of as case
from tests.helpers.models import model_of, write
from triage.campaigns.testers import judgement

F = np.float32
ONE, TWO = np.ones(1, F), np.ones(2, F)


def without_output_types(original: Case) -> Case:
    model = onnx.load_model_from_string(original.program)
    names = [value.name for value in model.graph.output]
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return Case("onnx", model.SerializeToString(), original.inputs)


RELU_CLIP = case(
    "g (double[3] x) => (double[3] y) <double low = {0.0}, double high = {6.0}>"
    " { r = Relu(x) y = Clip(r, low, high) }",
    x=np.array([-1.0, 2.0, 9.0]),
)


@pytest.mark.parametrize(("rows", "outcome"), [(4, Outcome.INVALID), (2, Outcome.PASS)])
def test_inputs_that_give_one_dim_two_sizes_are_whom_to_ask(judge, rows, outcome):
    graph = "g (float[N,3] x, float[N,3] z) => (float[N,3] y) { y = Add(x, z) }"
    verdict = judge.verdict(case(graph, x=np.ones((2, 3), F), z=np.ones((rows, 3), F)))
    assert verdict.outcome is outcome
    assert ("dim 'N' is 2 in 'x' and 4 in 'z'" in verdict.title) == (outcome is Outcome.INVALID)


def test_an_optimiser_that_throws_is_an_exception_with_its_site(judge):
    verdict = judge.verdict(RELU_CLIP)
    assert (verdict.outcome, verdict.phase) == (Outcome.EXCEPTION, Phase.OPTIMISE)
    assert verdict.symptom.site == "relu_clip_fusion.cc FuseReluClip::Apply"
    assert verdict.symptom.side == "optimised"
    assert [run.is_ok for run in verdict.runs] == [True, False]


def test_missing_output_types_are_mended_and_change_no_symptom(judge):
    typed, untyped = judge.verdict(RELU_CLIP), judge.verdict(without_output_types(RELU_CLIP))
    assert untyped.symptom == typed.symptom
    assert any("typed by inference" in note for note in untyped.notes)


REFUSED = {
    "division by zero": (
        case(
            "g (int64[1] x, int64[1] z) => (int64[1] y) { y = Div(x, z) }",
            x=np.ones(1, int),
            z=np.zeros(1, int),
        ),
        Outcome.INVALID,
    ),
    "shapes": (
        case(
            "g (float[2,3] x, float[4,5] z) => (float[2,5] y) { y = MatMul(x, z) }",
            x=np.ones((2, 3), F),
            z=np.ones((4, 5), F),
        ),
        Outcome.INVALID,
    ),
    "what numpy alone broadcasts": (
        case("g (float[1] x, float[2] s) => (float[1] y) { y = LayerNormalization(x, s) }", x=ONE, s=TWO),
        Outcome.INVALID,
    ),
    "type": (case("g (int8[2] x) => (int8[2] y) { y = Sin(x) }", x=np.ones(2, np.int8)), Outcome.INVALID),
    "cycle": (case("g (float[2] x) => (float[2] y) { y = Relu(z) z = Relu(y) }", x=TWO), Outcome.INVALID),
    "no kernel": (
        case("g (double[2] x) => (double[2] y) { y = Atan(x) }", x=np.ones(2)),
        Outcome.UNSUPPORTED,
    ),
}


@pytest.mark.parametrize(("refused", "outcome"), REFUSED.values(), ids=REFUSED)
def test_a_rightful_refusal_is_no_bug(judge, refused, outcome):
    verdict = judge.verdict(refused)
    assert verdict.outcome is outcome
    assert verdict.symptom is not None


@pytest.mark.parametrize(
    ("body", "out", "is_bug"), [("Identity(a)", "uint4", False), ("Cast<to = 1>(a)", "float", True)]
)
def test_a_function_that_is_refused_shows_a_bug_only_if_its_body_runs(judge, body, out, is_bug):
    """A function that calls another one knows no uint4; whether that matters hangs on the operators in it."""
    text = (
        '<ir_version: 10, opset_import: ["" : 21, "own" : 1]>'
        f"g (uint4[2] x) => ({out}[2] y) {{ y = own.outer(x) }}"
        f'<domain: "own", opset_import: ["" : 21]> inner (a) => (b) {{ b = {body} }}'
        '<domain: "own", opset_import: ["" : 21, "own" : 1]> outer (a) => (b) { b = own.inner(a) }'
    )
    model = onnx.parser.parse_model(text)
    found = judge.verdict(Case("onnx", model.SerializeToString(), {"x": np.ones(2, ml_dtypes.uint4)}))
    assert found.is_bug == is_bug, found.title


def test_accept_invalid_goes_on():
    model = case("g (int8[2] x) => (int8[2] y) { y = Sin(x) }", x=np.ones(2, np.int8))
    with Judge(Target("ort"), accept_invalid=True) as judge:
        assert "checker" not in judge.verdict(model).title


def test_a_model_without_outputs_shows_nothing(judge):
    model = model_of("g (float[2] x) => (float[2] y) { y = Relu (x) }")
    del model.graph.output[:]
    assert judge.verdict(Case("onnx", model.SerializeToString(), {"x": TWO})).outcome is Outcome.PASS


# Loading alone: what loads at every level passes, what does not is a bug, and nothing is executed

REFUSES_TO_RUN = "g (float[2] x) => (float[n] y) <int64[1] s = {3}> { y = Reshape(x, s) }"


def test_what_loads_passes_even_if_no_input_runs(tmp_path, judge):
    path = write(tmp_path, model_of(REFUSES_TO_RUN))
    verdict = judge.verdict(open_case(path, load_only=True))
    assert verdict.outcome is Outcome.PASS
    assert not verdict.runs[0].outputs
    assert judge.verdict(open_case(path)).outcome is not Outcome.PASS


def test_a_level_that_does_not_load_is_a_bug_and_the_setting_is_part_of_the_case(judge, tmp_path):
    case = clip_exception().for_loading()
    verdict = judge.verdict(case)
    if verdict.outcome is Outcome.PASS:
        pytest.skip("the installed onnxruntime does not show the bug while it loads")
    assert verdict.outcome is Outcome.EXCEPTION
    assert verdict.phase is not Phase.EXECUTE
    assert case.case_id != clip_exception().case_id
    case.save(tmp_path / "saved")
    assert Case.load(tmp_path / "saved").loads_only


def test_a_model_without_inputs_to_be_had_is_loaded(tmp_path):
    model = model_of("g (float[n] x) => (float[n] y) { y = Relu(x) }")
    model.graph.input[0].type.CopyFrom(
        onnx.helper.make_sparse_tensor_type_proto(onnx.TensorProto.FLOAT, ["n"])
    )
    onnx.save(model, tmp_path / "model.onnx")
    assert crux(tmp_path, "check", "model.onnx").returncode == 2
    done = crux(tmp_path, "check", "model.onnx", "--load-only", "--json")
    assert json.loads(done.stdout)["outcome"] in ("pass", "invalid", "unsupported"), done.stderr
    opened = open_case(tmp_path / "model.onnx", load_only=True)
    opened.save(tmp_path / "saved")
    assert Case.load(tmp_path / "saved").inputs == {}


# Many programs in one process

WAYS = (Config("plain", (("passes", ()),)), Config("default"))


class Noting(Executor):
    """An executor that notes how many programs each job has.

    With `silent` the process of a job that holds a program with that pass dies, at none of its programs or,
    as the memory that it leaves says, at `program`.
    """

    def __init__(self, silent: str = "", program: int = 0) -> None:
        super().__init__(Target("tvm"), format="tir", limits=Limits())
        self.sizes: list[int] = []
        self.silent, self.program = silent, program

    def run(self, job: Job, *, fresh: bool = False) -> tuple[Run, ...]:
        batch = json.loads(job.program)["batch"]
        self.sizes.append(len(batch))
        if not self.silent:
            return super().run(job, fresh=fresh)
        (config,) = job.configs
        if any(self.silent in each["passes"] for each in batch):
            return (Run(config, Status.CRASH, Phase.CODEGEN, program=self.program),)
        told = np.array([json.dumps([{}] * len(batch))], dtype=object)
        return (Run(config, Status.OK, Phase.EXECUTE, {REPORT: told}),)


@pytest.mark.parametrize(("at", "sizes"), [(5, [8, 5, 2, 7]), (0, [8, 7, 7]), (7, [8, 7, 7])])
def test_a_program_that_ends_the_process_is_known_at_once_and_the_rest_goes_on(at, sizes):
    cases = [quotient(1 + each) for each in range(8)]
    cases[at] = quotient(0)
    executor = Noting()
    try:
        looks = screen(executor, cases, WAYS)
    finally:
        executor.close()
    assert executor.sizes == sizes
    for number, look in enumerate(looks):
        assert (look is None) == (number == at)
        if look is not None:
            assert [int(run.outputs["C"][0]) for run in look.runs] == [7 // (1 + number)] * 2


@pytest.mark.parametrize("program", [0, 9, 2**32 - 1])
def test_where_the_process_dies_at_none_of_them_halves_find_it(program):
    cases = [quotient(1).with_passes(("DiesInLlvm",) if number == 6 else ()) for number in range(8)]
    executor = Noting("DiesInLlvm", program)
    try:
        looks = screen(executor, cases, WAYS)
    finally:
        executor.close()
    assert [number for number, look in enumerate(looks) if look is None] == [6]
    assert executor.sizes == [8, 4, 4, 2, 2, 1, 1, 7]


@pytest.mark.parametrize(("thorough", "outcome", "asked"), [(False, "undecided", 1), (True, "timeout", 2)])
def test_a_suspected_hang_gets_more_time_in_thorough_tests_alone(thorough, outcome, asked, monkeypatch):
    """A program that TVM compiled for two minutes, to no failure, took a quarter of a hunt."""
    program = model_of("g (float[2] x) => (float[2] y) { y = Relu(x) }").SerializeToString()
    relu = Case("onnx", program, {"x": np.ones(2, np.float32)}, Target("ort"))
    jobs: list[Job] = []

    def hanging(job: Job, *, fresh: bool = False) -> tuple[Run, ...]:
        jobs.append(job)
        ended = [Run(job.configs[0], Status.OK, Phase.EXECUTE, {"y": np.ones(2, np.float32)})]
        return (
            *ended,
            *(Run(each, Status.TIMEOUT, Phase.CODEGEN, cpu_seconds=90) for each in job.configs[1:]),
        )

    with Judge(Target("ort")) as judge:
        monkeypatch.setattr(judge.executor, "run", hanging)
        assert judgement(judge)(relu, thorough).outcome.value == outcome
    assert len(jobs) == asked
