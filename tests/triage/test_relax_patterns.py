"""Patterns on Relax: taken out of programs, put into programs, and still making their passes fire there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from corpus.case import Case
from corpus.errors import UserError
from corpus.formats.relax import FORMAT
from corpus.graphs.pattern import FOLDER, GraphPattern, load_graph_patterns
from corpus.graphs.program import REF, Binding, Graph, GraphProgram, Input
from generators.language.budget import UNLIMITED
from generators.relax.programs import make_program
from generators.strategies import find_strategy
from oracles.judge import Judge
from triage.cases.documented_tests import Document
from triage.cases.graph_patterns import GraphExtraction


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


def extracted(relax_judge: Judge, made: GraphProgram, fires: str = "") -> list[GraphPattern]:
    return list(GraphExtraction(relax_judge, 1).of([Document(case_of(made), fires)]))


def test_the_pattern_of_a_pass_is_what_it_fires_on(relax_judge: Judge) -> None:
    (found,) = extracted(relax_judge, FOLDABLE, "FoldConstant")
    assert [each.op for each in found.program.main.bindings] == ["relax.add"]
    assert found.fires == "FoldConstant"
    assert relax_judge.executor.changed_by(found.program.to_bytes(), ["FoldConstant"]) == ["FoldConstant"]


def test_a_pass_that_finds_nothing_gives_no_pattern(relax_judge: Judge) -> None:
    assert extracted(relax_judge, program(call("t", "exp", "x")), "FoldConstant") == []


def test_two_programs_of_one_structure_give_one_pattern(relax_judge: Judge) -> None:
    twice = [Document(case_of(FOLDABLE), "FoldConstant")] * 2
    extraction = GraphExtraction(relax_judge, 5, is_whole=True)
    assert len(list(extraction.of(twice))) == 1
    assert extraction.facts()["duplicates"] == 1


@pytest.mark.slow
def test_parts_of_a_program_on_which_a_pass_fires_are_patterns_too(relax_judge: Judge) -> None:
    extraction = GraphExtraction(relax_judge, 5)
    found = list(extraction.of([Document(case_of(FOLDABLE), "FoldConstant")]))
    assert len(found) > 1
    assert len({each.digest for each in found}) == len(found)


def test_a_pattern_is_read_back_as_it_was_written(relax_judge: Judge, tmp_path: Path) -> None:
    (found,) = extracted(relax_judge, FOLDABLE, "FoldConstant")
    found.save(tmp_path)
    (again,) = load_graph_patterns(tmp_path)
    assert (again.digest, again.types, again.origin) == (found.digest, found.types, "a test")


def test_a_file_that_is_no_pattern_is_a_mistake_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "a.relax.json").write_bytes(FOLDABLE.to_bytes())
    with pytest.raises(UserError, match="no pattern"):
        list(load_graph_patterns(tmp_path))
    with pytest.raises(UserError, match="no patterns of Relax"):
        next(find_strategy("relax_patterns")(range(1), 5, tmp_path / "none", UNLIMITED))


def test_shipped_patterns_are_many_and_each_is_there_once() -> None:
    shipped = list(load_graph_patterns(FOLDER))
    assert len({each.fires for each in shipped}) >= 60
    assert len({each.digest for each in shipped}) == len(shipped)


def test_programs_around_patterns_are_well_formed_and_mostly_trigger(relax_judge: Judge) -> None:
    placed, fired = 0, 0
    for made in find_strategy("relax_patterns")(range(40), 8, None, UNLIMITED):
        text = made.program.to_bytes()  # type: ignore[union-attr]
        assert "error" not in relax_judge.executor.describe(text, {})
        wanted = list(made.fires)  # type: ignore[union-attr]
        placed += len(wanted)
        fired += len(relax_judge.executor.changed_by(text, wanted))
    assert placed > 25
    assert fired > 0.8 * placed


@pytest.mark.slow
def test_patterns_leave_the_programs_of_the_plain_strategy_as_they_are() -> None:
    (plain,) = find_strategy("relax")(range(3, 4), 10, None, UNLIMITED)
    bare = make_program(3, 10)
    assert plain.program.to_bytes() == bare.program.to_bytes()  # type: ignore[union-attr]
