"""The packages are ours alone, and the command line starts without any framework."""

import ast
import inspect
import re
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from corpus.formats import format_names
from oracles.operators import all_operators, aten_operators
from tests.helpers.commands import completed
from tests.helpers.sources import ROOT, sources
from tests.house.language_branches import NAMES, asks, branches

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SHIPPED: list[str] = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
PACKAGES = [name for name in SHIPPED if not name.endswith((".py", "-stubs"))]


def test_every_package_is_shipped_typed_and_in_a_layer():
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    contract = PYPROJECT["tool"]["importlinter"]["contracts"][0]["layers"]
    layered = {name.strip() for layer in contract for name in layer.split("|")}
    typed = {path.parent.name for path in ROOT.glob("*/py.typed")}
    assert folders == set(PACKAGES) == layered == typed


def test_the_command_line_starts_without_a_framework():
    code = "import sys, triage.cli; print(sorted({'onnxruntime', 'tvm', 'torch'} & set(sys.modules)))"
    result = completed([sys.executable, "-c", code], cwd=ROOT, check=True)
    assert result.stdout.strip() == "[]"


def test_type_rules_of_operators_are_written_in_their_home_and_nowhere_else():
    rules = {operator.infer for operator in (*all_operators(), *aten_operators())}
    homes = {Path(inspect.getsourcefile(rule) or "").relative_to(ROOT).parts[:2] for rule in rules}
    assert homes == {("oracles", "operators"), ("oracles", "relation")}


# No module, function or room outgrows what one can read: what is exempt is named, with its reason

FILES = [ROOT / path for path in sources()]

MOST_LINES = 420
LONG = {
    "oracles/sandbox/worker.py": "runs alone, under any Python, so it must be one file",
}

MOST_LINES_OF_A_FUNCTION = 40

MOST_MODULES = 16
"""Besides `__init__`."""

WIDE = {
    "oracles/operators": "finds its own modules: a file a family of operators",
    "reducer/moves": "finds its own modules: a file a move",
    "generators/tir/mutators": "finds its own modules: modules of mutators",
    "triage/commands": "finds its own modules: a file a command",
}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_no_module_is_too_long():
    sizes = {name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert {path for path, size in sizes.items() if size > MOST_LINES} == LONG.keys()


def test_no_function_is_too_long():
    sizes = {
        f"{path}:{node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path, tree in sources().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {where for where, size in sizes.items() if size > MOST_LINES_OF_A_FUNCTION} == set()


def test_no_room_holds_too_many_modules():
    rooms = Counter(name(path.parent) for path in FILES if path.name != "__init__.py")
    assert {room for room, count in rooms.items() if count > MOST_MODULES} <= WIDE.keys()


def test_every_room_has_a_door():
    doors = {f"{name(path.parent)}/__init__.py" for path in FILES}
    assert [door for door in sorted(doors) if not ast.get_docstring(sources()[door])] == []


# SQL stands in the store: what is asked of it elsewhere goes through typed functions

STATEMENT = re.compile(
    r"\b(SELECT\s.*\sFROM|INSERT\s+(OR\s+\w+\s+)?INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM|PRAGMA|VACUUM)\b",
    re.DOTALL,
)


def test_only_the_store_holds_sql():
    found = {
        path
        for path, tree in sources().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and STATEMENT.search(node.value)
    }
    assert found
    assert {path for path in found if not path.startswith("triage/store/")} == set()


# Nobody asks which language a program is in; its folders say all that there is to say of it


def test_no_module_outside_of_the_languages_folders_asks_which_one_a_program_is_in():
    assert set(format_names()) == NAMES
    assert list(branches(ROOT)) == []


@pytest.mark.parametrize(
    ("code", "is_question"),
    [
        ('settings.get("format") in ("relax", "tir")', True),
        ('{"torch": 1, "tir": 2}', True),
        ("isinstance(program, (GraphProgram, onnx.ModelProto))", True),
        ('parts[:2] == ["torch", "ops"]', False),
        ("isinstance(model, torch.nn.Module)", False),
    ],
)
def test_a_question_is_told_from_the_name_of_a_package(code, is_question):
    assert asks(ast.parse(code, mode="eval").body) is is_question
