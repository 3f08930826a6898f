"""Every kind of value that ONNX has goes through every move: none of them fails."""

import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, TypeProto, helper

from corpus.case import Case
from corpus.onnx.types import DTYPES, STRING, dtype_name
from corpus.target import Target
from corpus.values import Tensor, Value
from oracles.probes.record import Recording
from reducer.api import reduce_case
from reducer.course import Options
from reducer.moves import all_moves, anonymizing_moves
from reducer.subject.base import initializer
from reducer.subject.onnx.divergence import learn
from reducer.subject.onnx.subject import OnnxSubject
from tests.helpers.models import case_of, model_of
from tests.reducer.driving import drive

MOVES = {move.name: move for move in (*all_moves(OnnxSubject), *anonymizing_moves())}


def array(code: int) -> Tensor:
    if code == STRING:
        return np.array(["a", "b"] * 5)
    return (np.arange(10) % 2).astype(DTYPES[code])


def tensor_kinds() -> Iterator[tuple[str, TypeProto, Value]]:
    """Tensors of every type, and what holds them."""
    for code in DTYPES:
        name, value = dtype_name(code), array(code)
        tensor = helper.make_tensor_type_proto(code, [10])
        yield name, tensor, value
        yield f"{name} scalar", helper.make_tensor_type_proto(code, []), value[0:1].reshape(())
        yield f"no {name}", helper.make_tensor_type_proto(code, [0]), value[:0]
        sequence = helper.make_sequence_type_proto(tensor)
        yield f"sequence of {name}", sequence, [value, value]
        yield f"empty sequence of {name}", sequence, []
        yield f"optional {name}", helper.make_optional_type_proto(tensor), value
        yield f"absent {name}", helper.make_optional_type_proto(tensor), None
        yield f"optional sequence of {name}", helper.make_optional_type_proto(sequence), [value]


def odd_kinds() -> Iterator[tuple[str, TypeProto, Any]]:
    """What no file of inputs holds: it flows between nodes."""
    number = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    for key in (TensorProto.INT64, TensorProto.STRING):
        mapping = helper.make_map_type_proto(key, number)
        member = {"a": 0.5} if key == TensorProto.STRING else {1: 0.5}
        yield f"map of {dtype_name(key)}", mapping, member
        yield f"sequence of maps of {dtype_name(key)}", helper.make_sequence_type_proto(mapping), [member]
    listed = helper.make_sequence_type_proto(number)
    yield "sequence of sequences", helper.make_sequence_type_proto(listed), [[np.float32(1)]]
    yield "optional map", helper.make_optional_type_proto(mapping), {"a": 0.5}
    yield "sparse", helper.make_sparse_tensor_type_proto(TensorProto.FLOAT, [10]), array(1)
    yield "no type", TypeProto(), array(1)
    yield "an undefined element", helper.make_tensor_type_proto(0, [10]), array(1)
    yield "an unknown element", helper.make_tensor_type_proto(99, [10]), array(1)


KINDS = {name: (declared, value) for name, declared, value in (*tensor_kinds(), *odd_kinds())}
QUICK = {"sequence of string", "complex64", "absent int4", "map of string"}
"""Those that the default suite has time for."""
ROWS = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in KINDS]
GIVEN = {name for name, *_ in tensor_kinds()}


def through(name: str) -> OnnxSubject:
    """A model through which the kind flows: as an input where it may be one, a weight, an If's result."""
    declared, value = KINDS[name]
    model = model_of(
        """g (float x, bool c, float[2] f) => (float y, float[2] g) { a = Identity (x)
        b = If (c) <then_branch = t () => (float p) { p = Identity (a) },
            else_branch = e () => (float q) { q = Identity (a) }>
        g = Relu (f) y = Identity (b) }""",
        23,
        10,
        "ai.onnx.ml",
    )
    bodies = [item.g.output[0] for item in model.graph.node[1].attribute]
    for info in (model.graph.input[0], model.graph.output[0], *bodies):
        info.type.CopyFrom(declared)
    inputs: dict[str, Any] = {"c": np.array(True), "f": np.array([1, 2], np.float32)}
    inputs |= {"x": value} if name in GIVEN else {}
    if name in GIVEN and isinstance(value, np.ndarray) and value.dtype.kind != "U":
        model.graph.initializer.append(initializer("w", value))
        model.graph.node.append(helper.make_node("Identity", ["w"], ["v"]))
    values = {**inputs, "x": value, "a": value, "b": value, "y": value, "g": inputs["f"]}
    like = Case("onnx", model.SerializeToString(), inputs, Target("ort"))
    return learn(OnnxSubject(model, inputs=inputs), lambda case: Recording(values, None, True), like)[0]


def now_and_then(model: ModelProto, inputs: Mapping[str, Value]) -> bool:
    return zlib.crc32(model.SerializeToString(deterministic=True)) % 2 == 0


@pytest.mark.parametrize("kind", ROWS)
def test_a_kind_of_value_goes_through_every_move(kind):
    subject = through(kind)
    for move in MOVES.values():
        for is_interesting in (lambda *_: True, lambda *_: False, now_and_then):
            driven = drive(move, subject, is_interesting)
            driven.subject.case(Case("onnx", b"", {}, Target("ort")))


CLASSIFIER = """g (float[2,3] scores, int32[2] a, int32[2] b) => (seq(map(int64, float)) z, int32[2] y) {
    p = Softmax (scores) z = ai.onnx.ml.ZipMap <classlabels_int64s = [0, 1, 2]> (p)
    n = Neg (a) y = Div (n, b) }"""
"""Probabilities as a sequence of maps, beside an integer division by zero, which kills onnxruntime."""


@pytest.mark.parametrize(("check", "left"), [("grep -q ZipMap {}", "ai.onnx.ml:ZipMap"), ("", "Div")])
def test_a_reduction_of_sequences_of_maps_ends_well(tmp_path, check, left):
    numbers = {"a": np.array([1, 2], np.int32), "b": np.array([0, 1], np.int32)}
    case = case_of(
        CLASSIFIER, domains="ai.onnx.ml", target=Target("ort"), scores=np.ones((2, 3), np.float32), **numbers
    )
    done = reduce_case(case, tmp_path / "out", Options(check=check or None))

    assert done.is_minimal
    assert done.case.measure.ops == (left,)
