"""Models of every kind reduce to what the failure needs: sequences, strings, packed types, domains."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from corpus.case import Case
from corpus.formats.onnx import parse
from corpus.values import Value
from oracles.judge import Judge
from reducer.api import reduce_case
from reducer.options import Options
from tests.reducer.driving import Counting, case_of, engine_for, has, model_of, run_to_end, subject_of

CHAIN = " ".join(f"{{to}}{at + 1} = {op} ({{to}}{at})" for at, op in enumerate(("Abs", "Neg", "Abs", "Neg")))


def chain(name: str) -> str:
    """Four nodes that do not matter, from `name`0 to `name`4."""
    return CHAIN.replace("{to}", name)


@dataclass(frozen=True)
class Kind:
    """A model, the operators that its failure needs, and the fewest nodes that have them."""

    case: Case
    needs: tuple[str, ...]
    least: int


def of_text(text: str, *needs: str, least: int, header: str | None = None, **inputs: Value) -> Kind:
    model = model_of(text, header) if header else model_of(text)
    return Kind(case_of(model, inputs or None), needs, least)


def sequences() -> Kind:
    text = f"""g (float[4] a0) => (float[] y) {{ {chain("a")} b = Identity (a4) s = SequenceConstruct (a4, b)
        n = Constant <value_int = 1> () t = SequenceInsert (s, a2) e = SequenceAt (t, n)
        c0 = Neg (e) {chain("c")} y = Identity (c4) }}"""
    return of_text(text, "SequenceInsert", least=1)


def sequence_input() -> Kind:
    text = f"""g (seq(float[2]) s) => (float[] y) {{ n = Constant <value_int = 1> () e = SequenceAt (s, n)
        a0 = Abs (e) {chain("a")} y = Neg (a4) }}"""
    members = [np.ones(2, np.float32), np.full(2, 2, np.float32)]
    return of_text(text, "SequenceAt", least=1, s=members)


def optionals() -> Kind:
    text = f"""g (float[4] a0) => (float[4] y) {{ {chain("a")} o = Optional (a4) e = OptionalGetElement (o)
        c0 = Neg (e) {chain("c")} y = Identity (c4) }}"""
    return of_text(text, "Optional", "OptionalGetElement", least=2)


def strings() -> Kind:
    text = """g (string[6] a) => (int64[N] y) { b = Identity (a) c = StringNormalizer <case_change_action =
        "LOWER"> (b) u, i, v, n = Unique (c) d = Identity (v) e = Abs (d) y = Neg (e) }"""
    words = np.array(["Ab", "c", "Ab", "D", "e", "c"], dtype=object)
    return of_text(text, "StringNormalizer", least=1, a=words)


def quantised(element: int, opset: int, ir: int) -> Kind:
    """QuantizeLinear to a packed type and back, amid other nodes."""
    scale = numpy_helper.from_array(np.array(0.5, np.float32), "scale")
    zero = helper.make_tensor("zero", element, [], [0])
    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("Neg", ["a"], ["b"]),
        helper.make_node("QuantizeLinear", ["b", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        helper.make_node("Abs", ["d"], ["e"]),
        helper.make_node("Neg", ["e"], ["y"]),
    ]
    shape = [2, 3]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [scale, zero],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)
    return Kind(case_of(model), ("QuantizeLinear", "DequantizeLinear"), 2)


def packed_weight() -> Kind:
    """A weight of four bits, dequantised for a MatMul."""
    weight = helper.make_tensor("w", TensorProto.INT4, [4, 4], list(range(-8, 8)))
    scale = numpy_helper.from_array(np.array(0.5, np.float32), "scale")
    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("DequantizeLinear", ["w", "scale"], ["d"]),
        helper.make_node("MatMul", ["a", "d"], ["m"]),
        helper.make_node("Neg", ["m"], ["y"]),
    ]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 4]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], [weight, scale])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return Kind(case_of(model), ("DequantizeLinear", "MatMul"), 2)


def contributed() -> Kind:
    text = f"""g (float[2,4] a0) => (float[2,4] y) {{ {chain("a")} b = com.microsoft.Gelu (a4)
        c0 = com.microsoft.QuickGelu (b) {chain("c")} y = Identity (c4) }}"""
    return of_text(text, "QuickGelu", least=1)


UNKNOWN = '<ir_version: 8, opset_import: ["" : 17, "house.own" : 3]>'


def unknown_domain() -> Kind:
    """No backend runs it and no inference types it: by structure alone."""
    text = f"""g (float[2,4] a0) => (float[2,4] y) {{ {chain("a")} b = house.own.Fold <depth = 3> (a4)
        c0 = house.own.Twist (b) {chain("c")} y = Identity (c4) }}"""
    return of_text(text, "Twist", least=1, header=UNKNOWN)


KINDS = {
    "sequences": sequences,
    "a sequence flows in": sequence_input,
    "optionals": optionals,
    "strings": strings,
    "int4": lambda: quantised(TensorProto.INT4, 21, 10),
    "uint4": lambda: quantised(TensorProto.UINT4, 21, 10),
    "float8": lambda: quantised(TensorProto.FLOAT8E4M3FN, 19, 9),
    "a weight of four bits": packed_weight,
    "com.microsoft": contributed,
}


@pytest.mark.parametrize("name", KINDS)
def test_what_the_failure_needs_is_left(judge: Judge, name: str) -> None:
    kind = KINDS[name]()
    with engine_for(judge, kind.case, Counting(has(*kind.needs))) as engine:
        found = run_to_end(engine, subject_of(judge, kind.case))
    left = [node.op_type for node in found.nodes]
    assert (len(left), set(kind.needs) <= set(left), engine.is_minimal) == (kind.least, True, True)


def test_a_model_that_no_backend_runs_is_reduced_by_structure(tmp_path: Path) -> None:
    kind = unknown_domain()
    check = "grep -q Twist {}"
    done = reduce_case(kind.case, tmp_path / "out", Options(check=check))
    assert [node.op_type for node in parse(done.case.program).graph.node] == ["Twist"]
    assert done.is_minimal
