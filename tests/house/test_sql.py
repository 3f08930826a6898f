"""SQL stands in the store: what is asked of it elsewhere goes through typed functions."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("corpus", "oracles", "reducer", "generators", "triage")
STATEMENT = re.compile(
    r"\b(SELECT\s.*\sFROM|INSERT\s+(OR\s+\w+\s+)?INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM|PRAGMA|VACUUM)\b",
    re.DOTALL,
)


def statements(path: Path) -> Iterator[str]:
    """The texts of a module, other than docstrings, that hold a statement."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and STATEMENT.search(node.value):
            yield f"{path.relative_to(ROOT)}:{node.lineno}"


def test_only_the_store_holds_sql():
    found = {
        where: path
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for where in statements(path)
    }
    outside = [where for where, path in found.items() if not path.is_relative_to(ROOT / "triage/store")]
    assert found
    assert outside == []
