"""Programs of the format `torch` as they are run and judged: writes, memory, element types, what is open."""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from corpus.errors import UserError
from corpus.graphs.program import Binding
from corpus.target import Target
from corpus.values import Value
from generators.legality import Legality
from generators.mixture import DrawnCase, Plan, make_cases
from generators.mutations.modes import Mode
from oracles.judge import Judge
from oracles.numerics.compare import Tolerance
from oracles.numerics.rewrites import left_open_by_graph
from oracles.probes.wrong_side import RUNNER, WRITTEN, is_exported, say_whose
from oracles.sandbox.executor import configs_of
from oracles.sandbox.sandbox import Sandbox
from oracles.verdict import Config, Mark, Outcome, Phase, Run, Status, Verdict
from tests.helpers.models import aten_case, graph_case, graph_of, ref
from tests.helpers.models import case_of as onnx_case
from triage.campaigns.testers import looking

TRACED = Target.parse("inductor@backend=aot_eager")


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    pytest.importorskip("torch", reason="torch is not installed")
    with Judge(TRACED, format="torch") as found:
        yield found


case_of = partial(graph_case, "torch", target=TRACED)

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
    program = graph_of("torch", {"x": values["x"]}, Binding("y", op, (ref("x"),)), outputs=("y",))
    assert word in left_open_by_graph(program, {"x", "y"}, values)
    assert bool(left_open_by_graph(program, {"x", "y"}, values)) == bool(word)


@pytest.mark.slow
def test_memory_that_nobody_wrote_to_leaves_the_result_open():
    made = Binding("y", "torch.empty", (3,))
    filled = Binding("z", "Tensor.fill_", (ref("y"), 1))
    for steps, is_open in [((made,), True), ((made, filled), False)]:
        program = graph_of("torch", ONES, *steps, outputs=("y",))
        assert bool(left_open_by_graph(program, {"y"}, {})) == is_open


@pytest.mark.slow
def test_a_cache_that_the_environment_names_is_not_asked_for(monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/nowhere/that/can/be/made")
    with Sandbox("inductor") as own:
        assert own.facts["version"]


# Many programs that torch compiles as one graph give what each gives alone; no failure rests on others

X = np.arange(6, dtype=np.float32).reshape(2, 3)
QUOTIENT = aten_case(
    "(float[2] a, float[2] b) => (float[2] y) { y = aten.floor_divide(a, b) }",
    {"a": np.float32([1, 6]), "b": np.float32([0.1, 0.2])},
)
TAKEN = aten_case("(float[2,3] x, int64 i) => (float y) { y = aten.take(x, i) }", {"x": X, "i": np.array(4)})
REFUSED = aten_case("(float[2,3] x) => (float[2,3] y) { y = aten.no_such_operator(x) }", {"x": X})


def sound(body: str, of: float = 1):
    return aten_case(
        f"(float[2,3] x) => (float[] y) <float[1] two = {{2}}> {{ z = Mul(x, two) y = {body} }}",
        {"x": X * of},
    )


SOUND = [
    sound("aten.flip<dims = [1]>(z)"),
    sound("aten.softmax<dim = 1>(z)", 2),
    sound("aten.var<dim = [1], correction = 0>(z)", 3),
    sound("aten.cumsum<dim = 0>(z)", 4),
]


def test_each_program_gives_what_it_gives_alone_and_a_failing_one_is_left_alone(inductor_judge):
    optioned = SOUND[3].with_passes(("config.epilogue_fusion=0",))
    cases = [SOUND[0], QUOTIENT, SOUND[1], TAKEN, REFUSED, SOUND[2], optioned]
    looks = inductor_judge.look(cases, thorough={2})
    verdicts = [inductor_judge.verdict(case) for case in cases]
    for case, look, verdict in zip(cases, looks, verdicts, strict=True):
        assert (look is not None) == (verdict.outcome is Outcome.PASS), verdict.title
        if look is not None:
            assert len(look.runs) == (4 if case is cases[2] else 2)
            for run in look.runs:
                np.testing.assert_allclose(run.outputs["y"], verdict.runs[0].outputs["y"], rtol=1e-5)
    assert sum(look is not None for look in looks) >= 4


def test_the_kernels_of_a_graph_are_compiled_by_one_call_and_those_of_a_failed_one_by_none(monkeypatch):
    torch = pytest.importorskip("torch")
    from oracles.worker.torch import joined

    texts: list[str] = []

    class Library:
        __file__, key = "library.so", "key"

    def load(text: str) -> type[Library]:
        texts.append(text)
        if "broken" in text:
            raise ValueError(text)
        return Library

    def entry(cls: type, path: str, key: str) -> SimpleNamespace:
        return SimpleNamespace(**{cls.entry_function: f"{path} {cls.entry_function}"})

    monkeypatch.setattr(joined.Bindings, "load", staticmethod(load))
    monkeypatch.setattr(joined.Bindings, "_load_library_inner", classmethod(entry))
    source = '#include <cmath>\nextern "C" void kernel(float* out) { *out = %s; }'
    make = torch._inductor.async_compile.AsyncCompile()
    with joined.joined():
        for value in ("broken", "1"):
            graph = {name: make.cpp_pybinding(["float*"], source % value) for name in ("first", "second")}
            with pytest.raises(ValueError, match="broken") if value == "broken" else nullcontext():
                make.wait(graph)
    assert len(texts) == 2
    assert graph == {"first": "library.so kernel", "second": "library.so kernel_1"}
    assert texts[1].count("#include <cmath>") == 1
    assert texts[1].count("extern") == texts[1].count("namespace of_kernel") == 2


def test_a_program_that_could_show_an_issue_to_avoid_is_not_looked_at(inductor_judge):
    drawn = [DrawnCase(seed, case, {}) for seed, case in enumerate(SOUND[:2])]
    avoided = {"flips": (re.compile("flip:.*"),)}
    first, second = looking(inductor_judge, ("onnx",), avoided)(drawn)
    assert first is None
    assert second is not None


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_block_has_the_same_failures_wherever_it_is_cut(inductor_judge):
    cases = [*SOUND, QUOTIENT, TAKEN, *SOUND[::-1]]
    whole = inductor_judge.look(cases)
    parts = [
        *inductor_judge.look(cases[:3]),
        *inductor_judge.look(cases[3:7]),
        *inductor_judge.look(cases[7:]),
    ]
    assert [look is None for look in whole] == [look is None for look in parts]
    assert [at for at, look in enumerate(whole) if look is None] == [4, 5]


# torch's ONNX exporters as a target: what they export gives what eager torch gives


def test_eager_torch_comes_first_and_an_exporter_can_be_chosen():
    labels = [config.label for config in configs_of(Target.parse("torch-onnx"), "onnx")]
    assert labels == ["eager", "dynamo", "torchscript"]
    assert len(configs_of(Target.parse("torch-onnx@exporter=dynamo"), "onnx")) == 2
    with pytest.raises(UserError, match="@exporter= is one of"):
        configs_of(Target.parse("torch-onnx@exporter=none"), "onnx")


@pytest.mark.slow
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_what_is_exported_gives_the_same(exporter):
    pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    text = "g (float[2,3] x) => (float[3,2] y) { a = Relu(x) b = Exp(a) y = Transpose(b) }"
    with Judge(Target.parse(f"torch-onnx@exporter={exporter}")) as judge:
        verdict = judge.verdict(onnx_case(text, x=np.ones((2, 3), "float32")))
    assert verdict.outcome is Outcome.PASS, verdict.title
    assert [run.config.label for run in verdict.runs] == ["eager", exporter]


@pytest.mark.slow
def test_what_the_exporter_has_no_words_for_is_no_bug():
    pytest.importorskip("torch")
    text = "g (float[2,3] x) => (float[2,3] y) { y = Asinh(x) }"
    with Judge(Target.parse("torch-onnx@exporter=torchscript")) as judge:
        verdict = judge.verdict(onnx_case(text, x=np.ones((2, 3), "float32")))
        assert verdict.outcome in (Outcome.UNSUPPORTED, Outcome.PASS), verdict.title
        plan = Plan("random", Mode.STRICT, nodes=3, legality=Legality(judge.executor.vocabulary()))
        outcomes = Counter(judge.verdict(each).outcome for each in make_cases(plan, range(10)))
    assert outcomes[Outcome.PASS] > 5


@pytest.mark.slow
def test_the_exporter_tells_which_of_torchs_own_operators_it_knows():
    pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    with Judge(Target("torch-onnx")) as judge:
        known = judge.executor.vocabulary() or frozenset()
    own = {name.removeprefix("org.pytorch.aten.") for name in known}
    assert {"add", "relu", "movedim", "sort"} <= own
    assert own.isdisjoint({"searchsorted", "kthvalue", "cummax", "mode", "*"})


@pytest.mark.slow
def test_a_program_of_torch_is_exported_as_well():
    pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    case = graph_case("torch", {"x": np.float32([1, 2, 3])}, Binding("a", "torch.neg", (ref("x"),)))
    with Judge(Target.parse("torch-onnx@exporter=dynamo"), format="torch") as judge:
        verdict = judge.verdict(case)
    assert verdict.outcome is Outcome.PASS, verdict.title


def run(label: str, value: float | None, phase: Phase = Phase.EXECUTE) -> Run:
    """A run that gives one number, or raises."""
    if value is None:
        return Run(Config(label), Status.EXCEPTION, phase, error="ValidationError", message="no such type")
    return Run(Config(label), Status.OK, phase, outputs={"y": np.float32([value])})


@pytest.mark.parametrize(
    ("failing", "independent", "said", "is_elsewhere"),
    [
        (2.0, 2.0, WRITTEN, False),
        (2.0, 1.0, RUNNER, True),
        (2.0, 3.0, "a third result", False),
        (2.0, None, "does not decide", False),
        (None, None, WRITTEN, False),
        (None, 1.0, RUNNER, True),
    ],
)
def test_an_independent_run_says_whether_the_exporter_or_the_runner_is_wrong(
    failing, independent, said, is_elsewhere
):
    outcome = Outcome.EXCEPTION if failing is None else Outcome.MISMATCH
    verdict = Verdict(outcome, Phase.EXECUTE, "t", runs=(run("eager", 1.0), run("dynamo", failing)))
    notes = say_whose(verdict, run("dynamo, by ONNX's reference evaluator", independent), Tolerance())
    assert said in notes.texts[0]
    assert (Mark.ELSEWHERE in notes.marks) is is_elsewhere


def test_what_the_exporter_itself_raises_is_asked_of_nobody_else():
    raised = (run("eager", 1.0), run("dynamo", None, Phase.OPTIMISE))
    assert not is_exported(Verdict(Outcome.EXCEPTION, Phase.OPTIMISE, "t", runs=raised))
    refused = (run("eager", 1.0), run("dynamo", None))
    assert is_exported(Verdict(Outcome.EXCEPTION, Phase.EXECUTE, "t", runs=refused))
