"""The table of operators has a row for whatever the generators draw and ONNX defines."""

from __future__ import annotations

import onnx
import pytest
from onnx import helper

from generators.ops import all_operators, aten_operators
from oracles.numerics.operators import OPERATORS, operator_of
from oracles.numerics.operators.row import UNKNOWN, Nonfinite, Rounding
from oracles.worker.onnx.domain import DOMAIN

MADE = sorted(operator.name for operator in (*all_operators(), *aten_operators()))
SCHEMAS = sorted({(schema.domain, schema.name) for schema in onnx.defs.get_all_schemas()})


@pytest.mark.parametrize("name", MADE)
def test_every_operator_of_the_generators_is_known(name: str) -> None:
    domain, _, short = name.rpartition(".")
    assert operator_of(helper.make_node(short, [], [], domain=domain)).is_known


def test_every_operator_of_onnx_has_a_row() -> None:
    missing = [(domain, name) for domain, name in SCHEMAS if name not in OPERATORS.get(domain, {})]
    assert not missing, "add a row, UNKNOWN if nobody has looked"


def test_rows_name_operators_that_there_are() -> None:
    made = {tuple(name.rpartition(".")[::2]) for name in MADE}
    for domain, rows in OPERATORS.items():
        if domain not in ("ai.onnx", "com.microsoft"):  # a second name; another package's operators
            there_are = {name for owner, name in {*SCHEMAS, *made} if owner == domain}
            assert rows.keys() <= there_are


def test_the_operators_that_nobody_has_looked_at_are_these() -> None:
    unknown = {name for name, row in OPERATORS[""].items() if not row.is_known}
    assert unknown == {"ImageDecoder"}
    assert operator_of(helper.make_node("Add", [], [], domain="somebody.s")) is UNKNOWN


@pytest.mark.parametrize(
    ("node", "rounding"),
    [
        (helper.make_node("ScatterElements", ["x", "i", "u"], ["y"]), Rounding.NOTHING),
        (helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], reduction="none"), Rounding.NOTHING),
        (helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], reduction="add"), Rounding.TERMS),
        (helper.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction="add"), Rounding.TERMS),
        (helper.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction="mul"), Rounding.INSIDE),
        (helper.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction="max"), Rounding.NOTHING),
        (helper.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction="average"), Rounding.UNKNOWN),
        (helper.make_node("Upsample", ["x", "s"], ["y"]), Rounding.NOTHING),
        (helper.make_node("Upsample", ["x", "s"], ["y"], mode="linear"), Rounding.INSIDE),
    ],
)
def test_attributes_decide_how_a_node_rounds(node: onnx.NodeProto, rounding: Rounding) -> None:
    assert operator_of(node).rounding is rounding


def test_a_scatter_sums_no_more_terms_than_it_has_updates() -> None:
    elements = helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], reduction="add")
    slices = helper.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction="add")
    dims = ((5, 4), (3, 2), (3, 2))
    assert [operator_of(node).terms(node, dims) for node in (elements, slices)] == [7, 4]  # type: ignore[misc]


@pytest.mark.parametrize("domain", OPERATORS)
def test_a_row_contradicts_itself_nowhere(domain: str) -> None:
    for name, row in OPERATORS[domain].items():
        assert row.terms is None or row.is_sum or row.rounding is Rounding.INSIDE, name
        assert row.nonfinite is Nonfinite.OPEN or row.rounding is Rounding.NOTHING, name
        assert row.is_known or row == UNKNOWN, name
        assert not row.asks_dims or row.rounding is Rounding.NOTHING, name


def test_torch_s_own_operators_share_no_name_with_onnx() -> None:
    assert not OPERATORS[DOMAIN].keys() & OPERATORS[""].keys()
