"""Graphs as data: what is written is read again, what is no program is refused, names mean nothing."""

import json
from dataclasses import replace

import numpy as np
import pytest

from corpus.case import Case
from corpus.errors import UserError
from corpus.formats import find_format
from corpus.graphs.format import evaluate, plain_names, renamed
from corpus.graphs.program import GRAPH, REF, Binding, Graph, GraphProgram, Input, graph_to_json
from corpus.load import open_case
from corpus.target import Target

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


BROKEN = {
    "text": b"no JSON",
    "another format": PROGRAM.to_bytes().replace(b'"relax"', b'"torch"', 1),
    "an unknown name": PROGRAM.to_bytes().replace(b'{"ref": "left"}', b'{"ref": "nowhere"}'),
    "a name twice": PROGRAM.to_bytes().replace(b'["g", "call"', b'["h", "call"'),
    "an unknown function": PROGRAM.to_bytes().replace(b'{"function": "helper"}', b'{"function": "gone"}'),
    "a dtype": PROGRAM.to_bytes().replace(b'["left", "float32"', b'["left", "object"'),
    "too few bytes": PROGRAM.to_bytes().replace(b"AACAPwAAgD8=", b"AACAPw=="),
    "no outputs": json.dumps(
        {**json.loads(PROGRAM.to_bytes()), "main": {**graph_to_json(MAIN), "outputs": []}}
    ).encode(),
    "nested too deep": b"[" * 100_000,
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_program_is_refused_in_one_line(name, tmp_path):
    path = tmp_path / "p.relax.json"
    path.write_bytes(BROKEN[name])
    with pytest.raises(UserError, match="no relax program") as refused:
        open_case(path)
    assert "\n" not in str(refused.value)


def test_a_huge_input_is_refused_before_memory_is_taken(tmp_path):
    path = tmp_path / "p.relax.json"
    path.write_bytes(
        PROGRAM.to_bytes().replace(b'["right", "float32", [2, 2]]', b'["right", "float32", [2, 99999999999]]')
    )
    with pytest.raises(UserError, match="memory"):
        open_case(path)


@pytest.mark.parametrize(
    ("text", "format"),
    [("import tvm\n", "relax"), ("from tvm import relax", "relax"), ("import torch", "torch")],
)
def test_a_script_is_of_the_framework_that_it_imports(text, format, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(text)
    with pytest.raises(UserError, match=f"this {format} program runs its code; give --trust"):
        open_case(path)
