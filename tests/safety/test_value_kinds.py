"""Every kind of value that ONNX has goes through every move: none of them fails."""

import os
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, SparseTensorProto, TensorProto, TypeProto, helper

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
from tests.reducer.driving import drive
from tests.safety.fuzz_ourselves import SURFACES, fuzz, try_one
from triage.cli import run
from triage.store.database import Store

ML = [helper.make_opsetid("", 23), helper.make_opsetid("ai.onnx.ml", 3)]
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
    keys = [TensorProto.INT8, TensorProto.INT32, TensorProto.INT64, TensorProto.UINT64, TensorProto.STRING]
    for key in keys:
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
    info = helper.make_value_info("x", declared)
    flag, number = helper.make_tensor_value_info("c", 9, []), helper.make_tensor_value_info("f", 1, [2])
    branches = {
        f"{side}_branch": helper.make_graph(
            [helper.make_node("Identity", ["a"], [side])], side, [], [helper.make_value_info(side, declared)]
        )
        for side in ("then", "else")
    }
    nodes = [
        helper.make_node("Identity", ["x"], ["a"]),
        helper.make_node("If", ["c"], ["b"], **branches),
        helper.make_node("Relu", ["f"], ["g"]),
        helper.make_node("Identity", ["b"], ["y"]),
    ]
    inputs: dict[str, Any] = {"c": np.array(True), "f": np.array([1, 2], np.float32)}
    if name in GIVEN:
        inputs["x"] = value
    weights = []
    if name in GIVEN and isinstance(value, np.ndarray) and value.dtype.kind != "U":
        code = declared.tensor_type.elem_type or declared.optional_type.elem_type.tensor_type.elem_type
        weights.append(initializer("w", value))
        assert weights[-1].data_type == code
        nodes.append(helper.make_node("Identity", ["w"], ["v"]))
    made = [helper.make_value_info("y", declared), helper.make_tensor_value_info("g", 1, [2])]
    graph = helper.make_graph(nodes, "kinds", [info, flag, number], made, weights)
    if name == "sparse":
        graph.sparse_initializer.append(sparse_weight())
    model = helper.make_model(graph, opset_imports=ML, ir_version=10)
    values = {**inputs, "x": value, "a": value, "b": value, "y": value, "g": inputs["f"]}
    like = Case("onnx", model.SerializeToString(), inputs, Target("ort"))
    return learn(OnnxSubject(model, inputs=inputs), lambda case: Recording(values, None, True), like)[0]


def sparse_weight() -> SparseTensorProto:
    values = helper.make_tensor("s", TensorProto.FLOAT, [1], [1.0])
    return helper.make_sparse_tensor(values, helper.make_tensor("i", TensorProto.INT64, [1], [0]), [2])


def always(model: ModelProto, inputs: Mapping[str, Value]) -> bool:
    return True


def never(model: ModelProto, inputs: Mapping[str, Value]) -> bool:
    return False


def now_and_then(model: ModelProto, inputs: Mapping[str, Value]) -> bool:
    return zlib.crc32(model.SerializeToString(deterministic=True)) % 2 == 0


@pytest.mark.parametrize("kind", ROWS)
def test_a_kind_of_value_goes_through_every_move(kind):
    subject = through(kind)
    for move in MOVES.values():
        for is_interesting in (always, never, now_and_then):
            driven = drive(move, subject, is_interesting)
            driven.subject.case(Case("onnx", b"", {}, Target("ort")))


def classifier() -> Case:
    """Probabilities as a sequence of maps, beside an integer division by zero, which kills onnxruntime."""
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, [2, 3])
    numbers = [helper.make_tensor_value_info(name, TensorProto.INT32, [2]) for name in ("a", "b", "y")]
    mapping = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(1, []))
    zipped = helper.make_value_info("z", helper.make_sequence_type_proto(mapping))
    nodes = [
        helper.make_node("Softmax", ["scores"], ["p"]),
        helper.make_node("ZipMap", ["p"], ["z"], domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2]),
        helper.make_node("Neg", ["a"], ["n"]),
        helper.make_node("Div", ["n", "b"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "classifier", [scores, *numbers[:2]], [zipped, numbers[2]])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), ML[1]], ir_version=8)
    inputs = {
        "scores": np.ones((2, 3), np.float32),
        "a": np.array([1, 2], np.int32),
        "b": np.array([0, 1], np.int32),
    }
    return Case("onnx", model.SerializeToString(), inputs, Target("ort"))


@pytest.mark.parametrize(
    ("check", "left"), [("grep -q ZipMap {}", "ai.onnx.ml:ZipMap"), ("grep -q Div {}", "Div"), ("", "Div")]
)
def test_a_reduction_of_sequences_of_maps_ends_well(tmp_path, check, left):
    done = reduce_case(classifier(), tmp_path / "out", Options(check=check or None))

    assert done.is_minimal
    assert done.case.measure.ops == (left,)


# Mutated files end in an answer or in one line; what once fell stays a test

COUNT = int(os.environ.get("CRUX_FUZZ_COUNT", "20000"))


@pytest.mark.parametrize("surface", SURFACES)
def test_a_few_mutated_inputs_of_each_kind(surface):
    assert fuzz([surface], 12, 0, say=lambda text: None) == []


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_many_mutated_inputs():
    assert fuzz(list(SURFACES), COUNT, 1_000_000) == []


# What fell
@pytest.mark.parametrize(
    ("table", "column"), [("failures", "cluster"), ("signatures", "version"), ("failures", "seen")]
)
def test_a_number_in_the_database_is_one(tmp_path, table, column, capsys):
    from tests.helpers.failing import clip_exception, verdict
    from triage.bugs.failures import record_failure

    path = tmp_path / "crux.db"
    with Store(path) as store:
        record_failure(store, clip_exception(), verdict())
    with closing(sqlite3.connect(path)) as opened:
        opened.execute(f"UPDATE {table} SET {column} = '{{}}'")
        opened.commit()
    assert run(["triage", "--db", str(path)]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_a_schema_that_is_no_text_is_damage(tmp_path, capsys):
    path = tmp_path / "crux.db"
    Store(path).close()
    content = path.read_bytes()
    at = content.index(b"CREATE TABLE")
    path.write_bytes(content[:at] + b"\xff" + content[at + 1 :])
    assert run(["triage", "--db", str(path)]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


FELL = (*("relax/127011", "results/501893", "database bytes/502457", "database values/116716", "tir/11908"),)


@pytest.mark.parametrize("name", FELL)
def test_what_fell_does_not_fall_again(name):
    surface, seed = name.rsplit("/", 1)
    assert try_one(surface, int(seed)) is None
