"""The backends: their configs, how they place a failure, and what they read in messages."""

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

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
from oracles.sandbox.executor import configs_of, with_sequence
from oracles.sandbox.processes import crash_handler
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


def text(graph: str, opset: int = 23) -> bytes:
    return model_of(f"g {graph}", opset, min(11, opset - 10)).SerializeToString()


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


TVM = ["default -O3 bytecode", "zero -O0 compiled", "target -O3 bytecode", "default -O0 compiled"]
LABELS = {
    "ort": ["none", "all", "basic", "extended"],
    "ort@opt=extended": ["none", "extended", "basic"],
    "iree": ["ort none", "llvm-cpu O3", "llvm-cpu O0"],
    "iree@opt=O1": ["ort none", "llvm-cpu O1"],
    "iree@code=vmvx": ["ort none", "vmvx O3"],
    "openvino": ["ort none", "compiled"],
    "openvino@hint=default": ["ort none", "default"],
    "xla": ["ort none", "O3", "O0"],
    "xla@opt=1": ["ort none", "O1"],
    "tvm": ["ort none", *TVM],
    "tvm@opt-level=0": ["ort none", "default -O0 bytecode"],
    "tvm@pipeline=zero@executor=compiled": ["ort none", "zero -O3 compiled"],
    "inductor": ["eager", "inductor", "aot_eager_decomp_partition", "aot_eager"],
    "torch-onnx": ["eager", "dynamo", "torchscript"],
    "torch-onnx@exporter=dynamo": ["eager", "dynamo"],
}


@pytest.mark.parametrize("target", LABELS)
def test_the_baseline_comes_first_then_the_target_then_other_ways_unless_one_is_asked_for(target):
    assert [config.label for config in configs_of(Target.parse(target), "onnx")] == LABELS[target]


def test_the_targets_settings_reach_every_config():
    target = Target.parse("ort:cuda@threads=4@disabled_optimizers=A,B")
    cpu, *others = find_backend("ort").configs(target)
    assert cpu.get("providers") == ("CPUExecutionProvider",)
    for config in (cpu, *others):
        assert config.get("threads") == 4
        assert config.get("disabled_optimizers") == ("A", "B")
    for config in others:
        assert config.get("providers") == ("CUDAExecutionProvider", "CPUExecutionProvider")


MISTAKES = (
    "ort@opt=most ort@threads=many iree@opt=O4 openvino@hint=f64 xla@opt=4 iree:cuda openvino:cuda xla:cuda"
    " torch:tpu inductor:tpu inductor@backend=best torch-onnx@exporter=none"
    " tvm@opt-level=9 tvm@pipeline=best tvm@executor=graph tvm:tpu"
)


@pytest.mark.parametrize("text", MISTAKES.split())
def test_another_way_and_another_device_are_the_users_mistake(text):
    with pytest.raises(UserError, match=f"target {text}"):
        configs_of(Target.parse(text), "onnx")


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
    info = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(value.dtype), None)
    node = helper.make_node("Identity", ["x"], ["y"])
    graph = helper.make_graph([node], "g", [info], [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    for run in run_all(sandbox, model.SerializeToString(), {"x": value}):
        found = run.outputs["y"]

        assert (found.dtype, found.shape, found.tobytes()) == (value.dtype, value.shape, value.tobytes())


@pytest.mark.parametrize("count", [0, 1, 2, 1040])
@pytest.mark.parametrize("name", ["int4", "uint4"])
def test_packed_types_go_in_and_come_out(sandbox, name, count):
    short = (np.arange(count) % 7 - (2 if name == "int4" else 0)).astype(getattr(ml_dtypes, name))
    given = {"x": short, "z": short.astype(np.float32)}
    model = text(
        f"({name}[n] x, float[n] z) => (float[n] y, {name}[n] w)"
        f" {{ y = Cast<to = 1>(x) w = Cast<to = {TensorProto.DataType.Value(name.upper())}>(z) }}"
    )
    outputs = run_all(sandbox, model, given, CONFIGS[:1])[0].outputs
    assert outputs["y"].tolist() == given["z"].tolist()
    assert (outputs["w"].dtype, outputs["w"].tolist()) == (short.dtype, short.tolist())


def test_strings_sequences_optionals_and_odd_types_side_by_side(sandbox):
    values: dict[str, Value] = {
        "text": np.array([["ü", ""]]),
        "odd": np.array([1.5], ml_dtypes.bfloat16),
        "several": [np.ones(2, np.float32), np.zeros((0, 1), np.float32)],
        "absent": None,
    }
    types = "string[1,2] text, bfloat16[1] odd, seq(float[]) several, optional(float[]) absent"
    nodes = " ".join(f"{name}_out = Identity({name})" for name in values)
    model = text(f"({types}) => ({', '.join(f'{name}_out' for name in values)}) {{ {nodes} }}")
    for run in run_all(sandbox, model, values):
        assert run.is_ok, run.trace
        for name, value in values.items():
            assert repr(run.outputs[f"{name}_out"]) == repr(value)


def test_only_the_outputs_asked_for_come_back(sandbox):
    model = text("(float[1] x) => (float[1] a, float[1] b) { a = Neg(x) b = Abs(x) }")
    job = Job(model, {"x": np.ones(1, np.float32)}, CONFIGS[:1], outputs=("b",))

    assert list(sandbox.run(job)[0].outputs) == ["b"]


@pytest.mark.parametrize("can_link", [True, False])
def test_external_data_is_read_from_the_models_folder(sandbox, reference, tmp_path, monkeypatch, can_link):
    if not can_link:
        monkeypatch.setattr(os, "link", refuse)
    weights = np.arange(300, dtype=np.float32)
    model = model_of("g (float[1] x) => (float[300] y) { y = Add(x, w) }", w=weights)
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


# Phases and messages


def test_what_cannot_be_loaded_fails_in_the_import(sandbox):
    for model in (b"no model", text("(float[1] x) => (float[1] y) { y = NoSuchOperator(x) }")):
        assert {run.phase for run in run_all(sandbox, model, {})} == {Phase.IMPORT}


def test_a_provider_that_is_not_there_is_unavailable(sandbox):
    configs = find_backend("ort").configs(Target("ort", "NoSuch"))
    model = text("(float[1] x) => (float[1] y) { y = Neg(x) }")

    assert {ort.classify(run) for run in run_all(sandbox, model, {}, configs)} == {"unavailable"}


LACKS, INVALID = "unsupported", "invalid-input"
SAID = [
    ("iree", "failed to legalize operation 'torch.operator' that was explicitly marked illegal", LACKS),
    ("iree", "unhandled torch type: '!torch.list<vtensor<[2],f32>>'", LACKS),
    ("iree", "failed to legalize unresolved materialization from ('tensor<3xi8>') to", ""),
    ("openvino", "-- No conversion rule found for operations: Det-21", LACKS),
    ("openvino", "TopK node with name 'y0' K (0) must be greater or equal to 1.", LACKS),
    ("openvino", "CALLBACK HAS THROWN: Unknown activation function: softsign", LACKS),
    ("openvino", "Check 'trip_count != 0' failed at src/core/src/op/loop.cpp:88:", ""),
    ("xla", "operator TfIdfVectorizer has no lowering to jax", LACKS),
    ("xla", "UNIMPLEMENTED: unhandled expression type", LACKS),
    ("xla", "INTERNAL: RET_CHECK failure", ""),
    ("tvm", "OpNotImplemented: The following operators are not supported for frontend ONNX: Foo", LACKS),
    ("tvm", "NotImplementedError: Operator Foo not implemented.", LACKS),
    ("tvm", "TypeError: Unsupported output datatype attribute for operation: 'int4", LACKS),
    ("tvm", "InternalError: Data type T.float8_e5m2fnuz not supported for finiteness ops.", LACKS),
    ("tvm", "InternalError: Check failed: dtype.bits % 8 == 0 (4 vs. 0) :", LACKS),
    ("tvm", "InternalError: Check failed: arr_size == nbytes (128 vs. 256) : TensorCopyFromBytes", LACKS),
    ("tvm", "ValueError: Dynamic pads are not supported yet.", ""),
    ("tvm", "ValueError: no value in Constant", ""),
    ("tvm", "InternalError: LLVM module verification failed", ""),
    ("inductor", "Unsupported: operator Foo has no lowering to torch", LACKS),
    ("inductor", "NotImplementedError: \"add\" not implemented for 'UInt32'", LACKS),
    ("inductor", "RuntimeError: ZeroDivisionError", INVALID),
    ("inductor", "RuntimeError: shapes do not match", ""),
    ("inductor compiled", "NotImplementedError: not implemented for this", ""),
]


@pytest.mark.parametrize(("name", "said", "kind"), SAID)
def test_a_backend_says_itself_what_it_does_not_have(name, said, kind):
    name, _, is_compiled = name.partition(" ")
    error, _, message = said.partition(": ") if name in ("tvm", "inductor") else ("RuntimeError", "", said)
    config = Config("any", (("backend", "inductor" if is_compiled else "eager"),))
    run = Run(config, Status.EXCEPTION, Phase.IMPORT, error=error, message=message)
    assert find_backend(name).classify(run) == kind


ONE = np.array([1])


@pytest.mark.parametrize(
    ("node", "inputs"),
    [
        ("Div(x, z)", {"z": np.array([0])}),
        ("Mod(x, z)", {"z": np.array([0])}),
        *((f"{name}(x, z)", {"z": np.array([5])}) for name in ("Gather", "GatherElements", "GatherND")),
        ("ScatterElements(x, z, x)", {"z": np.array([5])}),
        ("Add(x, z)", {"z": np.array([1], np.int32)}),
        ("Add(x, z)", {"z": ONE, "more": ONE}),
    ],
    ids=["Div", "Mod", "Gather", "GatherElements", "GatherND", "ScatterElements", "type", "name"],
)
def test_a_refusal_of_the_data_is_no_bug(sandbox, node, inputs):
    model = text(f"(int64[1] x, int64[1] z) => (y) {{ y = {node} }}")
    for run in run_all(sandbox, model, {"x": ONE, **inputs}):
        assert (run.status, ort.classify(run)) == (Status.EXCEPTION, "invalid-input"), run.message


@pytest.mark.skipif(crash_handler()[0] is None, reason=crash_handler()[1])
def test_the_frames_of_a_crash_lead_to_the_framework(sandbox):
    inputs = {"x": np.array([-(2**63)]), "z": np.array([-1])}
    (run, *_) = run_all(sandbox, text("(int64[1] x, int64[1] z) => (y) { y = Div(x, z) }"), inputs)
    if run.is_ok:
        pytest.skip("the installed onnxruntime does not show the bug")
    assert "onnxruntime" in run.frames[0].library


def test_more_memory_than_there_is_is_out_of_memory(sandbox):
    model = text("(int64[1] x) => (y) { y = ConstantOfShape(x) }")
    for run in run_all(sandbox, model, {"x": np.array([1 << 33])}):
        assert (run.status, ort.classify(run)) == (Status.OUT_OF_MEMORY, "out-of-memory"), run.message


# The reference


@pytest.mark.parametrize(
    ("graph", "opset", "x", "y"),
    [
        ("(bfloat16[2] x) => (y) { y = Add(x, x) }", 23, np.array([1, 2], ml_dtypes.bfloat16), [2, 4]),
        (
            "(uint8[3] x) => (y) <double s = {0.5}, uint8 z = {1}> { y = DequantizeLinear(x, s, z) }",
            13,
            np.uint8([0, 1, 5]),
            [-0.5, 0, 2],
        ),
    ],
    ids=["bfloat16", "a dequantisation below opset 19"],
)
def test_the_reference_evaluates(reference, graph, opset, x, y):
    (run,) = run_all(reference, text(graph, opset), {"x": x}, (Config("reference"),))
    assert run.outputs["y"].tolist() == y


def test_the_reference_says_what_it_lacks(reference):
    backend = find_backend("reference")
    model = model_of("g (float[1] x) => (y) { y = com.microsoft.FusedGemm(x) }", domains="com.microsoft")
    configs = backend.configs(Target("reference"))
    (run,) = run_all(reference, model.SerializeToString(), {"x": np.ones(1, np.float32)}, configs)

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


@pytest.mark.parametrize("name", ["float32", "int64", "bool", "float16", "bfloat16", "string"])
def test_an_old_release_takes_and_gives_every_type(old, name):
    is_text = name == "string"
    value = np.array(["ü", "", "b"]) if is_text else np.ones(3).astype(getattr(ml_dtypes, name, name))
    kind = {"float32": "float"}.get(name, name)
    program = text(f"({kind}[3] x) => ({kind}[3] y) {{ y = Identity(x) }}", 19)
    for run in old.run(Job(program, {"x": value}, OLD_CONFIGS)):
        found = run.outputs["y"]

        assert (found.dtype, found.tobytes()) == (value.dtype, value.tobytes())


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


def test_no_two_decompositions_undo_each_other(inductor_judge):
    """Inductor takes a clamp apart into the two that the core decompositions make a clamp of again."""
    inputs = {"x": np.float32([-1, 0, 1, 2])}
    case = aten_case("(float[4] x) => (float[4] y) { y = aten.clamp_min<min = -0.5>(x) }", inputs)
    assert inductor_judge.verdict(case.with_passes(("decompositions=core_aten",))).outcome is Outcome.PASS
