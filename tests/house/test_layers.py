"""The packages are ours alone, and the command line starts without any framework."""

import ast
import inspect
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path

import pytest

import oracles.operators
from corpus.formats import format_names
from oracles.backends import backends
from oracles.operators import all_operators, arithmetic, aten_operators, find_operator
from tests.helpers.commands import completed
from tests.helpers.sources import ROOT, sources
from tests.house.language_branches import NAMES, asks_in, branches

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SHIPPED: list[str] = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
PACKAGES = [name for name in SHIPPED if not name.endswith((".py", "-stubs"))]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_belongs_to_no_other_distribution(package):
    # An editable install lists no packages of its own, a wheel lists exactly these.
    assert packages_distributions().get(package, ["tensorcrux"]) == ["tensorcrux"]
    spec = find_spec(package)
    assert spec.origin == str(ROOT / package / "__init__.py")


def test_every_package_is_shipped_typed_and_in_a_layer():
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    contract = PYPROJECT["tool"]["importlinter"]["contracts"][0]["layers"]
    layered = {name.strip() for layer in contract for name in layer.split("|")}
    typed = {path.parent.name for path in ROOT.glob("*/py.typed")}
    assert folders == set(PACKAGES) == layered == typed


def test_a_backend_has_the_name_of_its_file():
    assert {name: Path(backend.file).stem for name, backend in backends().items()} == {
        name: name.replace("-", "_") for name in backends()
    }


def test_the_command_line_starts_without_a_framework():
    code = "import sys, triage.cli; print(sorted({'onnxruntime', 'tvm', 'torch'} & set(sys.modules)))"
    result = completed([sys.executable, "-c", code], cwd=ROOT, check=True)
    assert result.stdout.strip() == "[]"


# What is known of an operator stands in one place: its record among the families of `oracles/operators/`

HOME = ROOT / "oracles" / "operators"
SPELLINGS = ("oracles/operators/", "oracles/worker/", "oracles/optimisers/", "generators/relax/")
"""The home itself; how frameworks spell operators and passes; Relax, which is a language of its own."""

ELSEWHERE = {
    "corpus/onnx/inputs.py": "values of integer inputs, on a floor that cannot ask the one above",
    "corpus/onnx/sizes.py": "which operands are sizes, on a floor that cannot ask the one above",
    "corpus/tir/typing.py": "functions of TIR, most of which torch has by the same names",
    "generators/mutations/disrupt.py": "what ONNX refuses: violations, by operators whose rules they break",
    "generators/strategies/functions.py": "a choice: what no function is made of",
    "generators/growth/fragments.py": "a choice: what a chain is made of",
    "generators/growth/rewrites.py": "a choice: which neighbours optimisers look for",
    "generators/strategies/fresh.py": "a choice: what programs of torch's own hold as well",
    "oracles/backends/iree.py": "what has no lowering, which it does not list",
    "oracles/backends/openvino.py": "what its importer has no rule for, which it does not list",
    "reducer/subject/onnx/subject.py": "a choice: which operators are plainer than others",
}
"""Lists of operators that are a choice and no knowledge, or that say why they do not ask."""

MANY = 6
FAMILIES = sorted(path.stem for path in HOME.glob("*.py") if path.stem != "__init__")
OPERATORS = frozenset(name.rpartition(".")[2] for name in arithmetic())


def listed(tree: ast.AST) -> Iterator[list[str]]:
    """The texts of each table, list and word list."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            yield [
                key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)
            ]
        elif isinstance(node, ast.Set | ast.Tuple | ast.List):
            texts = [each.value for each in node.elts if isinstance(each, ast.Constant)]
            yield [text for text in texts if isinstance(text, str)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "." not in node.value:
            yield node.value.split()


def is_table(texts: list[str]) -> bool:
    known = [text for text in texts if text in OPERATORS]
    return len(known) >= MANY and len(known) >= 0.8 * len(texts)


def test_no_table_of_operators_stands_anywhere_else():
    found = {
        name
        for name, tree in sources().items()
        if not name.startswith(SPELLINGS) and any(map(is_table, listed(tree)))
    }
    assert found == ELSEWHERE.keys()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_holds_operators_with_all_that_is_known_of_them(family):
    module = __import__(f"{oracles.operators.__name__}.{family}", fromlist=[family])
    operators = getattr(module, "OPERATORS", ())
    assert operators or module.UNDRAWN
    for operator in operators:
        assert find_operator(operator.name) is operator
        assert arithmetic()[operator.name] is operator.arithmetic
        assert operator.dtypes
        assert operator.since <= operator.until


def test_a_type_rule_is_written_once_so_the_generators_write_none():
    rules = {operator.infer for operator in (*all_operators(), *aten_operators())}
    homes = {Path(inspect.getsourcefile(rule) or "").relative_to(ROOT).parts[:2] for rule in rules}
    assert homes == {("oracles", "operators"), ("oracles", "relation")}


# No module, function or room outgrows what one can read: what is exempt is named, with its reason

FILES = [ROOT / path for path in sources()]

MOST_LINES = 420
LONG = {
    "oracles/sandbox/worker.py": "runs alone, under any Python, so it must be one file",
    "triage/store/schema.py": "data: the migrations, which nobody changes once they are out",
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
