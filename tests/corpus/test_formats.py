"""Every format keeps the contract; what a format prints and measures is what the program holds."""

import importlib
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from corpus.case import Case
from corpus.errors import UserError
from corpus.format import Format
from corpus.formats import find_format, format_names
from corpus.graphs.format import evaluate, plain_names, renamed
from corpus.graphs.program import GRAPH, REF, Binding, Graph, GraphProgram, Input, graph_to_json
from corpus.load import open_case
from corpus.onnx.canonical import measure
from corpus.onnx.graph import (
    captured_names,
    consumers,
    free_names,
    outer_names,
    producers,
    subgraphs,
    tensors,
    topological,
    walk_model,
    walk_nodes,
)
from corpus.onnx.text import print_text
from corpus.target import Target
from generators.mixture import Plan, make_cases
from oracles.judge import Judge
from oracles.naming import names_of_case, signature
from tests.helpers.models import cyclic, external, model_of
from triage.language import language_of, list_case
from triage.pages.differences import describe_differences
from triage.views.graph_picture import drawn


@pytest.mark.parametrize("name", format_names())
def test_a_format_is_a_record_of_its_own_name(name):
    found = find_format(name)
    assert isinstance(found, Format)
    assert name == found.name
    assert importlib.import_module(f"corpus.formats.{name}").__doc__


def test_an_unknown_format_is_refused():
    with pytest.raises(UserError, match="onnx"):
        find_format("elf")


def sample() -> onnx.ModelProto:
    branch = "b () => (float[2] r) { r = Neg (x) }"
    text = f"""g (bool c, float[2] x, int4[3] w) => (float[n] y) {{
        k = Constant <value = float[2] {{1, 2}}> ()
        h = If (c) <then_branch = {branch}, else_branch = {branch}>
        g = own.F (h) y = Concat <axis = 0> (g, k, w) }}
        <opset_import: ["" : 17], domain: "own"> F (a) => (b) {{ h = Relu (a) b = Relu (h) }}"""
    return model_of(text, domains="own", w=helper.make_tensor("w", TensorProto.INT4, [3], [1, 2, 3]))


def test_measure_counts_bodies_and_constants_and_functions_apart():
    found = measure(sample())
    assert found.ops == ("Constant", "If", "Neg", "Neg", "own:F", "Concat")
    assert (found.nodes, found.function_nodes, found.inputs, found.outputs) == (6, 2, 2, 1)
    assert found.bytes == len(sample().SerializeToString())
    assert found.initializer_bytes == 8 + 2
    assert measure(external("w.bin", 1000)).initializer_bytes == 4000


def test_the_text_names_every_value_and_node():
    text = print_text(sample())
    for part in [
        "input x: float32[2]",
        "weight w: int4[3] = [1, 2, 3]",
        "k = Constant{value=float32[2] = [1.0, 2.0]}()",
    ]:
        assert part in text
    for part in [
        "h = If(c)",
        "then_branch:",
        "    r: float32[2] = Neg(x)",
        "g = own:F(h)",
        "output y: float32[n]",
    ]:
        assert part in text
    assert "function own:F(a) -> (b)" in text
    assert "in another file" in print_text(external("w.bin", 1000))


# A case's program is parsed once, and nobody who asks a case about itself changes it


REGRESSIONS = Path(__file__).parents[2] / "corpus/regressions"


def bytes_of(case: Case) -> bytes:
    """The parsed program as bytes again."""
    parsed = case.parsed
    return bytes(parsed.SerializeToString(deterministic=True))


@settings(max_examples=15)
@given(seed=st.integers(0, 10_000))
def test_what_is_asked_of_a_case_leaves_its_parsed_program_as_it_is(seed):
    (case,) = make_cases(Plan(strategy="random", sequences=False), range(seed, seed + 1))
    before = bytes_of(case)
    assert case.parsed is case.parsed
    assert case.measure.nodes >= 0
    assert case.canonical_hash
    list_case(case)
    drawn(case)
    describe_differences(case, case)
    language_of(case.format).without_remarks(case)
    assert bytes_of(case) == before


def test_bytes_that_are_no_program_are_the_users_mistake():
    with pytest.raises(UserError):
        _ = Case("onnx", b"\xff\xff", {}, None).parsed


@pytest.mark.parametrize("name", ["pad-into-maxpool-negative", "lstm-batch-0", "relu-clip-not-float"])
def test_judging_and_naming_leave_the_parsed_program_as_it_is(name):
    target = Target("ort")
    case = replace(Case.load(REGRESSIONS / name), target=target)
    before = bytes_of(case)
    with Judge(target) as judge:
        verdict = judge.verdict(case)
        if verdict.is_bug:
            judge.explain(case, verdict)
            signature(verdict, case.measure, case)
    names_of_case(case)
    assert bytes_of(case) == before


# Walking graphs: bodies, captures, order


def nested() -> onnx.ModelProto:
    """An If in an If: the inner branch reads `x` and `h` of the main graph and `m` of the outer branch."""
    inner = "inner () => (float[2] r) { s = Add (x, m) r = Add (s, h) }"
    within = f"m = Neg (w) q = If (c) <then_branch = {inner}, else_branch = {inner}>"
    outer = f"outer () => (float[2] q) <float[2] w = {{1, 2}}> {{ {within} }}"
    branches = f"<else_branch = passed () => (float[2] h) {{ }}, then_branch = {outer}>"
    made = model_of(f"g (bool c, float[2] x) => (float[2] y) {{ h = Relu (x) y = If (c) {branches} }}")
    made.graph.node[1].output.append("")
    return made


def test_a_node_reads_what_its_bodies_capture_at_any_depth():
    graph = nested().graph
    branch = graph.node[1]
    assert free_names(branch) == {"c", "x", "h"}
    assert [body.name for body in subgraphs(branch)] == ["passed", "outer"]
    assert captured_names(subgraphs(branch)[0]) == {"h"}
    assert {name: [node.op_type for node in nodes] for name, nodes in consumers(graph).items()} == {
        "x": ["Relu", "If"],
        "h": ["If"],
        "c": ["If"],
    }


def test_walking_meets_every_node_and_tensor():
    program = nested()
    assert [node.op_type for node in walk_nodes(program.graph)].count("Add") == 4
    assert list(walk_model(program)) == list(walk_nodes(program.graph))
    assert [tensor.name for tensor in tensors(program)] == ["w"]
    assert set(producers(program.graph)) == {"h", "y"}


def test_order_is_kept_where_it_holds_and_found_where_it_does_not():
    nodes = [helper.make_node("Relu", [f"v{i}"], [f"v{i + 1}"]) for i in range(200)]
    assert topological(nodes, {"v0"}) == nodes
    shuffled = random.Random(0).sample(nodes, len(nodes))
    assert topological(shuffled, {"v0"}) == nodes
    assert topological(nodes, set()) is None
    graph = nested().graph
    assert topological(list(graph.node)[::-1], outer_names(graph)) == list(graph.node)
    assert topological(list(graph.node)[1:], outer_names(graph)) is None


def test_a_cycle_has_no_order():
    graph = cyclic().graph
    assert topological(graph.node, outer_names(graph)) is None


# Graphs as data: what is written is read again, what is no program is refused, names mean nothing

INNER = Graph((), (Binding("inner", "relax.add", ({REF: "h"}, {REF: "w"})),), ("inner",))
MAIN = Graph(
    (Input("left", "float32", ("n", 2)), Input("right", "float32", (2, 2))),
    (
        Binding("h", "relax.matmul", ({REF: "left"}, {REF: "right"})),
        Binding("g", "call", ({"function": "helper"}, {REF: "h"})),
        Binding(
            "out",
            "if",
            (
                {REF: "g"},
                {GRAPH: graph_to_json(INNER)},
                {GRAPH: graph_to_json(replace(INNER, bindings=(), outputs=("h",)))},
            ),
        ),
    ),
    ("out",),
)
HELPER = Graph((Input("p", "float32", ("n", 2)),), (Binding("r", "relax.nn.relu", ({REF: "p"},)),), ("r",))
PROGRAM = GraphProgram(
    "relax", MAIN, {"w": np.ones((2,), np.float32)}, {"helper": HELPER}, {}, {"main": "main"}
)


def test_a_program_is_read_as_it_was_written():
    text = PROGRAM.to_bytes()
    again = find_format("relax").parse(text)
    assert again.to_bytes() == text
    assert [binding.name for binding in again.main.walk()] == ["h", "g", "out", "inner"]


def test_what_a_body_captures_counts_as_read():
    assert MAIN.bindings[2].reads == ("g", "h", "w")


def test_measure_counts_bodies_and_functions_apart():
    found = find_format("relax").measure(PROGRAM)
    assert (found.nodes, found.function_nodes, found.inputs, found.outputs) == (4, 1, 2, 1)
    assert found.ops == ("relax.matmul", "call", "if", "relax.add")
    assert found.initializer_bytes == 8


def test_the_text_names_everything():
    text = find_format("relax").print_text(PROGRAM)
    for part in [
        "input left: float32[n,2]",
        "constant w: float32[2]",
        "function helper(p)",
        "    r = relax.nn.relu(p)",
        "    inner = relax.add(h, w)",
        "output out",
    ]:
        assert part in text


def test_the_canonical_hash_is_blind_to_names():
    inputs = {"left": np.ones((3, 2), np.float32), "right": np.ones((2, 2), np.float32)}
    names = {name: f"{name}_x" for name in plain_names(PROGRAM)}
    other = renamed(PROGRAM, names)
    values = {names[name]: value for name, value in inputs.items()}
    first = Case("relax", PROGRAM.to_bytes(), inputs)
    second = Case("relax", other.to_bytes(), values)
    assert first.case_id != second.case_id
    assert first.canonical_hash == second.canonical_hash
    changed = Case("relax", PROGRAM.to_bytes(), {**inputs, "left": np.zeros((3, 2), np.float32)})
    assert changed.canonical_hash != first.canonical_hash


def test_a_case_folder_opens_without_trust_and_comes_back_byte_for_byte(tmp_path):
    inputs = {"left": np.ones((3, 2), np.float32), "right": np.ones((2, 2), np.float32)}
    Case("relax", PROGRAM.to_bytes(), inputs, Target("tvm"), origin="here").save(tmp_path / "one")
    open_case(tmp_path / "one").save(tmp_path / "two")
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names == ["case.json", "inputs.npz", "program.relax.json"]
    assert all(
        (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes() for name in names
    )


def test_made_inputs_give_a_symbol_one_size():
    main = replace(MAIN, inputs=(*MAIN.inputs, Input("twice", "int32", ("n * 2",))))
    found = find_format("relax").make_inputs(replace(PROGRAM, main=main), 3)
    assert found["twice"].shape == (2 * found["left"].shape[0],)
    again = find_format("relax").make_inputs(replace(PROGRAM, main=main), 3)
    assert all(np.array_equal(found[name], again[name]) for name in found)


@pytest.mark.parametrize(
    ("text", "value"), [("n", 4), ("n * 2 + 1", 9), ("(n - 1) // 2", 1), ("n % 3", 1), ("min(n, m)", 3)]
)
def test_a_dim_is_computed(text, value):
    assert evaluate(text, {"n": 4, "m": 3}) == value


@pytest.mark.parametrize("text", ["__import__('os')", "n ** 9", "x", "1 +", "n // 0"])
def test_a_dim_is_arithmetic_and_nothing_else(text):
    with pytest.raises(UserError, match="dim"):
        evaluate(text, {"n": 4})


@pytest.mark.parametrize(
    ("text", "format"),
    [("import tvm\n", "relax"), ("from tvm import relax", "relax"), ("import torch", "torch")],
)
def test_a_script_is_of_the_framework_that_it_imports(text, format, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(text)
    with pytest.raises(UserError, match=f"this {format} program runs its code; give --trust"):
        open_case(path)
