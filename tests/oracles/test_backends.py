"""The backends: their configs, how they place a failure, and what they read in messages."""

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from corpus.case import Case, ExternalFile
from corpus.errors import UserError
from corpus.load import FOLDER, load_regression
from corpus.target import Target
from corpus.values import Value
from oracles.backends import backends, find_backend, ort
from oracles.judge import Judge
from oracles.sandbox.executor import with_sequence
from oracles.sandbox.sandbox import Job, Sandbox
from oracles.verdict import Config, Limits, Outcome, Phase, Run, Status
from oracles.worker.ort import ATTRIBUTES, ENTRIES, OPTIONS, apply
from reducer.api import reduce_case
from reducer.course import Options
from tests.helpers.commands import completed
from tests.helpers.models import aten_case, model_of
from triage.projects import ClaimedRun, project_of

LIMITS = Limits(cpu_seconds=5, wall_seconds=20, memory_bytes=1 << 30)
CONFIGS = find_backend("ort").configs(Target("ort"))


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox("ort", limits=LIMITS) as found:
        yield found


@pytest.fixture(scope="module")
def reference() -> Iterator[Sandbox]:
    with Sandbox("reference", limits=LIMITS) as found:
        yield found


def tensor(name: str, kind: int, shape: list[int | str] | None = None) -> onnx.ValueInfoProto:
    info: onnx.ValueInfoProto = helper.make_tensor_value_info(name, kind, shape)
    return info


def program(
    nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto], *outputs: str, **options: Any
) -> bytes:
    """A model whose outputs have no type, unless they are among the inputs."""
    opset = options.pop("opset", 23)
    ends = [onnx.ValueInfoProto(name=name) for name in outputs or ("y",)]
    graph = helper.make_graph(nodes, "g", inputs, ends, **options)
    model: onnx.ModelProto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=min(11, 8 if opset < 19 else 11)
    )
    return model.SerializeToString()


def node(operator: str, *inputs: str, to: str = "y", **attributes: Any) -> onnx.NodeProto:
    made: onnx.NodeProto = helper.make_node(operator, inputs, [to], **attributes)
    return made


def run_all(
    sandbox: Sandbox, model: bytes, inputs: Mapping[str, Value], configs: tuple[Config, ...] = CONFIGS
) -> tuple[Run, ...]:
    return sandbox.run(Job(model, inputs, configs))


# Finding and configuring


def test_every_file_is_a_backend_with_configs_of_its_own():
    folder = Path(ort.__file__).parent
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}

    assert len(backends()) == len(files)
    for name, backend in backends().items():
        configs = backend.configs(Target(name))
        assert len({config.label for config in configs}) == len(configs) >= 1
        assert backend.classify(Run(configs[0], Status.OK, Phase.EXECUTE)) == ""


def test_an_unknown_backend_is_the_users_mistake():
    with pytest.raises(UserError, match="ort"):
        find_backend("ortt")


@pytest.mark.parametrize(
    ("target", "labels"),
    [
        ("ort", ["none", "all", "basic", "extended"]),
        ("ort@opt=extended", ["none", "extended", "basic"]),
        ("ort@opt=basic", ["none", "basic"]),
    ],
)
def test_the_baseline_comes_first_then_the_target_then_lower_levels(target, labels):
    configs = find_backend("ort").configs(Target.parse(target))

    assert [config.label for config in configs] == labels
    assert {config.get("threads") for config in configs} == {1}


def test_the_targets_settings_reach_every_config():
    target = Target.parse("ort:cuda@threads=4@disabled_optimizers=A,B")
    cpu, *others = find_backend("ort").configs(target)
    assert cpu.get("providers") == ("CPUExecutionProvider",)
    for config in (cpu, *others):
        assert config.get("threads") == 4
        assert config.get("disabled_optimizers") == ("A", "B")
    for config in others:
        assert config.get("providers") == ("CUDAExecutionProvider", "CPUExecutionProvider")


@pytest.mark.parametrize("target", ["ort@opt=most", "ort@threads=many"])
def test_a_wrong_setting_is_the_users_mistake(target):
    with pytest.raises(UserError, match=target):
        find_backend("ort").configs(Target.parse(target))


# Values through onnxruntime

TYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
    *("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
]


@pytest.mark.parametrize("shape", [(), (0, 2), (3,)], ids=str)
@pytest.mark.parametrize("name", TYPES)
def test_identity_of_every_type(sandbox, name, shape):
    value = np.ones(shape).astype(np.dtype(getattr(ml_dtypes, name, name)))
    model = program([node("Identity", "x")], [tensor("x", helper.np_dtype_to_tensor_dtype(value.dtype))])
    for run in run_all(sandbox, model, {"x": value}):
        found = run.outputs["y"]

        assert isinstance(found, np.ndarray)
        assert (found.dtype, found.shape, found.tobytes()) == (value.dtype, value.shape, value.tobytes())


@pytest.mark.parametrize("count", [0, 1, 2, 5, 1040])
@pytest.mark.parametrize(("name", "kind"), [("int4", TensorProto.INT4), ("uint4", TensorProto.UINT4)])
def test_packed_types_go_in_and_come_out(sandbox, name, kind, count):
    dtype = np.dtype(getattr(ml_dtypes, name))
    values = np.arange(count) % 7 - (2 if name == "int4" else 0)
    cast = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)
    back = helper.make_node("Cast", ["x"], ["y"], to=kind)
    (into,) = run_all(sandbox, program([cast], [tensor("x", kind)]), {"x": values.astype(dtype)}, CONFIGS[:1])
    (out,) = run_all(
        sandbox,
        program([back], [tensor("x", TensorProto.FLOAT)]),
        {"x": values.astype(np.float32)},
        CONFIGS[:1],
    )

    assert np.asarray(into.outputs["y"]).tolist() == values.tolist()
    assert np.asarray(out.outputs["y"]).tolist() == values.tolist()
    assert np.asarray(out.outputs["y"]).dtype == dtype


def test_strings_sequences_optionals_and_odd_types_side_by_side(sandbox):
    optional = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    inputs = [
        tensor("text", TensorProto.STRING),
        tensor("odd", TensorProto.BFLOAT16),
        helper.make_tensor_sequence_value_info("several", TensorProto.FLOAT, None),
        helper.make_value_info("absent", optional),
    ]
    nodes = [node("Identity", value.name, to=f"{value.name}_out") for value in inputs]
    values: dict[str, Value] = {
        "text": np.array([["ü", ""]]),
        "odd": np.array([1.5], ml_dtypes.bfloat16),
        "several": [np.ones(2, np.float32), np.zeros((0, 1), np.float32)],
        "absent": None,
    }
    for run in run_all(sandbox, program(nodes, inputs, *(f"{name}_out" for name in values)), values):
        assert run.is_ok, run.trace
        for name, value in values.items():
            assert repr(run.outputs[f"{name}_out"]) == repr(value)


@pytest.mark.parametrize("items", [0, 2])
def test_sequences_go_in_and_come_out(sandbox, items):
    inputs = [
        helper.make_tensor_sequence_value_info("s", TensorProto.INT64, None),
        tensor("x", TensorProto.INT64),
    ]
    model = program([node("SequenceInsert", "s", "x")], inputs)
    value = np.array([7])
    for run in run_all(sandbox, model, {"s": [value] * items, "x": value}):
        assert repr(run.outputs["y"]) == repr([value] * (items + 1))


def test_only_the_outputs_asked_for_come_back(sandbox):
    nodes = [node("Neg", "x", to="a"), node("Abs", "x", to="b")]
    model = program(nodes, [tensor("x", TensorProto.FLOAT)], "a", "b")
    job = Job(model, {"x": np.ones(1, np.float32)}, CONFIGS[:1], outputs=("b",))

    assert list(sandbox.run(job)[0].outputs) == ["b"]


@pytest.mark.parametrize("can_link", [True, False])
def test_external_data_is_read_from_the_models_folder(sandbox, reference, tmp_path, monkeypatch, can_link):
    if not can_link:
        monkeypatch.setattr(os, "link", refuse)
    weights = np.arange(300, dtype=np.float32)
    constant = helper.make_tensor("w", TensorProto.FLOAT, [300], weights.tobytes(), raw=True)
    model = onnx.load_model_from_string(
        program([node("Add", "x", "w")], [tensor("x", TensorProto.FLOAT)], initializer=[constant])
    )
    (tmp_path / "deep").mkdir()
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="deep/w.bin", size_threshold=0)
    path = tmp_path / "deep" / "w.bin"
    external = (ExternalFile("deep/w.bin", path, path.stat().st_size),)
    job = Job((tmp_path / "m.onnx").read_bytes(), {"x": np.ones(1, np.float32)}, CONFIGS, external=external)

    for run in sandbox.run(job) + reference.run(job):
        assert run.is_ok, run.trace
        assert np.array_equal(np.asarray(run.outputs["y"]), weights + 1)


def refuse(*arguments: object) -> None:
    raise OSError("links are not possible here")


# Phases and logs


def test_what_cannot_be_loaded_fails_in_the_import(sandbox):
    assert {run.phase for run in run_all(sandbox, b"no model", {})} == {Phase.IMPORT}
    model = program([node("NoSuchOperator", "x")], [tensor("x", TensorProto.FLOAT)])
    assert {run.phase for run in run_all(sandbox, model, {})} == {Phase.IMPORT}


def test_what_only_the_optimiser_refuses_fails_while_optimising(sandbox):
    nodes = [node("Relu", "x", to="r"), node("Clip", "r", "low", "high")]
    bounds = [
        helper.make_tensor(name, TensorProto.DOUBLE, [], [float(name == "high")]) for name in ("low", "high")
    ]
    model = program(nodes, [tensor("x", TensorProto.DOUBLE, [2])], initializer=bounds, opset=18)
    plain, optimised, *_ = run_all(sandbox, model, {"x": np.ones(2)})
    if optimised.is_ok:
        pytest.skip("this release fuses Relu and Clip of doubles")

    assert (plain.is_ok, optimised.phase) == (True, Phase.OPTIMISE)
    without = Config("without", (("level", "all"), ("disabled_optimizers", ("FuseReluClip",))))
    assert run_all(sandbox, model, {"x": np.ones(2)}, (without,))[0].is_ok


def test_the_log_names_the_optimisers_that_ran(sandbox):
    model = program([node("Identity", "x", to="i"), node("Neg", "i")], [tensor("x", TensorProto.FLOAT)])
    job = Job(model, {"x": np.ones(1, np.float32)}, CONFIGS[:2], collect_log=True)
    plain, optimised = sandbox.run(job)
    quiet = run_all(sandbox, model, job.inputs)

    assert any("modified: 1" in line for line in optimised.log)
    assert not any("modified: 1" in line for line in plain.log)
    assert not any(run.log for run in quiet)


def test_the_tables_name_kernels_and_their_types(sandbox):
    rows = [row for row in sandbox.ask("tables") if row[1] == "Relu" and row[0] == ""]

    assert any("tensor(float)" in types for *_, parameters in rows for types in parameters.values())


# Messages


def test_an_operator_without_a_kernel_is_unsupported(sandbox):
    model = program([node("Sinh", "x")], [tensor("x", TensorProto.DOUBLE)], opset=18)
    run = run_all(sandbox, model, {"x": np.ones(1)})[0]
    if run.is_ok:
        pytest.skip("this release has a kernel for Sinh of doubles")

    assert ort.classify(run) == "unsupported"


def test_a_provider_that_is_not_there_is_unavailable(sandbox):
    configs = find_backend("ort").configs(Target("ort", "NoSuch"))
    model = program([node("Neg", "x")], [tensor("x", TensorProto.FLOAT)])

    assert {ort.classify(run) for run in run_all(sandbox, model, {}, configs)} == {"unavailable"}


@pytest.mark.parametrize(
    ("nodes", "inputs"),
    [
        ([node("Div", "x", "z")], {"x": np.array([1]), "z": np.array([0])}),
        ([node("Mod", "x", "z")], {"x": np.array([1]), "z": np.array([0])}),
        ([node("Gather", "x", "z")], {"x": np.array([1]), "z": np.array([5])}),
        ([node("GatherElements", "x", "z")], {"x": np.array([1]), "z": np.array([5])}),
        ([node("GatherND", "x", "z")], {"x": np.array([1]), "z": np.array([5])}),
        ([node("ScatterElements", "x", "z", "x")], {"x": np.array([1]), "z": np.array([5])}),
        ([node("Add", "x", "z")], {"x": np.array([1]), "z": np.array([1], np.int32)}),
        ([node("Add", "x", "z")], {"x": np.array([1]), "z": np.array([1]), "more": np.array([1])}),
    ],
    ids=["Div", "Mod", "Gather", "GatherElements", "GatherND", "ScatterElements", "type", "name"],
)
def test_a_refusal_of_the_data_is_no_bug(sandbox, nodes, inputs):
    model = program(nodes, [tensor("x", TensorProto.INT64), tensor("z", TensorProto.INT64)])
    for run in run_all(sandbox, model, inputs):
        assert (run.status, ort.classify(run)) == (Status.EXCEPTION, "invalid-input"), run.message


def test_more_memory_than_there_is_is_out_of_memory(sandbox):
    model = program([node("ConstantOfShape", "x")], [tensor("x", TensorProto.INT64, [1])])
    for run in run_all(sandbox, model, {"x": np.array([1 << 33])}):
        assert (run.status, ort.classify(run)) == (Status.OUT_OF_MEMORY, "out-of-memory"), run.message


# The reference


def test_the_reference_evaluates(reference):
    configs = find_backend("reference").configs(Target("reference"))
    model = program([node("Add", "x", "x")], [tensor("x", TensorProto.BFLOAT16)])
    (run,) = run_all(reference, model, {"x": np.array([1, 2], ml_dtypes.bfloat16)}, configs)

    assert repr(run.outputs["y"]) == repr(np.array([2, 4], ml_dtypes.bfloat16))


def test_the_reference_says_what_it_lacks(reference):
    backend = find_backend("reference")
    inputs = [tensor("x", TensorProto.FLOAT)]
    nodes = [helper.make_node("FusedGemm", ["x"], ["y"], domain="com.microsoft")]
    graph = helper.make_graph(nodes, "g", inputs, [onnx.ValueInfoProto(name="y")])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    (run,) = run_all(reference, model, {"x": np.ones(1, np.float32)}, backend.configs(Target("reference")))

    assert backend.classify(run) == "unsupported", run.trace


# The worker under other interpreters: older releases of onnxruntime, numpy 1 and 2, nothing else there


CACHE = Path(tempfile.gettempdir()) / "crux-test-environments"
RELEASES = [("1.17.3", "numpy<2"), ("1.20.1", "numpy>=2")]
OLD_CONFIGS = find_backend("ort").configs(Target("ort"))[:2]


def environment(release: str, numpy: str) -> Path:
    """The interpreter of an environment with these two packages only, made once."""
    folder = CACHE / f"onnxruntime-{release}-{sys.version_info.major}.{sys.version_info.minor}"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        commands = [
            [sys.executable, "-m", "venv", "--clear", str(folder)],
            [str(python), "-m", "pip", "install", "-q", f"onnxruntime=={release}", numpy],
        ]
        for command in commands:
            done = completed(command)
            if done.returncode:
                pytest.skip(f"onnxruntime {release} cannot be had: {done.stderr.strip()[-200:]}")
        (folder / "complete").touch()
    return python


MARKS = (pytest.mark.slow, pytest.mark.timeout(600))


@pytest.fixture(scope="module", params=[pytest.param(row, id=row[0], marks=MARKS) for row in RELEASES])
def old(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    with Sandbox("ort", python=str(environment(*request.param)), limits=LIMITS) as sandbox:
        assert sandbox.facts["version"] == request.param[0]
        assert (sandbox.facts["numpy"] < "2") == (request.param[1] == "numpy<2")
        yield sandbox


def model(operator: str, kind: int, arity: int, opset: int = 18) -> bytes:
    names = ["x", "z"][:arity]
    ends = [helper.make_tensor_value_info(name, kind, ["n"]) for name in names]
    node = helper.make_node(operator, names, ["y"])
    graph = helper.make_graph([node], "g", ends, [onnx.ValueInfoProto(name="y")])
    version = helper.make_opsetid("", opset)
    proto: onnx.ModelProto = helper.make_model(graph, opset_imports=[version], ir_version=9)
    return proto.SerializeToString()


@pytest.mark.parametrize("name", ["float32", "int64", "bool", "float16", "bfloat16", "float8_e4m3fn"])
def test_an_old_release_takes_and_gives_every_type(old, name):
    value = np.ones(3).astype(np.dtype(getattr(ml_dtypes, name, name)))
    program = model("Identity", helper.np_dtype_to_tensor_dtype(value.dtype), 1, opset=19)
    for run in old.run(Job(program, {"x": value}, OLD_CONFIGS)):
        found = run.outputs["y"]

        assert isinstance(found, np.ndarray)
        assert (found.dtype, found.tobytes()) == (value.dtype, value.tobytes())


def test_an_old_release_takes_and_gives_strings(old):
    runs = old.run(Job(model("Identity", TensorProto.STRING, 1), {"x": np.array(["ü", ""])}, OLD_CONFIGS))

    assert [np.asarray(run.outputs["y"]).tolist() for run in runs] == [["ü", ""]] * 2


def test_an_old_release_crashes_in_its_own_process(old):
    inputs = {"x": np.array([-(2**63)]), "z": np.array([-1])}
    runs = old.run(Job(model("Mod", TensorProto.INT64, 2), inputs, OLD_CONFIGS))

    assert [(run.status, run.signal) for run in runs] == [(Status.CRASH, 8)] * 2
    assert all("onnxruntime" in run.frames[0].library for run in runs)


def test_an_old_release_has_tables(old):
    assert any(row[:3] == ["", "Relu", "CPUExecutionProvider"] for row in old.ask("tables"))


# Options of sessions


def case_of(*options: str) -> Case:
    weights = np.linspace(-1, 1, 20, dtype="float32").reshape(4, 5)
    model = model_of("g (float[N,4] x) => (float[N,5] y) { t = MatMul(x, w) y = Relu(t) }", w=weights)
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
