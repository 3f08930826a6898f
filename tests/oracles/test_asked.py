"""The oracles that are asked for by name: further ways to run a case that passes otherwise."""

import importlib
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import numpy as np
import onnx
import pytest

from corpus.case import Case
from corpus.errors import UserError
from corpus.graphs.program import Binding
from corpus.target import Target
from corpus.tir.program import to_bytes
from corpus.tir.tree import For, Function, Module, Store
from corpus.tir.values import Buffer, Call, Const, Load, Var
from oracles.backends import backends
from oracles.judge import Judge
from oracles.numerics.rewrites import REWRITES
from oracles.optional import REPEATS, Asking, asked_oracles, find_asked, slower
from oracles.optional import timed as timed_ways
from oracles.probes.context import Context
from oracles.rules.failures import hang
from oracles.sandbox import processes
from oracles.sandbox.executor import configs_of
from oracles.verdict import Config, Limits, Outcome, Phase, Run, Status, Verdict
from tests.helpers.models import case_of as case
from tests.helpers.models import graph_case, model_of, ref

F = np.float32
ASKED = Target.parse("ort@oracles=metamorphic,determinism,devices,perf")


PLAIN = case(
    "g (float[2,3] x, int64[3] i) => (float[2,3] y, int64[3] j) <float[3] w = {1, 2, 0.1}>"
    " { a = Add(x, w) b = Exp(a) c = Transpose(b) d = Transpose(c) y = Mul(d, a) j = Mul(i, i) }",
    x=np.ones((2, 3), F) / F(3),
    i=np.arange(3),
)
CLIP_LOW = case(
    "g (double[3] x, double low) => (double[3] y) { r = Relu(x) y = Clip(r, low) }",
    x=np.array([-1.0, 2.0, 9.0]),
    low=np.array(0.5),
)
DIV_ONE = case(
    "g (int32[3] x, int32[3] z, int32 one) => (int32[3] y) { q = Div(one, x) y = Mul(q, z) }",
    x=np.array([2, 3, 4], np.int32),
    z=np.array([10, 20, 30], np.int32),
    one=np.array(1, np.int32),
)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(ASKED) as made:
        yield made


@pytest.mark.parametrize("name", REWRITES)
def test_a_rewrite_changes_the_program_and_no_bit_of_its_results(judge, name):
    expected = judge.runs(PLAIN, judge.configs[:1])[0].outputs
    found = REWRITES[name](onnx.load_model_from_string(PLAIN.program), PLAIN.inputs)
    assert found is not None
    model, inputs = found
    onnx.checker.check_model(model)
    assert model.SerializeToString() != PLAIN.program
    changed = Case("onnx", model.SerializeToString(), inputs)
    (run,) = judge.runs(changed, judge.configs[:1])
    assert run.is_ok, run.message
    for output, value in expected.items():
        np.testing.assert_array_equal(run.outputs[output], value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("hidden", "symptom"),
    [
        (CLIP_LOW, "relu_clip_fusion.cc FuseReluClip::Apply"),
        (DIV_ONE, "mismatch | compare | value | optimised | metamorphic"),
    ],
    ids=["exception", "wrong value"],
)
def test_a_bug_that_only_a_rewritten_program_shows_is_found_again(judge, hidden, symptom):
    with Judge(Target("ort")) as plain:
        assert plain.verdict(hidden).outcome is Outcome.PASS
    verdict = judge.verdict(hidden)
    assert symptom in str(verdict.symptom)
    assert "inputs as weights" in verdict.title
    assert judge.verdict(hidden, only=verdict.runs[-1].config).symptom == verdict.symptom


def test_a_sound_case_passes_every_oracle(judge):
    assert judge.verdict(PLAIN).outcome is Outcome.PASS


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("reference@oracles=round-trip,backends", marks=pytest.mark.slow),
        "torch@oracles=round-trip",
    ],
)
def test_what_is_written_and_read_back_computes_the_same(text):
    with Judge(Target.parse(text)) as judge:
        assert judge.verdict(PLAIN).outcome is Outcome.PASS
        oracle = asked_oracles()["round-trip"]
        forms = [way.config.get("via") for way in oracle.ways(PLAIN, Asking(judge.target, judge.configs))]
        assert forms == list(judge.backend.written_as)


def test_an_unknown_oracle_is_named_with_the_known_ones():
    with pytest.raises(UserError, match=r"'nonsense'.*metamorphic"):
        find_asked("perf,nonsense")


def timed(label: str, seconds: float) -> Run:
    return Run(Config(label), Status.OK, Phase.EXECUTE, execute_seconds=seconds)


@pytest.mark.parametrize(
    ("times", "is_slower"),
    [
        ([0.1, 0.5, 0.1, 0.4, 0.1, 0.45], True),
        ([0.1, 0.5, 0.1, 0.4, 0.1, 0.15], False),
        ([0.001, 0.01, 0.001, 0.01, 0.001, 0.01], False),
    ],
    ids=["every time", "once quick", "too short to tell"],
)
def test_slower_means_clearly_and_every_time(times, is_slower):
    runs = tuple(timed("none" if index % 2 == 0 else "all", each) for index, each in enumerate(times))
    verdict = slower(PLAIN, (timed("none", 0.1), *runs), None)  # type: ignore[arg-type]
    assert (verdict is not None) == is_slower
    assert verdict is None or verdict.outcome is Outcome.PERF


@pytest.mark.parametrize(
    ("text", "format"),
    [("ort", "onnx"), ("tvm", "onnx"), ("tvm", "relax"), ("tvm", "tir"), ("inductor", "onnx")],
)
def test_a_side_that_is_made_slow_is_seen_on_every_target(text, format):
    target = Target.parse(text)
    configs = configs_of(target, format)
    ways = [way.config for way in timed_ways(PLAIN, Asking(target, configs))]
    assert len(ways) == 2 * REPEATS
    assert all(config.backend == "" for config in ways)
    slow = [replace(timed(each.label, 0.5 if at % 2 else 0.1), config=each) for at, each in enumerate(ways)]
    verdict = slower(PLAIN, (timed("none", 0.1), *slow), None)  # type: ignore[arg-type]
    assert verdict.outcome is Outcome.PERF
    assert ways[0].settings != ways[1].settings


def test_a_run_says_what_its_execution_took(judge):
    big = case("g (float[600,600] x) => (float[600,600] y) { y = MatMul(x, x) }", x=np.ones((600, 600), F))
    (run,) = judge.runs(big, judge.configs[:1])
    assert 0 < run.execute_seconds <= run.cpu_seconds


# The oracle `perf` on programs that are really slow when they are optimised, on each kind of target

SIZE, ROWS, TANGENTS = 2_000, 6_000, 10


def recomputed(rows: int = ROWS) -> bytes:
    """A row of tangents added to each row of a matrix: inductor computes it anew for every row."""
    steps = " ".join(f"x{at + 1} = Tan (x{at})" for at in range(TANGENTS))
    ends = f"(float[1,{SIZE}] x0, float[{rows},1] y) => (float[1,1] s)"
    return model_of(f"g {ends} {{ {steps} z = Add (x{TANGENTS}, y) s = ReduceSum (z) }}").SerializeToString()


def exponentials() -> bytes:
    return model_of(f"g (float[{SIZE}] x) => (float[{SIZE}] y) {{ y = Exp (x) }}").SerializeToString()


def loops() -> bytes:
    read, made, var = Buffer("A", (Const(SIZE),), "float32"), Buffer("B", (Const(SIZE),), "float32"), Var("i")
    store = Store("B", (var,), Call("exp", (Load("A", (var,), "float32"),), "float32"))
    loop = For(var, Const(0), Const(SIZE), "serial", (store,))
    return to_bytes(Module({"main": Function((read, made), (loop,))}))


def verdict_on(case: Case, target: str) -> Verdict:
    with Judge(Target.parse(target), format=case.format) as judge:
        return judge.verdict(case)


def is_slower(verdict: Verdict) -> bool:
    return verdict.outcome is Outcome.PERF and "slower when optimised" in verdict.title


@pytest.fixture
def slowed(monkeypatch: pytest.MonkeyPatch) -> str:
    module = importlib.import_module("tests.oracles.sandboxed.slowed_tvm")
    monkeypatch.setitem(backends(), "slowed_tvm", module.backend())
    return "slowed_tvm@oracles=perf"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("format", ["onnx", "relax", "tir"])
def test_a_pass_of_tvm_that_makes_programs_slow_is_reported(format, slowed):
    x = np.linspace(-1, 1, SIZE, dtype="float32")
    if format == "relax":
        case = graph_case(format, {"x": x}, Binding("y", "relax.exp", (ref("x"),)))
    else:
        inputs = {"x": x} if format == "onnx" else {"A": x, "B": np.zeros_like(x)}
        case = Case(format, exponentials() if format == "onnx" else loops(), inputs)
    assert is_slower(verdict_on(case, slowed))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("target", ["inductor", "torch"])
def test_a_model_that_inductor_makes_slow_is_reported_for_it_and_for_torch(target):
    x, y = np.linspace(-1, 1, SIZE, dtype="float32")[None], np.ones((ROWS, 1), "float32")
    assert is_slower(verdict_on(Case("onnx", recomputed(), {"x0": x, "y": y}), f"{target}@oracles=perf"))
    few = Case("onnx", recomputed(2), {"x0": x, "y": y[:2]})
    assert verdict_on(few, f"{target}@oracles=perf").outcome is Outcome.PASS


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("target", ["inductor", "torch"])
def test_so_is_a_program_of_torch_itself(target):
    x, y = np.linspace(-1, 1, SIZE, dtype="float32")[None], np.ones((ROWS, 1), "float32")
    steps = [Binding(f"x{at + 1}", "torch.tan", (ref(f"x{at}"),)) for at in range(TANGENTS)]
    steps += [
        Binding("z", "operator.add", (ref(f"x{TANGENTS}"), ref("y"))),
        Binding("s", "torch.sum", (ref("z"),)),
    ]
    case = graph_case("torch", {"x0": x, "y": y}, *steps)
    assert is_slower(verdict_on(case, f"{target}@oracles=perf"))


# A compiler that takes long is no hang: it gets more time, and what it gives is compared as usual

TARGET = Target("inductor")


@pytest.fixture(scope="module")
def chain() -> Case:
    pytest.importorskip("torch")
    text = "g (float[4,4] x) => (float[4,4] y) { a = Tanh (x) b = MatMul (a, x) y = Softmax (b) }"
    return case(text, target=TARGET, x=np.eye(4, dtype=np.float32))


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
    assert verdict.outcome is outcome


@pytest.mark.slow
@pytest.mark.timeout(300)
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
