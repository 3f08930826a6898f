"""Every format keeps the contract; what a format prints and measures is what the program holds."""

import importlib
from dataclasses import replace

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
from corpus.graphs.program import GRAPH, Binding, Graph, GraphProgram, Input, graph_to_json
from corpus.onnx.canonical import measure
from corpus.onnx.text import print_text
from generators.mixture import Plan, make_cases
from tests.helpers.models import external, model_of, ref
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


@pytest.mark.parametrize(
    "line",
    [
        "weight w: int4[3] = [1, 2, 3]",
        "k = Constant{value=float32[2] = [1.0, 2.0]}()",
        "    r: float32[2] = Neg(x)",
        "g = own:F(h)",
        "output y: float32[n]",
        "function own:F(a) -> (b)",
    ],
)
def test_the_text_names_every_value_and_node(line):
    assert line in print_text(sample())


def test_the_text_of_weights_elsewhere_says_so():
    assert "in another file" in print_text(external("w.bin", 1000))


def test_measure_counts_bodies_and_constants_and_functions_apart():
    found = measure(sample())
    assert found.ops == ("Constant", "If", "Neg", "Neg", "own:F", "Concat")
    assert (found.nodes, found.function_nodes, found.inputs, found.outputs) == (6, 2, 2, 1)
    assert found.bytes == len(sample().SerializeToString())
    assert found.initializer_bytes == 8 + 2
    assert measure(external("w.bin", 1000)).initializer_bytes == 4000


# A case's program is parsed once, and nobody who asks a case about itself changes it


@settings(max_examples=15)
@given(seed=st.integers(0, 10_000))
def test_what_is_asked_of_a_case_leaves_its_parsed_program_as_it_is(seed):
    (case,) = make_cases(Plan(strategy="random", sequences=False), range(seed, seed + 1))
    before = case.parsed.SerializeToString(deterministic=True)
    assert case.parsed is case.parsed
    assert case.measure.nodes >= 0
    assert case.canonical_hash
    list_case(case)
    drawn(case)
    describe_differences(case, case)
    language_of(case.format).without_remarks(case)
    assert case.parsed.SerializeToString(deterministic=True) == before


# Graphs as data: names mean nothing, and what is no arithmetic is no dim

INNER = Graph((), (Binding("inner", "relax.add", (ref("h"), ref("w"))),), ("inner",))
EMPTY = Graph((), (), ("h",))
MAIN = Graph(
    (Input("left", "float32", ("n", 2)), Input("right", "float32", (2, 2))),
    (
        Binding("h", "relax.matmul", (ref("left"), ref("right"))),
        Binding("g", "call", ({"function": "helper"}, ref("h"))),
        Binding("out", "if", (ref("g"), *({GRAPH: graph_to_json(each)} for each in (INNER, EMPTY)))),
    ),
    ("out",),
)
HELPER = Graph((Input("p", "float32", ("n", 2)),), (Binding("r", "relax.nn.relu", (ref("p"),)),), ("r",))
PROGRAM = GraphProgram(
    "relax", MAIN, {"w": np.ones((2,), np.float32)}, {"helper": HELPER}, {}, {"main": "main"}
)


def test_measure_counts_bodies_and_functions_apart():
    found = find_format("relax").measure(PROGRAM)
    assert (found.nodes, found.function_nodes, found.inputs, found.outputs) == (4, 1, 2, 1)
    assert found.ops == ("relax.matmul", "call", "if", "relax.add")
    assert found.initializer_bytes == 8


@pytest.mark.parametrize(
    "line",
    [
        "input left: float32[n,2]",
        "constant w: float32[2]",
        "function helper(p)",
        "    inner = relax.add(h, w)",
        "output out",
    ],
)
def test_the_text_of_a_graph_names_everything(line):
    assert line in find_format("relax").print_text(PROGRAM)


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
