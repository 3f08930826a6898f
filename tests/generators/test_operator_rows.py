"""Of whatever the generators draw and ONNX defines it is known how it rounds."""

import numpy as np
import onnx
import pytest
from onnx import helper

from oracles.operators import all_operators, arithmetic, arithmetic_of, aten_operators
from oracles.relation.arithmetic import UNKNOWN, Nonfinite, Rounding
from oracles.worker.onnx import DOMAIN

MADE = sorted(operator.name for operator in (*all_operators(), *aten_operators()))
SCHEMAS = sorted(f"{each.domain}.{each.name}".lstrip(".") for each in onnx.defs.get_all_schemas())


@pytest.mark.parametrize("name", MADE)
def test_every_operator_of_the_generators_is_known(name):
    domain, _, short = name.rpartition(".")
    assert arithmetic_of(helper.make_node(short, [], [], domain=domain)).is_known


def test_every_operator_of_onnx_has_its_arithmetic():
    missing = [name for name in SCHEMAS if name not in arithmetic()]
    assert not missing, "say how it rounds; UNKNOWN if nobody has looked"


def test_what_is_declared_is_an_operator_that_there_is():
    elsewhere = {name for name in arithmetic() if name.startswith("com.microsoft.")}
    assert arithmetic().keys() - elsewhere <= {*SCHEMAS, *MADE}


def test_the_operators_that_nobody_has_looked_at_are_these():
    unknown = {name for name, row in arithmetic().items() if "." not in name and not row.is_known}
    assert unknown == {"ImageDecoder"}
    assert arithmetic_of(helper.make_node("Add", [], [], domain="somebody.s")) is UNKNOWN


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
def test_attributes_decide_how_a_node_rounds(node, rounding):
    assert arithmetic_of(node).rounding is rounding


TWICE, ONCE, DATA = np.array([1, 1]), np.array([1, 0]), np.ones((2, 2), "float32")


@pytest.mark.parametrize(
    ("name", "operands", "attributes", "is_open"),
    [
        ("index_put", (DATA, TWICE, DATA), {}, True),
        ("index_put", (DATA, TWICE, DATA), {"accumulate": 1}, False),
        ("index_put", (DATA, TWICE, ONCE, DATA[0]), {}, False),
        ("index_put", (DATA, None, TWICE, DATA), {}, True),
        ("index_put", (DATA, DATA > 0, DATA[0, 0]), {}, False),
        ("put", (DATA, np.array([0, -4]), DATA[0]), {}, True),
        ("put", (DATA, ONCE, DATA[0]), {}, False),
        ("scatter", (DATA, np.stack([TWICE, ONCE]), DATA), {"dim": 1}, True),
        ("scatter", (DATA, np.stack([ONCE, ONCE]), DATA), {"dim": 1}, False),
        ("scatter", (DATA, np.stack([TWICE, TWICE])), {"dim": 1, "value": 2.0}, False),
        ("max_unpool2d", (DATA[None], np.stack([TWICE, ONCE])[None]), {}, True),
        ("_to_copy", (DATA * 300,), {"dtype": 2}, True),
        ("_to_copy", (DATA,), {"dtype": 2}, False),
    ],
)
def test_of_what_torch_writes_only_two_values_in_one_place_are_left_open(name, operands, attributes, is_open):
    node = helper.make_node(name, ["x"] * len(operands), ["y"], domain=DOMAIN, **attributes)
    assert any(check(node, operands) for check in arithmetic_of(node).opens.values()) is is_open


def test_a_scatter_sums_no_more_terms_than_it_has_updates():
    elements = helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], reduction="add")
    slices = helper.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction="add")
    dims = ((5, 4), (3, 2), (3, 2))
    assert [arithmetic_of(node).terms(node, dims) for node in (elements, slices)] == [7, 4]  # type: ignore[misc]


def test_arithmetic_contradicts_itself_nowhere():
    for name, row in arithmetic().items():
        assert row.terms is None or row.is_sum or row.rounding is Rounding.INSIDE, name
        assert row.nonfinite is Nonfinite.OPEN or row.rounding is Rounding.NOTHING, name
        assert row.is_known or row == UNKNOWN, name
        assert not row.asks_dims or row.rounding is Rounding.NOTHING, name


def test_torch_s_own_operators_share_no_name_with_onnx():
    own = {name.removeprefix(f"{DOMAIN}.") for name in arithmetic() if name.startswith(DOMAIN)}
    assert not own & arithmetic().keys()
