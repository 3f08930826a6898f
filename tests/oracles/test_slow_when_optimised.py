"""The oracle `perf` on programs that are really slow when they are optimised, on each kind of target."""

import importlib
from collections.abc import Mapping

import numpy as np
import pytest

from corpus.case import Case
from corpus.graphs.program import REF, Binding, Graph, GraphProgram, Input
from corpus.target import Target
from corpus.tir.document import to_bytes
from corpus.tir.tree import For, Function, Module, Store
from corpus.tir.values import Buffer, Call, Const, Load, Var
from corpus.values import Value
from oracles.backends import backends
from oracles.judge import Judge
from oracles.verdict import Outcome, Verdict
from tests.helpers.models import model_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
SIZE, ROWS, TANGENTS = 2_000, 6_000, 10


def recomputed(rows: int = ROWS) -> bytes:
    """A row of tangents added to each row of a matrix: inductor computes it anew for every row."""
    steps = " ".join(f"x{at + 1} = Tan (x{at})" for at in range(TANGENTS))
    ends = f"(float[1,{SIZE}] x0, float[{rows},1] y) => (float[1,1] s)"
    return model_of(f"g {ends} {{ {steps} z = Add (x{TANGENTS}, y) s = ReduceSum (z) }}").SerializeToString()


def exponentials() -> bytes:
    return model_of(f"g (float[{SIZE}] x) => (float[{SIZE}] y) {{ y = Exp (x) }}").SerializeToString()


def graph(format: str, inputs: Mapping[str, Value], outputs: tuple[str, ...], *bindings: Binding) -> Case:
    """Return a case of one function."""
    taken = [
        Input(name, value.dtype.name, value.shape)
        for name, value in inputs.items()
        if isinstance(value, np.ndarray)
    ]
    program = GraphProgram(format, Graph(tuple(taken), bindings, outputs))
    return Case(format, program.to_bytes(), dict(inputs))


def ref(name: str) -> dict[str, str]:
    return {REF: name}


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


@pytest.mark.parametrize("format", ["onnx", "relax", "tir"])
def test_a_pass_of_tvm_that_makes_programs_slow_is_reported(format, slowed):
    x = np.linspace(-1, 1, SIZE, dtype="float32")
    if format == "relax":
        case = graph(format, {"x": x}, ("y",), Binding("y", "relax.exp", (ref("x"),)))
    else:
        inputs = {"x": x} if format == "onnx" else {"A": x, "B": np.zeros_like(x)}
        case = Case(format, exponentials() if format == "onnx" else loops(), inputs)
    assert is_slower(verdict_on(case, slowed))


@pytest.mark.parametrize("target", ["inductor", "torch"])
def test_a_model_that_inductor_makes_slow_is_reported_for_it_and_for_torch(target):
    x, y = np.linspace(-1, 1, SIZE, dtype="float32")[None], np.ones((ROWS, 1), "float32")
    assert is_slower(verdict_on(Case("onnx", recomputed(), {"x0": x, "y": y}), f"{target}@oracles=perf"))
    few = Case("onnx", recomputed(2), {"x0": x, "y": y[:2]})
    assert verdict_on(few, f"{target}@oracles=perf").outcome is Outcome.PASS


@pytest.mark.parametrize("target", ["inductor", "torch"])
def test_so_is_a_program_of_torch_itself(target):
    x, y = np.linspace(-1, 1, SIZE, dtype="float32")[None], np.ones((ROWS, 1), "float32")
    steps = [Binding(f"x{at + 1}", "torch.tan", (ref(f"x{at}"),)) for at in range(TANGENTS)]
    steps += [
        Binding("z", "operator.add", (ref(f"x{TANGENTS}"), ref("y"))),
        Binding("s", "torch.sum", (ref("z"),)),
    ]
    case = graph("torch", {"x0": x, "y": y}, ("s",), *steps)
    assert is_slower(verdict_on(case, f"{target}@oracles=perf"))
