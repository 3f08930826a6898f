"""IREE, OpenVINO and XLA as targets: models on the CPU, held against un-optimised onnxruntime."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest

from corpus.errors import UserError
from corpus.target import Target
from generators.legality import Legality
from generators.mixture import Plan, make_cases
from oracles.backends import find_backend
from oracles.backends.iree import _in_short
from oracles.judge import Judge
from oracles.numerics.mismatch_kind import exceeds
from oracles.operators import all_operators
from oracles.sandbox.executor import configs_of
from oracles.verdict import Config, Outcome, Phase, Run, Status
from oracles.worker.xla.module import changed_by, flags_of
from tests.helpers.commands import completed, needs
from tests.helpers.models import case_of, of_many_types
from triage.causes.consequences import find_root

ROOT = Path(__file__).parents[2]
F4 = np.ones(2, "float32")
EVERY = frozenset(each.name for each in all_operators())
PACKAGES = {"iree": "iree", "openvino": "openvino", "xla": "jax"}
openvino, xla = find_backend("openvino"), find_backend("xla")
case = partial(case_of, opset=17, ir=8)


@pytest.fixture(scope="module")
def judge(request: pytest.FixtureRequest) -> Iterator[Judge]:
    with Judge(Target(request.param)) as found:
        yield found


def on(name: str) -> pytest.MarkDecorator:
    """A test that a judge of this target is given."""
    return pytest.mark.parametrize("judge", [pytest.param(name, marks=needs(PACKAGES[name]))], indirect=True)


ON_EACH = pytest.mark.parametrize(
    "judge", [pytest.param(name, marks=needs(package)) for name, package in PACKAGES.items()], indirect=True
)


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("iree", ["llvm-cpu O3", "llvm-cpu O0"]),
        ("iree@opt=O1", ["llvm-cpu O1"]),
        ("iree@code=vmvx", ["vmvx O3"]),
        ("openvino", ["compiled"]),
        ("openvino@hint=default", ["default"]),
        ("xla", ["O3", "O0"]),
        ("xla@opt=1", ["O1"]),
    ],
)
def test_it_optimises_as_far_as_it_can_and_least_unless_one_way_is_asked_for(text, labels):
    assert [each.label for each in configs_of(Target.parse(text), "onnx")][1:] == labels


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("iree@opt=O4", "@opt= is one of O3, O2, O1, O0"),
        ("openvino@hint=f64", "@hint= is one of f32, default"),
        ("xla@opt=4", "@opt= is one of 3, 2, 1, 0"),
        *((f"{name}:cuda", "on the CPU only") for name in PACKAGES),
    ],
)
def test_another_way_and_another_device_are_the_users_mistake(text, said):
    with pytest.raises(UserError, match=said):
        configs_of(Target.parse(text), "onnx")


SAID = [
    ("iree", "failed to legalize operation 'torch.operator' that was explicitly marked illegal", True),
    ("iree", "unhandled torch type: '!torch.list<vtensor<[2],f32>>'", True),
    (
        "iree",
        "failed to legalize unresolved materialization from ('tensor<3xi8>') to ('tensor<6xi8>')",
        False,
    ),
    ("openvino", "-- No conversion rule found for operations: Det-21", True),
    ("openvino", "TopK node with name 'y0' K (0) must be greater or equal to 1.", True),
    ("openvino", "CALLBACK HAS THROWN: Unknown activation function: softsign", True),
    ("openvino", "Check 'trip_count != 0' failed at src/core/src/op/loop.cpp:88:", False),
    ("xla", "operator TfIdfVectorizer has no lowering to jax", True),
    ("xla", "UNIMPLEMENTED: unhandled expression type", True),
    ("xla", "INTERNAL: RET_CHECK failure", False),
]


@pytest.mark.parametrize(("name", "message", "is_lacking"), SAID)
def test_it_says_itself_what_it_does_not_have(name, message, is_lacking):
    run = Run(Config("any"), Status.EXCEPTION, Phase.IMPORT, error="RuntimeError", message=message)
    backend = find_backend(name)
    assert backend.classify(run) == ("unsupported" if is_lacking else "")
    assert name != "openvino" or backend.tags(run) == (("importer-limit",) if is_lacking else ())


@ON_EACH
def test_every_type_comes_back_as_it_is_declared(judge):
    """OpenVINO has no float64, which a part of the program says."""
    verdict = judge.verdict(of_many_types(judge.target))
    wanted = Outcome.UNSUPPORTED if judge.target.backend == "openvino" else Outcome.PASS
    assert verdict.outcome is wanted, verdict.title


SIZES = """g (float[2,3] x, int64[k] s) => (float[m,n] y) {
    one = Constant<value = int64[1] {1}>() t = Mul(s, one) y = Reshape(x, t) }"""
FACTORS = """g (float[2] x) => (float[2] y) { c = Constant<value = float {1e30}>()
    t = Mul(x, c) y = Mul(t, c) }"""
DOES = {
    ("iree", "no lowering"): (
        "g (float[2] x) => (float[2] y) { y = Swish(x) }",
        {"x": F4},
        Outcome.UNSUPPORTED,
    ),
    ("iree", "a crash of the importer"): (
        "g (float[2] x) => (float[n] y) { y = Unique(x) }",
        {"x": F4},
        Outcome.CRASH,
    ),
    ("iree", "a wrong value"): (
        "g (uint8[1] x, uint8 m) => (uint8[1] y) { y = Clip(x, , m) }",
        {"x": np.uint8([7]), "m": np.uint8(255)},
        Outcome.MISMATCH,
    ),
    ("openvino", "two results"): (
        "g (float[2] x, int64[3] i) => (float[2] y, int64[3] j) { y = Abs(x) j = Neg(i) }",
        {"x": F4, "i": np.int64([1, 2, 3])},
        Outcome.PASS,
    ),
    ("openvino", "float64"): (
        "g (double[2] x) => (double[2] y) { y = Relu(x) }",
        {"x": np.ones(2)},
        Outcome.UNSUPPORTED,
    ),
    ("openvino", "no rule"): (
        "g (float[2,2] x) => (float y) { y = Det(x) }",
        {"x": np.eye(2, dtype="f4")},
        Outcome.UNSUPPORTED,
    ),
    ("openvino", "beyond int32"): (
        "g (int64[1] x) => (int64[1] y) { y = Mul(x, x) }",
        {"x": np.int64([1 << 40])},
        Outcome.PASS,
    ),
    ("openvino", "least"): (
        "g (int64[1] x) => (int64[1] y) { y = Abs(x) }",
        {"x": np.int64([-(2**63)])},
        Outcome.PASS,
    ),
    ("openvino", "clamped"): (
        "g (uint8[1] x) => (uint8[1] y) { y = Add(x, x) }",
        {"x": np.uint8([200])},
        Outcome.PASS,
    ),
    ("openvino", "renamed input"): (
        "g (float[2] x) => (float[2] y) { a = Dropout(x) y = Neg(a) }",
        {"x": F4},
        Outcome.PASS,
    ),
    ("openvino", "axes by attribute"): (
        "g (float[2,3] x) => (float[1,3] y) { y = ReduceLogSum <axes=[0]> (x) }",
        {"x": np.ones((2, 3), "f4")},
        Outcome.MISMATCH,
    ),
    ("xla", "computed sizes"): (SIZES, {"x": np.ones((2, 3), "f4"), "s": np.int64([3, -1])}, Outcome.PASS),
    ("xla", "numbers below the least normal one are left open"): (
        "g (float[2] x) => (float[2] y) { y = Ceil(x) }",
        {"x": np.float32([1e-45, 1])},
        Outcome.PASS,
    ),
    ("xla", "their squares within a sum are left open too"): (
        "g (float[2] x) => (float[2] y) { y = LpNormalization<p=2, axis=0>(x) }",
        {"x": np.float32([3e-20, 4e-20])},
        Outcome.PASS,
    ),
    ("xla", "no lowering"): (
        "g (float[2] x) => (string[2] y) { y = Cast<to=8>(x) }",
        {"x": F4},
        Outcome.UNSUPPORTED,
    ),
    ("xla", "constants multiplied first"): (FACTORS, {"x": np.float32([0, 1e-30])}, Outcome.MISMATCH),
}


@pytest.mark.parametrize(
    ("judge", "what"),
    [pytest.param(name, what, marks=needs(PACKAGES[name])) for name, what in DOES],
    indirect=["judge"],
)
def test_what_it_does_with(judge, what):
    text, inputs, outcome = DOES[judge.target.backend, what]
    verdict = judge.verdict(case(text, opset=24 if "Swish" in text else 17, target=judge.target, **inputs))
    assert verdict.outcome is outcome, verdict.title


def test_a_diagnostic_keeps_what_is_wrong_and_the_operator_but_no_place():
    said = [
        "source.mlir:4:10: failed to legalize operation 'torch.operator' that was explicitly marked illegal: "
        '%0 = "torch.operator"(%arg0) <{name = "onnx.Det"}> : (!torch.vtensor<[2,2],f32>) -> ()',
        "source.mlir:4:10: 'tensor.cast' op is wrong\n\nsource.mlir:4:10: see current operation: %1 = cast",
    ]
    assert _in_short(said).splitlines() == [
        "failed to legalize operation 'torch.operator' that was explicitly marked illegal (onnx.Det)",
        "'tensor.cast' op is wrong",
    ]


def test_what_the_shorter_type_cannot_hold_is_left_open_but_no_bound_of_the_own_type():
    assert exceeds(np.int64([1, 1 << 31]), "int32")
    assert exceeds(np.int64([1, np.iinfo("int64").max]), "int32")
    assert not exceeds(np.int64([1, np.iinfo("int64").max]), "int32", is_position=True)
    assert not exceeds(np.uint16([65535]), "int32")


def test_campaigns_of_openvino_draw_nothing_of_dtypes_that_it_lacks():
    plan = Plan("random", legality=Legality(EVERY, lacks=openvino.lacks))
    for each in make_cases(plan, range(20)):
        held = {int(each.elem_type) for each in _tensors(each.parsed.graph)}
        assert onnx.TensorProto.DOUBLE not in held


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TypeProto.Tensor]:
    for value in (*graph.input, *graph.output):
        yield value.type.tensor_type


@on("openvino")
def test_a_title_says_what_is_wrong_before_the_condition_that_did_not_hold(judge):
    text = "g (float[1,2] x, int64[1,1] i) => (float[1,1] y) { y = GatherElements(x, i) }"
    verdict = judge.verdict(case(text, x=np.ones((1, 2), "f4"), i=np.int64([[0]])))
    assert verdict.title.startswith("RuntimeError during import: Shapes [1,2] and [1,1] are not consistent")


@on("openvino")
def test_nine_tests_of_ten_are_of_what_it_has(judge):
    plan = Plan("random", legality=Legality(judge.executor.vocabulary(), lacks=openvino.lacks))
    outcomes = Counter(judge.verdict(each).outcome for each in make_cases(plan, range(300, 330)))
    assert outcomes[Outcome.UNSUPPORTED] <= 3


@on("openvino")
@pytest.mark.parametrize("operator", ["Mul", "Max"])
def test_a_weight_that_is_imported_wrongly_is_the_root_whatever_takes_it(judge, operator):
    """An empty weight becomes a scalar."""
    text = f"g (float[1] x) => (float[N] y) <float[0] w = {{}}> {{ y = {operator}(w, x) }}"
    whole = case(text, x=F4[:1])
    found = find_root(whole, judge.verdict(whole), (), judge)
    assert found.root.case.measure.ops == ("Identity",)
    assert "as inputs" in found.why


def test_passes_are_disabled_by_name_and_read_from_what_xla_writes_out():
    assert flags_of({"level": 0, "disabled_passes": ("algsimp", "cse")}) == {
        "xla_allow_excess_precision": False,
        "xla_backend_optimization_level": 0,
        "xla_disable_hlo_passes": "algsimp,cse",
    }
    files = [
        "module_0000.main.0006.simplification.after_algsimp.before_sort-simplifier.txt",
        "module_0000.main.0002.simplification.after_pipeline-start.before_cse.txt",
        "module_0000.main.0004.simplification.after_cse.before_algsimp.txt",
        "module_0000.main.cpu_after_optimizations.txt",
    ]
    assert changed_by(files) == ["cse", "algsimp"]


@on("xla")
def test_it_lowers_more_than_120_operators_and_gives_every_one_of_its_own_a_function(judge):
    found = judge.executor.vocabulary()
    assert len(found) >= 120
    assert {"Conv", "Gather", "Softmax", "LayerNormalization", "Gelu"} <= found


@on("xla")
def test_the_passes_that_change_a_module_are_told(judge):
    given = case("g (float[2] x) => (float[2] y) { t = Add(x, x) y = Sub(t, x) }", x=np.ones(2, "f4"))
    (run,) = judge.runs(given, judge.configs[1:2], collect_log=True)
    passes = xla.passes
    assert run.is_ok
    assert passes.fired(run)
    assert set(passes.suspects(run)) <= set(passes.fired(run))
    (other,) = judge.runs(given, (passes.without(judge.configs[1], passes.suspects(run)),))
    assert other.is_ok, other.message


MODULE = """module { func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %a, %a : tensor<2xf32>
  return %0 : tensor<2xf32> } }"""
SCRIPT = f"""
import json, os, sys, numpy
sys.path.insert(0, {str(ROOT)!r})
from oracles.backends import xla
version, threads = xla.load(), len(os.listdir("/proc/self/task"))
from oracles.worker.xla.module import run_module
results = run_module({MODULE!r}, [numpy.float32([1, 2])], {{"level": 3}}, print)
print(json.dumps([threads, [each.tolist() for each in results]]))
"""


@needs("jax")
def test_its_import_starts_no_thread_and_a_module_of_text_runs_as_it_is():
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = completed([sys.executable, "-c", SCRIPT], env=environment, check=True)
    *phases, last = done.stdout.split("\n")[:-1]
    assert phases == ["optimise", "execute"]
    assert json.loads(last) == [1, [[2.0, 4.0]]]
