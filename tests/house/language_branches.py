"""Counts the places of the product that ask which language a program is in: by its name, or by its class."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("corpus", "oracles", "reducer", "generators", "triage")
NAMES = frozenset({"onnx", "torch", "relax", "tir", "stablehlo"})
ROOMS = (
    *("corpus/formats/", "corpus/onnx/", "corpus/graphs/", "corpus/tir/"),
    *("oracles/languages/", "oracles/worker/", "oracles/tir/"),
    *("reducer/languages/", "reducer/subject/onnx/", "reducer/subject/graphs/", "reducer/subject/tir/"),
    *("reducer/moves/graphs/", "reducer/moves/tir/"),
    *("generators/languages/", "generators/relax/", "generators/tir/"),
    *("triage/languages/", "triage/public/calls.py"),
)
"""The folders of languages: within them there is nothing to ask.

And what takes the objects of a user's frameworks, in a process in which nothing of ours may be imported.
"""

CLASSES = frozenset(
    {
        *("ModelProto", "GraphProgram", "Module", "OnnxContext", "GraphContext", "TirContext"),
        *("NodeSubject", "OnnxSubject", "GraphSubject", "TirSubject"),
        *("Program", "RelaxProgram", "TirProgram"),
    }
)
"""The classes that programs of one language have, parsed, under judgement, under reduction, generated."""

FOREIGN = ("nn.Module", "ir.IRModule")
"""Classes of frameworks with the same last name."""


def branches(root: Path) -> Iterator[str]:
    """Every branch outside of the languages' folders, as `file:line: code`."""
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            if not name.startswith(ROOMS):
                yield from _of_file(name, ast.parse(path.read_text()))


def _of_file(name: str, tree: ast.Module) -> Iterator[str]:
    for node in filter(asks, ast.walk(tree)):
        line = getattr(node, "lineno", 0)
        yield f"{name}:{line}: {' '.join(ast.unparse(node).split())[:120]}"


def asks(node: ast.AST) -> bool:
    """Whether a comparison, a table or a test of a class tells languages apart."""
    match node:
        case ast.Compare():
            sides = (node.left, *node.comparators)
            return "format" in ast.unparse(node).lower() and any(map(_names_one, sides))
        case ast.Dict():
            return len(node.keys) > 1 and all(key is not None and _names_one(key) for key in node.keys)
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, classes]):
            return any(_is_class(each) for each in _members(classes))
        case ast.MatchValue(value=value):
            return _names_one(value)
        case ast.MatchClass(cls=cls):
            return _is_class(cls)
    return False


def _members(node: ast.expr) -> list[ast.expr]:
    return list(node.elts) if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else [node]


def _names_one(node: ast.expr) -> bool:
    return any(isinstance(each, ast.Constant) and each.value in NAMES for each in _members(node))


def _is_class(node: ast.expr) -> bool:
    last = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return last in CLASSES and not ast.unparse(node).endswith(FOREIGN)


if __name__ == "__main__":
    found = list(branches(Path(sys.argv[1])))
    print("\n".join(found))
    print(len(found), "branches in", len({each.split(":")[0] for each in found}), "files")
