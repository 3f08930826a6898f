"""Options of a session and of inductor as a part of a case: set, dropped where not needed, in the script."""

from dataclasses import replace

import numpy as np
import onnx
import pytest

from corpus.case import Case
from corpus.errors import UserError
from corpus.load import FOLDER, load_regression
from corpus.target import Target
from oracles.judge import Judge
from oracles.sandbox.executor import with_sequence
from oracles.verdict import Config, Outcome
from oracles.worker.ort import ATTRIBUTES, ENTRIES, OPTIONS, apply
from reducer.api import reduce_case
from reducer.course import Options
from tests.helpers.models import aten_case
from triage.projects import ClaimedRun, project_of

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N, 4] x) => (float[N, 5] y) <float[4, 5] w> { t = MatMul(x, w) y = Relu(t) }"""


def case_of(*options: str) -> Case:
    model = onnx.parser.parse_model(TEXT)
    weights = np.linspace(-1, 1, 20, dtype="float32").reshape(4, 5)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    inputs = {"x": np.ones((2, 4), "float32")}
    return Case("onnx", model.SerializeToString(), inputs, Target("ort")).with_passes(options)


def regression(name: str) -> Case:
    return replace(load_regression(FOLDER / name).case, target=Target("ort"))


def test_a_program_gives_the_same_under_every_option_of_a_session(judge):
    for name, values in OPTIONS.items():
        for value in values:
            assert judge.verdict(case_of(f"{name}={value}")).outcome is Outcome.PASS, name


def test_an_option_reaches_the_session(judge):
    case = regression("double-qdq-remover")
    assert judge.verdict(case).is_bug
    assert not judge.verdict(case.with_passes(("session.disable_double_qdq_remover=1",))).is_bug


def test_reducing_drops_options_that_a_failure_does_not_take(tmp_path):
    case = regression("matmul-transpose-rank-1").with_passes(
        ("execution_mode=parallel", "session.disable_prepacking=1")
    )
    done = reduce_case(case, tmp_path / "least", Options(target=Target("ort")))
    assert done.case.passes == ()


def test_an_option_that_there_is_not_is_the_users_mistake():
    with pytest.raises(UserError, match=r"there is no option session.disable_prepacking=7"):
        with_sequence(replace(case_of(), target=Target.parse("ort@passes=session.disable_prepacking=7")))


def test_the_script_of_a_report_sets_the_same_options():
    import onnxruntime as ort

    members = tuple(f"{name}={values[-1]}" for name, values in OPTIONS.items())
    plain, failing = Config("none", (("level", "none"), ("passes", ()))), Config("all", (("level", "all"),))
    runner = project_of("ort").runner("ort", "onnx")
    found = runner.settings(ClaimedRun(failing, {"none": plain, "all": failing}, members))
    options, expected = ort.SessionOptions(), ort.SessionOptions()
    for line in found["options"]:
        exec(line, {"options": options, "ort": ort})
    apply(expected, ort.capi.onnxruntime_pybind11_state, members)
    names = [name for name in ATTRIBUTES if name != "free_dims"]
    assert [getattr(options, name) for name in names] == [getattr(expected, name) for name in names]
    assert all(options.get_session_config_entry(name) == values[-1] for name, values in ENTRIES.items())
    assert found["without_options"] == ["none"]
    assert found["fixes_dims"]


@pytest.mark.slow
def test_inductor_compiles_by_the_switches_of_a_case():
    pytest.importorskip("torch", reason="torch is not installed")
    members = ("config.cpp.simdlen=1", "config.pattern_matcher=0", "decompositions=core_aten")
    case = replace(case_of(*members), target=Target("inductor"))
    with Judge(Target("inductor"), lower_levels=False) as judge:
        assert judge.verdict(case).outcome is Outcome.PASS


def test_no_two_decompositions_undo_each_other(inductor_judge):
    """Inductor takes a clamp apart into the two that the core decompositions make a clamp of again."""
    inputs = {"x": np.float32([-1, 0, 1, 2])}
    case = aten_case("(float[4] x) => (float[4] y) { y = aten.clamp_min<min = -0.5>(x) }", inputs)
    assert inductor_judge.verdict(case.with_passes(("decompositions=core_aten",))).outcome is Outcome.PASS
