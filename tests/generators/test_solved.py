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
from oracles.operators import all_operators
from oracles.relation.program import LAST_OPSET
from oracles.relation.types import NARROW, TENSORS, DType

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


@pytest.mark.slow
def test_every_element_type_that_the_planned_operators_take_is_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planned = Counter[tuple[str, DType]]()
    place = Realising._place

    def counted(self: Realising, at: int, node: Planned, name: str) -> bool:
        is_placed = place(self, at, node, name)
        if is_placed and node.operands:
            planned[name, node.operands[0].dtype] += 1
        return is_placed

    monkeypatch.setattr(Realising, "_place", counted)
    for _ in find_strategy("smt")(range(300), 10, None, UNLIMITED):
        pass
    met = {name for name, _ in planned}
    takes = {
        (each.name, dtype)
        for each in all_operators()
        if each.name in met
        for dtype in each.dtypes_at(LAST_OPSET)
        if dtype in TENSORS
    }
    assert {dtype for _, dtype in takes} == {dtype for _, dtype in planned}
    rare = {pair for pair in takes if pair[1] in NARROW}
    assert len(rare & planned.keys()) >= 0.6 * len(rare), rare - planned.keys()


def test_an_element_type_that_numpy_lacks_comes_in_a_part_of_the_programs() -> None:
    held = Counter[DType]()
    for program in find_strategy("smt")(range(60), 6, None, UNLIMITED):
        graph = program.model.graph  # type: ignore[union-attr]
        codes = {each.type.tensor_type.elem_type for each in (*graph.input, *graph.value_info, *graph.output)}
        codes |= {each.data_type for each in graph.initializer}
        held.update(dtype for dtype in NARROW if int(dtype) in codes)
    assert len(held) >= 5, held


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
