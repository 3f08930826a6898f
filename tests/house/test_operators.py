"""What is known of an operator stands in one place: its record among the families of `oracles/operators/`."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import oracles.operators
from oracles.operators import all_operators, arithmetic, aten_operators, find_operator

ROOT = Path(__file__).parents[2]
HOME = ROOT / "oracles" / "operators"
SPELLINGS = ("oracles/operators/", "oracles/worker/", "oracles/optimisers/", "generators/relax/")
"""The home itself; how frameworks spell operators and passes; Relax, which is a language of its own."""

ELSEWHERE = {
    "corpus/onnx/inputs.py": "values of integer inputs, on a floor that cannot ask the one above",
    "corpus/onnx/sizes.py": "which operands are sizes, on a floor that cannot ask the one above",
    "generators/mutations/disrupt.py": "what ONNX refuses: violations, by operators whose rules they break",
    "generators/strategies/functions.py": "a choice: what no function is made of",
    "generators/growth/fragments.py": "a choice: what a chain is made of",
    "generators/growth/rewrites.py": "a choice: which neighbours optimisers look for",
    "generators/strategies/aten.py": "a choice: what programs of torch's own hold as well",
    "oracles/backends/iree.py": "what has no lowering, which it does not list",
    "oracles/backends/openvino.py": "what its importer has no rule for, which it does not list",
    "reducer/moves/computed_sizes.py": "ways of the reducer's own through what computes a size",
    "reducer/subject/onnx/subject.py": "a choice: which operators are plainer than others",
}
"""Lists of operators that are a choice and no knowledge, or that say why they do not ask."""

MANY = 6
FAMILIES = sorted(path.stem for path in HOME.glob("*.py") if path.stem != "__init__")
NAMES = frozenset(name.rpartition(".")[2] for name in arithmetic())


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
    known = [text for text in texts if text in NAMES]
    return len(known) >= MANY and len(known) >= 0.8 * len(texts)


def test_no_table_of_operators_stands_anywhere_else():
    packages = ("corpus", "oracles", "reducer", "generators", "triage")
    paths = (path for package in packages for path in (ROOT / package).rglob("*.py"))
    inside = {path.relative_to(ROOT).as_posix(): path for path in paths}
    found = {
        name
        for name, path in inside.items()
        if not name.startswith(SPELLINGS) and any(map(is_table, listed(ast.parse(path.read_text("utf-8")))))
    }
    assert found == ELSEWHERE.keys()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_holds_operators_with_all_that_is_known_of_them(family):
    module = __import__(f"{oracles.operators.__name__}.{family}", fromlist=[family]).OPERATORS
    assert module
    for operator in module:
        assert find_operator(operator.name) is operator
        assert arithmetic()[operator.name] is operator.arithmetic
        assert operator.dtypes
        assert operator.since <= operator.until


def test_a_type_rule_is_written_once_so_the_generators_write_none():
    rules = {operator.infer for operator in (*all_operators(), *aten_operators())}
    homes = {Path(inspect.getsourcefile(rule) or "").relative_to(ROOT).parts[:2] for rule in rules}
    assert homes == {("oracles", "operators"), ("oracles", "relation")}
