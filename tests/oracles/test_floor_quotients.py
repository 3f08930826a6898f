"""Floors of quotients in larger programs: another whole number is a bug unless rounding explains it."""

from __future__ import annotations

import numpy as np
import pytest

from corpus.case import Case
from corpus.graphs.program import REF, Binding, Graph, GraphProgram, Input
from corpus.target import Target
from oracles.judge import Judge
from oracles.numerics.floor_quotients import FloorQuotient, floor_quotient, is_wrong_floor
from oracles.verdict import Outcome

Q = FloorQuotient("q", "torch.floor_divide", ("a", "b"))
TENTH = np.float32([0.1])


def told(a: float, b: float, q: float) -> dict[str, np.ndarray]:
    return {"a": np.float32([a]), "b": np.float32([b]), "q": np.float32([q])}


@pytest.mark.parametrize(
    ("a", "true_a", "right", "wrong", "is_wrong"),
    [
        (1.05, 1.05, 10, 11, True),  # clear of a whole number, wherever the operand came from
        (1.0, 1.0, 9, 10, True),  # near one, but the operand was not rounded
        (1.0, 1.00000001, 9, 10, False),  # near one, and the operand was
        (1.05, 1.05, 11, 10, False),  # the other side is wrong
        (1.05, 1.05, 10, 10.5, False),  # no step to another whole number
    ],
)
def test_what_rounding_explains(a: float, true_a: float, right: float, wrong: float, is_wrong: bool) -> None:
    true = {"a": np.float64([np.float32(a) if true_a == a else true_a]), "b": TENTH}
    found = is_wrong_floor(Q, told(a, 0.1, right), told(a, 0.1, wrong), true)
    assert (found is not None) is is_wrong


def test_operands_that_differ_tell_nothing() -> None:
    assert is_wrong_floor(Q, told(1.05, 0.1, 10), told(1.15, 0.1, 11), {}) is None


def test_only_floors_of_quotients_are_looked_at() -> None:
    a, b = {REF: "a"}, {REF: "b"}
    assert floor_quotient(Binding("q", "operator.floordiv", (a, 2))) is not None
    assert floor_quotient(Binding("q", "torch.div", (a, b), {"rounding_mode": "floor"})) is not None
    assert floor_quotient(Binding("q", "torch.div", (a, b), {"rounding_mode": "trunc"})) is None
    assert floor_quotient(Binding("q", "torch.rfloordiv", (a, b))) is None


def hidden_quotient() -> Case:
    """Divide a sum that is exact, and hide the quotient in a sine."""
    bindings = (
        Binding("c", "torch.add", ({REF: "a"}, {REF: "d"})),
        Binding("q", "torch.floor_divide", ({REF: "c"}, {REF: "b"})),
        Binding("s", "torch.sin", ({REF: "q"},)),
        Binding("y", "torch.add", ({REF: "s"}, {REF: "a"})),
    )
    inputs = tuple(Input(name, "float32", (2,)) for name in ("a", "d", "b"))
    program = GraphProgram("torch", Graph(inputs, bindings, ("y",)))
    values = {"a": np.float32([0, 5]), "d": np.float32([1, 1]), "b": np.float32([0.1, 0.1])}
    return Case("torch", program.to_bytes(), values, Target("inductor"))


@pytest.mark.slow
def test_a_wrong_quotient_of_what_was_computed_exactly_is_a_bug() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    with Judge(Target("inductor")) as judge:
        verdict = judge.verdict(hidden_quotient())
    if verdict.outcome is Outcome.PASS and "rounding" not in verdict.notes:
        pytest.skip("the installed release does not show the bug")
    assert verdict.outcome is Outcome.MISMATCH
    assert verdict.wrong is not None
    assert (verdict.wrong.operator, verdict.wrong.truth) == ("torch.floor_divide", "the exact quotient")
