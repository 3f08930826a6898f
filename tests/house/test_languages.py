"""Nobody asks which language a program is in; its folders say all that there is to say of it."""

import ast
from pathlib import Path

import pytest

from corpus.formats import format_names
from tests.house.language_branches import NAMES, asks_in, branches

ROOT = Path(__file__).parents[2]


def test_no_module_outside_of_the_languages_folders_asks_which_one_a_program_is_in():
    assert list(branches(ROOT)) == []


def test_the_languages_that_are_looked_for_are_those_that_there_are():
    assert set(format_names()) == NAMES


@pytest.mark.parametrize(
    "code",
    [
        'if case.format == "onnx":\n    pass',
        'if settings.get("format") in ("relax", "tir"):\n    pass',
        'LOOPS = "tir"\nif LOOPS in graphs.formats:\n    pass',
        'kinds = {"torch": 1, "tir": 2}',
        "isinstance(program, (GraphProgram, onnx.ModelProto))",
        'match case.format:\n    case "onnx":\n        pass',
        "match program:\n    case GraphProgram():\n        pass",
    ],
)
def test_a_question_is_seen_in_whatever_form(code):
    assert asks_in(ast.parse(code))


@pytest.mark.parametrize(
    "code", ['parts[:2] == ["torch", "ops"]', 'needs = ("onnx",)', "isinstance(model, torch.nn.Module)"]
)
def test_names_of_packages_are_no_question(code):
    assert not asks_in(ast.parse(code))
