"""Where an optimised program parts from its original, told by the values of both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pytest

from corpus.values import Tensor
from oracles.judge import Judge
from oracles.numerics.compare import Tolerance
from oracles.probes.record import record
from reducer.subject.onnx.divergence import DivergedTensors, find_divergence
from tests.reducer.driving import ORT, case_of, model_of, subject_of

ORIGINAL = (
    "g (float[3] x) => (float[3] y) <float[3] w = {1,2,4}> {"
    " a = Neg (x) b = Div (a, w) c = Erf (b) d = Mul (c, w) e = Exp (d) y = Abs (e) }"
)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(ORT) as made:
        yield made


def part(judge: Judge, original: str, optimised: str) -> DivergedTensors:
    inputs: Mapping[str, Tensor] = {"x": np.array([1, -2, 3], np.float32)}
    case, other = case_of(model_of(original), inputs), case_of(model_of(optimised), inputs)
    values = record(judge.executor, other).values
    return find_divergence(subject_of(judge, case), model_of(optimised), values, Tolerance())


@pytest.mark.parametrize(
    ("optimised", "expected"),
    {
        "nothing is wrong": (ORIGINAL, DivergedTensors()),
        "a node gone wrong": (ORIGINAL.replace("Erf", "Tanh"), DivergedTensors(("c",))),
        "several nodes became one": (
            ORIGINAL.replace("b = Div (a, w) c = Erf (b) d = Mul (c, w)", "d = Erf (a)"),
            DivergedTensors(("b", "c", "d")),
        ),
        "what only the optimised program has is seen through": (
            ORIGINAL.replace("b = Div (a, w) c = Erf (b)", "t = Erf (a) u = Identity (t) c = Identity (u)"),
            DivergedTensors(("b", "c")),
        ),
        "a folded constant under another name is no change": (
            ORIGINAL.replace("w = {1,2,4}", "v = {1,2,4}").replace(", w)", ", v)").replace("Exp", "Sin"),
            DivergedTensors(("e",)),
        ),
    }.values(),
)
def test_a_parting_names_what_was_rewritten_and_what_shows_it(
    judge: Judge, optimised: str, expected: DivergedTensors
) -> None:
    assert part(judge, ORIGINAL, optimised) == expected


def test_what_is_wrong_within_the_tolerance_is_named_with_what_makes_it_grow(judge: Judge) -> None:
    grows = (
        "g (float[3] x) => (float[3] y) <float[3] w = {2,2,2}, float[1] k = {1.009}> {"
        " a = Mul (x, w) b = Neg (a) c = Identity (b) d = Exp (c) y = Abs (d) }"
    )
    rewritten = grows.replace("b = Neg (a)", "t = Neg (a) b = Mul (t, k)")
    assert part(judge, grows, rewritten) == DivergedTensors(("b",), ("c", "d"))
