"""Loading alone: what loads at every level passes, what does not is a bug, and nothing is executed."""

import json

import onnx
import pytest

from corpus.case import Case
from corpus.load import open_case
from corpus.target import Target
from oracles.judge import Judge
from oracles.verdict import Outcome, Phase
from tests.helpers.commands import crux
from tests.helpers.failing import clip_exception

REFUSES_TO_RUN = "g (float[2] x) => (float[n] y) <int64[1] s = {3}> { y = Reshape(x, s) }"
NO_INPUT = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[n] x) => (float[n] y) { y = Relu(x) }"""


def parsed(graph: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {graph}')


def write(path, graph: str):
    onnx.save(parsed(graph), path)
    return path


@pytest.mark.parametrize("target", ["ort", "reference"])
def test_what_loads_passes_even_if_no_input_runs(tmp_path, target):
    path = write(tmp_path / "model.onnx", REFUSES_TO_RUN)
    case = open_case(path, load_only=True)
    with Judge(Target(target)) as judge:
        verdict = judge.verdict(case)
        assert verdict.outcome is Outcome.PASS
        assert not verdict.runs[0].outputs
        assert judge.verdict(open_case(path)).outcome is not Outcome.PASS


def test_a_level_that_does_not_load_is_a_bug_and_the_setting_is_part_of_the_case(tmp_path):
    case = clip_exception().for_loading()
    with Judge(Target("ort")) as judge:
        verdict = judge.verdict(case)
    if verdict.outcome is Outcome.PASS:
        pytest.skip("the installed onnxruntime does not show the bug while it loads")
    assert verdict.outcome is Outcome.EXCEPTION
    assert verdict.phase is not Phase.EXECUTE
    assert case.case_id != clip_exception().case_id
    case.save(tmp_path / "saved")
    assert Case.load(tmp_path / "saved").loads_only


def test_a_model_without_inputs_to_be_had_is_loaded(tmp_path):
    model = onnx.parser.parse_model(NO_INPUT)
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
