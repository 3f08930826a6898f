"""Programs whose sizes a solver finds: operators, element types, attributes, and whole plans that hold."""

from __future__ import annotations

from collections import Counter
from importlib.util import find_spec

import pytest

from generators.language.budget import UNLIMITED
from generators.language.counts import qualified_name
from generators.solved import realising
from generators.solved.plan import Planned
from generators.solved.realising import RELATIONS, Realising
from generators.strategies import find_strategy

pytestmark = pytest.mark.skipif(find_spec("z3") is None, reason="z3 is not installed")


@pytest.mark.slow
def test_a_plan_knows_over_a_hundred_and_twenty_operators_and_most_of_it_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    placed, lost = Counter[str](), Counter[str]()
    place = Realising._place

    def counted(self: Realising, at: int, planned: Planned, name: str) -> bool:
        is_placed = place(self, at, planned, name)
        (placed if is_placed else lost)[name] += 1
        return is_placed

    monkeypatch.setattr(Realising, "_place", counted)
    for _ in find_strategy("smt")(range(400), 10, None, UNLIMITED):
        pass
    assert len(placed) >= 120
    assert lost.total() < 0.15 * placed.total()


def test_every_relation_finds_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = Counter[str]()
    place = Realising._place

    def counted(self: Realising, at: int, planned: Planned, name: str) -> bool:
        drawn[planned.make.__qualname__.partition(".")[0]] += 1
        return place(self, at, planned, name)

    monkeypatch.setattr(realising.Realising, "_place", counted)
    for _ in find_strategy("smt")(range(120), 10, None, UNLIMITED):
        pass
    names = {relation.__name__ for relation in RELATIONS} - {"kept", "maybe", "retyped"}
    assert len(names - drawn.keys()) <= 3, names - drawn.keys()


def test_windows_have_sizes_strides_and_pads_of_the_solver() -> None:
    kernels, pads = Counter[int](), Counter[int]()
    for program in find_strategy("smt")(range(150), 10, None, UNLIMITED):
        for node in program.model.graph.node:  # type: ignore[union-attr]
            told = {each.name: each.ints for each in node.attribute}
            if qualified_name(node) in ("Conv", "MaxPool", "AveragePool", "LpPool"):
                kernels.update(told.get("kernel_shape", ()))
                pads.update(told.get("pads", ()))
    assert len(kernels) >= 4
    assert len(pads) >= 3
