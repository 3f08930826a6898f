"""No module, function or room outgrows what one can read: what is exempt is named, with its reason."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOPS = ("corpus", "generators", "oracles", "reducer", "triage")
FILES = sorted(path for top in TOPS for path in (ROOT / top).rglob("*.py"))

MOST_LINES = 420
LONG = {
    "oracles/sandbox/worker.py": "runs alone, under any Python, so it must be one file",
    "triage/console/schemas.py": "data: the schema of each command's JSON",
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


def functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{name(path)}:{node.name}", (node.end_lineno or node.lineno) - node.lineno + 1


def test_no_module_is_too_long():
    sizes = {name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert {path for path, size in sizes.items() if size > MOST_LINES} == LONG.keys()


def test_no_function_is_too_long():
    sizes = dict(size for path in FILES for size in functions(path))
    assert {where for where, size in sizes.items() if size > MOST_LINES_OF_A_FUNCTION} == set()


def test_no_room_holds_too_many_modules():
    rooms = Counter(name(path.parent) for path in FILES if path.name != "__init__.py")
    assert {room for room, count in rooms.items() if count > MOST_MODULES} <= WIDE.keys()


def test_every_room_has_a_door():
    rooms = {path.parent for path in FILES}
    without = [
        name(room) for room in rooms if not ast.get_docstring(ast.parse((room / "__init__.py").read_text()))
    ]
    assert without == []
