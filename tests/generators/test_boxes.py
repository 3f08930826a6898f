"""Boxes: what an operator gives lies in the box it says, and what no box holds no inputs give."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from generators.finite.boxes import Box, point
from generators.finite.contracting import Boxes, contract, start
from generators.finite.one_operand import MONOTONE, PRINCIPAL
from generators.finite.solving import solve
from generators.finite.two_operands import FORWARD

SIDE = 4
UNARY = {**{name: each.forward for name, each in MONOTONE.items()}, "Abs": np.abs, "Floor": np.floor}
UNARY |= {"Relu": lambda x: np.maximum(x, 0), "Reciprocal": np.reciprocal, "Sin": np.sin, "Cos": np.cos}
UNARY |= {"Tan": np.tan}
BINARY = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Pow": np.power}


def node(name: str, *operands: str) -> onnx.NodeProto:
    return helper.make_node(name, list(operands), ["z"])


def around(value: np.ndarray, rng: np.random.Generator) -> Box:
    return Box(value - rng.uniform(0, 2, value.shape), value + rng.uniform(0, 2, value.shape))


def holds(box: Box, value: np.ndarray) -> bool:
    slack = 1e-5 * np.abs(value) + 1e-30
    return bool(((value >= box.low - slack) & (value <= box.high + slack)).all())


@pytest.mark.parametrize("name", sorted(UNARY))
def test_what_is_so_is_never_ruled_out_of_one_operand(name: str) -> None:
    """Whatever is known of operand and result beforehand, as long as it is true."""
    assert set(PRINCIPAL) <= set(UNARY)
    rng = np.random.default_rng(1)
    for size in (0.3, 1.0, 3.0, 20.0):
        with np.errstate(all="ignore"):
            x = rng.uniform(-size, size, 200)
            x = x[np.isfinite(UNARY[name](x))]
            z = UNARY[name](x)
        boxes: Boxes = {"x": around(x, rng), "z": around(z, rng)}
        assert contract([node(name, "x")], boxes, {}, is_exact=True)
        assert holds(boxes["x"], x)
        assert holds(boxes["z"], z)


@pytest.mark.parametrize("name", sorted(BINARY))
def test_nor_of_two(name: str) -> None:
    assert set(BINARY) == set(FORWARD)
    rng = np.random.default_rng(2)
    for size in (0.5, 2.0, 8.0):
        x, y = (rng.uniform(-size, size, 200) for _ in range(2))
        with np.errstate(all="ignore"):
            y = np.where(rng.random(200) < 0.4, np.rint(y), y) if name == "Pow" else y
            kept = np.isfinite(BINARY[name](x, y))
        x, y = x[kept], y[kept]
        z = BINARY[name](x, y)
        is_known = rng.random(x.shape) < 0.5
        wide = around(y, rng)
        other = Box(np.where(is_known, y, wide.low), np.where(is_known, y, wide.high))
        boxes: Boxes = {"x": around(x, rng), "y": other, "z": around(z, rng)}
        assert contract([node(name, "x", "y")], boxes, {}, is_exact=True)
        for key, value in (("x", x), ("y", y), ("z", z)):
            assert holds(boxes[key], value)


def test_nor_of_a_product_with_a_matrix() -> None:
    rng = np.random.default_rng(3)
    x, weights = rng.normal(size=(5, 4)), rng.normal(size=(4, 4))
    boxes: Boxes = {"x": around(x, rng), "y": point(weights), "z": around(x @ weights, rng)}
    assert contract([node("MatMul", "x", "y")], boxes, {}, is_exact=True)
    assert holds(boxes["x"], x)
    assert holds(boxes["z"], x @ weights)


def model_of(nodes: str, *weights: np.ndarray) -> onnx.ModelProto:
    graph = onnx.parser.parse_graph(f"g (float[4,4] x, float[4,4] y) => (float[4,4] z) {{ {nodes} }}")
    graph.initializer.extend(
        numpy_helper.from_array(each.astype(np.float32), f"w{at}") for at, each in enumerate(weights)
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


def boxes_of(model: onnx.ModelProto) -> Boxes:
    weights = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    return start(weights, {each.name: (SIDE, SIDE) for each in model.graph.input})


@pytest.mark.parametrize(
    "nodes",
    [
        "a = Sigmoid(y) b = Exp(y) c = Mul(b, b) d = Neg(c) z = Log(d)",
        "a = Acosh(y) b = Sub(a, a) z = Reciprocal(b)",
        "a = Exp(y) b = Acos(a) c = Sub(y, w0) z = Atanh(c)",
        "a = Relu(x) b = Neg(a) c = Atanh(b) z = Acosh(a)",
    ],
)
def test_of_some_programs_nothing_is_left(nodes: str) -> None:
    """The third: y is at most 0, and within 1 of 2.5."""
    model = model_of(nodes, np.full((SIDE, SIDE), 2.5))
    assert not contract(list(model.graph.node), boxes_of(model), {}, is_exact=False)


def test_nothing_is_solved_of_programs_of_which_nothing_is_left() -> None:
    model = model_of("a = MatMul(y, w0) b = Sub(a, a) z = Reciprocal(b)", np.eye(SIDE))
    assert solve(list(model.graph.node), boxes_of(model), {}, ["x", "y"]) is None


RNG = np.random.default_rng(4)
MATRIX = RNG.uniform(-3, 3, (SIDE, SIDE))


@pytest.mark.parametrize(
    ("nodes", "function"),
    [
        (
            "a = Acosh(y) b = MatMul(a, w0) c = MatMul(b, w0) z = Atanh(c)",
            lambda x, y: np.arctanh(np.arccosh(y) @ MATRIX @ MATRIX),
        ),
        (
            "a = Floor(y) b = Log(a) c = Mul(b, w0) d = Reciprocal(c) z = Acos(d)",
            lambda x, y: np.arccos(1 / (np.log(np.floor(y)) * MATRIX)),
        ),
        (
            "a = Acos(y) b = Sigmoid(a) c = Add(b, x) d = Acos(c) e = Sqrt(d) z = Log(e)",
            lambda x, y: np.log(np.sqrt(np.arccos(1 / (1 + np.exp(-np.arccos(y))) + x))),
        ),
    ],
    ids=["two products", "a hole around zero", "two inputs"],
)
def test_what_no_draw_meets_is_solved(nodes: str, function: object) -> None:
    model = model_of(nodes, MATRIX)
    found = solve(list(model.graph.node), boxes_of(model), {}, ["x", "y"])
    assert found is not None
    assert callable(function)
    assert np.isfinite(function(found["x"], found["y"])).all()
