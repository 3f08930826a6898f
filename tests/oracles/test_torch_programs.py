"""Programs of the format `torch` as they are run and judged: writes, memory, element types, what is open."""

from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest

from corpus.case import Case
from corpus.graphs.program import REF, Binding, Graph, GraphProgram, Input
from corpus.target import Target
from corpus.values import Value
from oracles.judge import Judge
from oracles.numerics.rewrites import left_open_by_graph
from oracles.sandbox.sandbox import Sandbox
from oracles.verdict import Outcome

TRACED = Target.parse("inductor@backend=aot_eager")


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    pytest.importorskip("torch", reason="torch is not installed")
    with Judge(TRACED, format="torch") as found:
        yield found


def ref(name: str) -> dict[str, str]:
    return {REF: name}


def program_of(
    inputs: dict[str, Value], *bindings: Binding, outputs: tuple[str, ...], layout: object = None
) -> GraphProgram:
    taken = tuple(
        Input(name, value.dtype.name, value.shape, layout if place == 0 else None)
        for place, (name, value) in enumerate(inputs.items())
        if isinstance(value, np.ndarray)
    )
    return GraphProgram("torch", Graph(taken, bindings, outputs))


def case_of(
    inputs: dict[str, Value], *bindings: Binding, outputs: tuple[str, ...], layout: object = None
) -> Case:
    program = program_of(inputs, *bindings, outputs=outputs, layout=layout)
    return Case("torch", program.to_bytes(), inputs, TRACED)


ONES: dict[str, Value] = {"x": np.ones((2, 3), np.float32)}


def test_a_result_written_to_later_is_what_a_caller_gets(judge):
    steps = (
        Binding("y", "operator.add", (ref("x"), 1)),
        Binding("v", "Tensor.view", (ref("y"), 6)),
        Binding("z", "Tensor.mul_", (ref("v"), 3)),
    )
    case = case_of(ONES, *steps, outputs=("y",))
    verdict = judge.verdict(case)
    assert verdict.outcome is Outcome.PASS
    assert float(np.max(np.asarray(verdict.runs[0].outputs["y"]))) == 6


def test_an_input_that_is_written_to_is_compared_too(judge):
    case = case_of(ONES, Binding("y", "Tensor.add_", (ref("x"), 1)), outputs=("y",))
    for run in judge.runs(case, judge.configs):
        assert list(run.outputs) == ["y", "x afterwards"]
        assert float(np.min(np.asarray(run.outputs["x afterwards"]))) == 2


def test_float8_and_conjugates_come_through(judge):
    inputs: dict[str, Value] = {"x": np.ones(2, ml_dtypes.float8_e5m2), "c": np.array([1 + 2j], np.complex64)}
    steps = (
        Binding("y", "Tensor.to", (ref("x"), {"dtype": "float32"})),
        Binding("z", "Tensor.to", (ref("y"), {"dtype": "float8_e4m3fn"})),
        Binding("d", "Tensor.conj", (ref("c"),)),
    )
    verdict = judge.verdict(case_of(inputs, *steps, outputs=("y", "z", "d")))
    assert verdict.outcome is Outcome.PASS
    assert np.asarray(verdict.runs[0].outputs["z"]).dtype.name == "float8_e4m3fn"
    assert np.asarray(verdict.runs[0].outputs["d"]).tolist() == [1 - 2j]


def test_inputs_lie_in_memory_as_the_program_says(judge):
    step = Binding("y", "torch.as_strided", (ref("x"), [6], [1]))
    inputs: dict[str, Value] = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    case = case_of(inputs, step, outputs=("y",), layout={"layout": [[1, 1], [0, 1]]})
    (run,) = judge.runs(case, judge.configs[:1])
    assert np.asarray(run.outputs["y"]).tolist() == [0, 3, 1, 4, 2, 5]


@pytest.mark.parametrize(
    ("value", "op", "word"),
    [
        (300.0, "Tensor.to", "integer"),
        (-1.0, "Tensor.byte", "integer"),
        (100.0, "Tensor.to", ""),
        (300.0, "Tensor.view", ""),
    ],
)
def test_a_float_beyond_the_integer_it_becomes_leaves_the_result_open(value, op, word):
    kind = np.dtype(np.uint8 if op == "Tensor.byte" else np.int8)
    values: dict[str, Value] = {"x": np.array([value], np.float32), "y": np.zeros(1, kind)}
    program = program_of({"x": values["x"]}, Binding("y", op, (ref("x"),)), outputs=("y",))
    assert word in left_open_by_graph(program, {"x", "y"}, values)
    assert bool(left_open_by_graph(program, {"x", "y"}, values)) == bool(word)


@pytest.mark.slow
def test_memory_that_nobody_wrote_to_leaves_the_result_open():
    made = Binding("y", "torch.empty", (3,))
    filled = Binding("z", "Tensor.fill_", (ref("y"), 1))
    for steps, is_open in [((made,), True), ((made, filled), False)]:
        program = program_of(ONES, *steps, outputs=("y",))
        assert bool(left_open_by_graph(program, {"y"}, {})) == is_open


@pytest.mark.slow
def test_a_cache_that_the_environment_names_is_not_asked_for(monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/nowhere/that/can/be/made")
    with Sandbox("inductor") as own:
        assert own.facts["version"]
