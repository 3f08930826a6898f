"""Modules of StableHLO: MLIR's text becomes data in a worker, runs, and is text again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from corpus.case import Case
from corpus.errors import UserError
from corpus.formats.stablehlo import calls_outside
from corpus.graphs.program import parse_program
from corpus.load import open_case
from corpus.target import Target
from oracles.judge import Judge
from oracles.numerics.rewrites import RANDOM, left_open_by_graph
from oracles.sandbox.scripts import open_foreign
from oracles.verdict import Limits, Outcome
from tests.helpers.commands import needs

IREE, XLA = Target("iree"), Target("xla")
LIMITS = Limits()

MODULE = Path(__file__).with_name("module.mlir").read_text()


def opened(text: str | bytes, folder: Path, target: Target = IREE) -> Case:
    """The case of a module's text, as a command opens it: without trust."""
    path = folder / "module.mlir"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())

    def importer(name: str, file: Path) -> object:
        return open_foreign(target, LIMITS, name, file)

    return open_case(path, importer=importer, target=target)


T23, HUGE = "tensor<2x3xf32>", "tensor<100000x100000xf32>"


def one(body: str, result: str, inputs: str = f"%x: {T23}") -> str:
    """A module of one function."""
    return f"func.func @main({inputs}) -> {result} {{ {body} }}"


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(IREE, format="stablehlo") as found:
        yield found


@pytest.mark.parametrize(
    "target", [pytest.param(IREE, marks=needs("iree")), pytest.param(XLA, marks=needs("jaxlib"))]
)
def test_a_module_is_data_and_runs_as_numpy_computes(target, tmp_path):
    case = opened(MODULE, tmp_path, target)
    ops = [binding.op for binding in case.parsed.main.bindings]
    assert ops == ["stablehlo.dot_general", "stablehlo.reduce", "stablehlo.while", "member", "member"]
    assert list(case.parsed.functions) == ["half"]
    with Judge(target, format="stablehlo") as judge:
        verdict = judge.verdict(case)
    assert verdict.outcome is Outcome.PASS
    x, w = (np.asarray(case.inputs[name]) for name in ("arg0", "arg1"))
    first, count = (np.asarray(each) for each in verdict.runs[-1].outputs.values())
    np.testing.assert_allclose(first, (x @ w).sum(1) / 8, rtol=1e-5)
    assert count == 3


@needs("iree")
def test_the_text_that_is_printed_is_read_as_the_same_program(tmp_path, judge):
    case = opened(MODULE, tmp_path)
    text = judge.executor.describe(case.program, case.inputs)["text"]
    again = opened(text, tmp_path)
    assert again.parsed.main.bindings[0] == case.parsed.main.bindings[0]
    assert judge.executor.describe(again.program, case.inputs)["text"] == text
    assert "loc(" not in text
    assert "sharding" not in text


@needs("iree")
@pytest.mark.parametrize("element", ["bf16", "f16", "f64", "i1", "ui8", "i64", "complex<f32>", "f8E4M3FN"])
def test_constants_keep_their_bits(element, tmp_path, judge):
    values = {"i": "[1, 0, 1]", "u": "[1, 0, 255]", "c": "[(1.0, 2.0), (0.0, -1.5), (0.0, 0.0)]"}
    told = "[true, false, true]" if element == "i1" else values.get(element[0], "[1.0, -2.5, 0.0]")
    kind = f"tensor<3x{element}>"
    text = one(
        f"%c = stablehlo.constant dense<{told}> : {kind} %0 = stablehlo.reverse %c, dims = [0] : {kind} "
        f"return %0 : {kind}",
        kind,
    )
    case = opened(text, tmp_path)
    (value,) = case.parsed.constants.values()
    plain = json.loads(told.replace("(", "[").replace(")", "]"))
    pairs = [complex(*each) for each in plain] if element[0] == "c" else plain
    assert value.tobytes() == np.array(pairs, value.dtype).tobytes()
    printed = judge.executor.describe(case.program, case.inputs)["text"]
    assert opened(printed, tmp_path).program == case.program


NO_MODULES = "bytecode binary syntax unregistered dynamic scalar unranked huge types cfg deep"


@needs("iree")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"ML\xefR\x01\x02", "bytecode"),
        (b"\xff\xfe\x00", "decode"),
        ("func.func @main() -> (", "expected"),
        (one(f'"foo.bar"(%x) : ({T23}) -> () return %x : {T23}', T23), "unregistered dialect"),
        (one("return %x : tensor<?xf32>", "tensor<?xf32>", "%x: tensor<?xf32>"), "dims as numbers"),
        (one("return %x : i32", "i32", "%x: i32"), "tensors only"),
        (one("return %x : tensor<*xf32>", "tensor<*xf32>", "%x: tensor<*xf32>"), "tensors only"),
        (one(f"%0 = stablehlo.constant dense<1.0> : {HUGE} return %0 : {HUGE}", HUGE), "64 MiB"),
        (one(f"%0 = stablehlo.add %x, %x : tensor<9xf32> return %0 : {T23}", T23), "different type"),
        (one(f"cf.br ^a\n ^a: return %x : {T23}", T23), "blocks"),
        (one('"stablehlo.if"(%c) ({' * 60_000, "tensor<i1>", "%c: tensor<i1>"), "module.mlir"),
    ],
    ids=NO_MODULES.split(),
)
def test_what_is_no_module_of_tensors_gets_one_line(text, said, tmp_path):
    with pytest.raises(UserError, match=said) as caught:
        opened(text, tmp_path)
    assert "\n" not in str(caught.value)


@needs("iree")
def test_a_custom_call_of_an_unknown_target_needs_trust(tmp_path):
    body = f"%0 = stablehlo.custom_call @evil(%x) : ({T23}) -> {T23} return %0 : {T23}"
    with pytest.raises(UserError, match="it calls 'evil'"):
        opened(one(body, T23), tmp_path)


def test_a_document_whose_custom_call_is_damaged_may_call_anything():
    calls = ["v0", "stablehlo.custom_call", [], {"call_target_name": 3}]
    assert "damaged" in calls_outside(json.dumps({"main": {"bindings": [calls]}}).encode())


@needs("iree")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"op": "stablehlo.slize"}, "unregistered"),
        ({"op": "builtin.unrealized_conversion_cast"}, "no operation of StableHLO"),
        ({"kwargs": {}}, "requires attribute"),
        ({"args": [{"ref": "x"}, {"ref": "x"}]}, "single operand"),
    ],
)
def test_a_document_that_is_no_module_is_ill_formed_and_kills_nothing(change, said, judge):
    kwargs = {
        "start_indices": {"mlir": "array<i64: 0>"},
        "limit_indices": [2],
        "strides": {"mlir": "array<i64: 1>"},
    }
    found = {"op": "stablehlo.slice", "args": [{"ref": "x"}], "kwargs": kwargs, **change}
    binding = ["y", found["op"], found["args"], found["kwargs"]]
    graph = {"inputs": [["x", "float32", [4]]], "bindings": [binding], "outputs": ["y"]}
    document = {"format": "stablehlo", "version": 1, "main": graph}
    document |= {"constants": {}, "functions": {}, "opaque": {}, "facts": {}}
    program = parse_program(json.dumps(document).encode(), "stablehlo", "test").to_bytes()
    assert said in judge.executor.describe(program, {"x": np.zeros(4, np.float32)})["error"]


SUM = """
    %r = "stablehlo.reduce_window"(%x, %s) <{window_dimensions = array<i64: 1, 3>}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.OP %a, %b : tensor<f32>
        stablehlo.return %c : tensor<f32>
    }) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x1xf32>
    return %r : tensor<2x1xf32>
"""


@needs("iree")
@pytest.mark.parametrize(
    ("op", "start", "is_open"),
    [("add", "1.0", True), ("add", "0.0", False), ("multiply", "1.0", False), ("maximum", "5.0", False)],
)
def test_a_sum_that_starts_with_a_value_counts_it_as_often_as_it_likes(op, start, is_open, tmp_path):
    body = f"%s = stablehlo.constant dense<{start}> : tensor<f32>{SUM.replace('OP', op)}"
    case = opened(one(body, "tensor<2x1xf32>", "%x: tensor<2x3xf32>"), tmp_path)
    values = {**case.inputs}
    assert bool(left_open_by_graph(case.parsed, {"v0"}, values)) == is_open


def test_an_exponential_of_stablehlo_draws_nothing():
    assert not RANDOM.search("stablehlo.exponential")
    assert RANDOM.search("torch.ops.aten.exponential.default")


@needs("iree")
def test_a_loop_that_nothing_ends_is_ill_formed(tmp_path, judge):
    case = opened(MODULE.replace("return %d, %e", "return %a, %e"), tmp_path)
    assert "nothing changes" in judge.executor.describe(case.program, case.inputs)["error"]
