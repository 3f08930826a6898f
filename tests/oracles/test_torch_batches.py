"""Many programs that torch compiles as one graph give what each gives alone; no failure rests on others."""

import re
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from generators.mixture import DrawnCase
from oracles.verdict import Outcome
from tests.helpers.models import aten_case
from triage.campaigns.testers import looking

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
