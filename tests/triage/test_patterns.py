"""Patterns: taken out of documents, kept as files, and still firing on the installed release."""

import json
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from onnx import parser

from corpus.case import Case
from corpus.errors import UserError
from corpus.formats.relax import FORMAT
from corpus.graphs.program import REF, Binding, Graph, GraphProgram, Input
from corpus.pattern import FOLDER, GraphPattern, Pattern, load_graph_patterns, load_pattern, load_patterns
from corpus.target import Target
from generators.language.profile import UNLIMITED
from generators.patterns import is_sound, recipe_of
from generators.strategies import find_strategy
from oracles.judge import Judge
from oracles.probes.record import Firing
from triage.cases.graph_patterns import GraphExtraction
from triage.cases.patterns import Document
from triage.cli import run

HEADER = '<ir_version: 8, opset_import: ["" : 17]>'
FUSED = """g (float[2,3] a, float[3,4] w, float[4] b) => (float[2,4] y) {
    n = Neg(a) m = MatMul(n, w) s = Add(m, b) y = Exp(s) }"""
RENAMED = """other (float[2,3] a1, float[3,4] w1, float[4] b1) => (float[2,4] out) {
    n1 = Neg(a1) m1 = MatMul(n1, w1) s1 = Add(m1, b1) out = Exp(s1) }"""
PASS = "MatMulAddFusion"
CODE = f'''
import unittest
import onnx
from onnx import parser

HEADER = {HEADER!r}


class Fusions(unittest.TestCase):
    def test_of_a_product_and_a_sum(self):
        parser.parse_model(HEADER + """{FUSED}""")
        raise RuntimeError("what it says of its model does not matter")


def test_that_writes_a_file():
    onnx.save(parser.parse_model(HEADER + """{RENAMED}"""), "/nowhere/at/all.onnx")
'''


@pytest.fixture(scope="module")
def firing() -> Iterator[Firing]:
    with Firing(Target("ort")) as asked:
        yield asked


def save(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(parser.parse_model(HEADER + text).SerializeToString())


def extracted(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[dict[str, int], str]:
    assert run(["patterns", "extract", *map(str, arguments), "--json"]) == 0
    printed = capsys.readouterr()
    return json.loads(printed.out), printed.err


def fusion(folder: Path) -> Pattern:
    (found,) = [pattern for pattern in load_patterns(folder) if pattern.fires == PASS]
    return found


def test_two_models_give_the_fusion_once_and_without_what_it_does_not_need(tmp_path, capsys, firing):
    save(tmp_path / "tests" / "first.onnx", FUSED)
    save(tmp_path / "tests" / "deeper" / "second.onnx", RENAMED)
    facts, _ = extracted(capsys, tmp_path / "tests", "-o", tmp_path / "patterns")
    assert (facts["files"], facts["models"], facts["duplicates"]) == (2, 2, facts["patterns"])
    found = fusion(tmp_path / "patterns")
    assert found.operators == ("MatMul", "Add")
    assert found.origin == "deeper/second.onnx"
    assert found.opsets[0] == 13
    assert len(found.least) >= 2
    assert firing.fires(found.sized_model().SerializeToString(), PASS)


def test_the_tests_of_a_file_are_run_only_where_it_is_trusted(tmp_path, capsys):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_fusions.py").write_text(CODE)
    facts, told = extracted(capsys, tmp_path / "tests", "-o", tmp_path / "patterns")
    assert (facts["models"], facts["skipped"]) == (0, 1)
    assert told.count("--trust") == 1
    facts, _ = extracted(capsys, tmp_path / "tests", "-o", tmp_path / "patterns", "--trust")
    assert facts["models"] == 2
    assert fusion(tmp_path / "patterns").origin == "test_fusions.py::Fusions::test_of_a_product_and_a_sum"


def test_what_cannot_be_read_is_left_out_with_one_line(tmp_path, capsys):
    tests = tmp_path / "tests"
    save(tests / "good.onnx", FUSED)
    (tests / "cut.onnx").write_bytes((tests / "good.onnx").read_bytes()[:-9])
    (tests / "empty.onnx").write_bytes(b"")
    (tests / "text.onnx").write_text("no model")
    (tests / "gone.onnx").symlink_to(tmp_path / "nowhere")
    save(tests / "huge.onnx", "g (float[999999,999999,9] x) => (float[999999,999999,9] y) { y = Neg(x) }")
    (tests / "raises.py").write_text("raise SystemExit(3)")
    (tests / "no_python.py").write_text("def (")
    (tests / "dies.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    facts, told = extracted(capsys, tests, "-o", tmp_path / "patterns", "--trust")
    lines = [line for line in told.splitlines() if "skipped" in line]
    assert facts["skipped"] == len(lines) == 8
    named = ("cut", "empty", "text", "gone", "huge", "raises", "no_python", "dies")
    assert all(sum(f"{name}." in line for line in lines) == 1 for name in named)
    assert fusion(tmp_path / "patterns").origin == "good.onnx"


def test_a_folder_without_tests_or_patterns_is_a_users_mistake(tmp_path):
    assert run(["patterns", "extract", str(tmp_path / "nowhere")]) == 2
    assert run(["patterns", "list", "--from", str(tmp_path)]) == 2
    save(tmp_path / "model.onnx", FUSED)
    with pytest.raises(UserError, match="no pattern"):
        load_pattern(tmp_path / "model.onnx")


SHIPPED = sorted(FOLDER.glob("*.onnx"))


def test_a_pattern_keeps_its_bytes_and_its_name():
    assert len(SHIPPED) > 100
    for path in SHIPPED:
        pattern = load_pattern(path)
        assert pattern.to_bytes() == path.read_bytes()
        assert path.stem == pattern.name


@pytest.mark.parametrize("path", SHIPPED[::3], ids=lambda path: path.stem)
def test_a_shipped_pattern_makes_its_pass_fire_and_can_be_grown(path, firing):
    pattern = load_pattern(path)
    assert firing.fires(pattern.sized_model().SerializeToString(), pattern.fires)
    recipe = recipe_of(pattern)
    assert recipe is not None
    assert is_sound(recipe)


def test_a_pass_of_any_name_is_kept_inside_the_folder(tmp_path):
    pattern = replace(load_pattern(SHIPPED[0]), fires="../../relax/pass of mine")
    path = pattern.save(tmp_path / "patterns")
    assert path.parent == tmp_path / "patterns"
    assert load_pattern(path) == pattern


def test_patterns_are_listed_with_their_passes(capsys):
    assert run(["patterns", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert len(listed) == len(SHIPPED)
    assert len({each["pass"] for each in listed}) >= 40
    assert all(each["backend"] == "ort" and each["operators"] and each["origin"] for each in listed)


RELAX = """
import pytest
import tvm
from tvm import relax
from tvm.script import ir as I, relax as R


class Compares:
    def test_compare(self):
        relax.transform.{pass_}()(self.Before)
        raise AssertionError("whether it passes does not matter")


class TestProducts(Compares):
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor([16], "float32"), a: R.Tensor([16, 2], "float32"), b: R.Tensor([2, 32], "float32")
        ):
            c = R.matmul(a, b)
            d = R.matmul(x, c)
            return d


"""


@pytest.mark.skipif(find_spec("tvm") is None, reason="TVM is not installed")
@pytest.mark.slow
def test_a_relax_test_gives_the_module_that_its_pass_changes(tmp_path, capsys):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_order.py").write_text(RELAX.replace("{pass_}", "AdjustMatmulOrder"))
    extracted(capsys, tmp_path / "tests", "-o", tmp_path / "patterns", "--trust", "--target", "tvm")
    (pattern,) = load_graph_patterns(tmp_path / "patterns")
    assert (pattern.fires, [each.op for each in pattern.program.main.bindings]) == (
        "AdjustMatmulOrder",
        ["relax.matmul", "relax.matmul"],
    )
    assert pattern.origin == "test_order.py::TestProducts::test_compare"


# Patterns on Relax: taken out of programs, put into programs, and still making their passes fire there


def program(*bindings: Binding, constants: dict[str, np.ndarray] | None = None) -> GraphProgram:  # type: ignore[type-arg]
    inputs = (Input("x", "float32", (2, 3)), Input("y", "float32", (3, 4)))
    block = tuple(Binding(each.name, each.op, each.args, {**each.kwargs, "block": 1}) for each in bindings)
    main = Graph(inputs, block, (bindings[-1].name,))
    return GraphProgram("relax", main, constants or {}, facts={"main": "main"})


def call(name: str, op: str, *reads: str, **kwargs: object) -> Binding:
    return Binding(name, f"relax.{op}", tuple({REF: each} for each in reads), kwargs)


FOLDABLE = program(
    call("t", "exp", "x"),
    call("u", "add", "c", "c"),
    call("v", "add", "t", "u"),
    call("w", "tanh", "v"),
    constants={"c": np.ones((2, 3), "float32")},
)


def case_of(made: GraphProgram) -> Case:
    return Case("relax", made.to_bytes(), FORMAT.make_inputs(made, 0), origin="a test")


def extracted_patterns(relax_judge: Judge, made: GraphProgram, fires: str = "") -> list[GraphPattern]:
    return list(GraphExtraction(relax_judge, 1).of([Document(case_of(made), fires)]))


def test_the_pattern_of_a_pass_is_what_it_fires_on(relax_judge):
    (found,) = extracted_patterns(relax_judge, FOLDABLE, "FoldConstant")
    assert [each.op for each in found.program.main.bindings] == ["relax.add"]
    assert found.fires == "FoldConstant"
    assert relax_judge.executor.changed_by(found.program.to_bytes(), ["FoldConstant"]) == ["FoldConstant"]


def test_a_pattern_is_read_back_as_it_was_written(relax_judge, tmp_path):
    (found,) = extracted_patterns(relax_judge, FOLDABLE, "FoldConstant")
    found.save(tmp_path)
    (again,) = load_graph_patterns(tmp_path)
    assert (again.digest, again.types, again.origin) == (found.digest, found.types, "a test")


def test_a_file_that_is_no_pattern_is_a_mistake_of_the_user(tmp_path):
    (tmp_path / "a.relax.json").write_bytes(FOLDABLE.to_bytes())
    with pytest.raises(UserError, match="no pattern"):
        list(load_graph_patterns(tmp_path))
    with pytest.raises(UserError, match="no patterns of Relax"):
        next(find_strategy("relax_patterns")(range(1), 5, tmp_path / "none", UNLIMITED))


def test_programs_around_patterns_are_well_formed_and_mostly_trigger(relax_judge):
    placed, fired = 0, 0
    for made in find_strategy("relax_patterns")(range(40), 8, None, UNLIMITED):
        text = made.program.to_bytes()  # type: ignore[union-attr]
        assert "error" not in relax_judge.executor.describe(text, {})
        wanted = list(made.fires)  # type: ignore[union-attr]
        placed += len(wanted)
        fired += len(relax_judge.executor.changed_by(text, wanted))
    assert placed > 25
    assert fired > 0.8 * placed
