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

STRATEGIES = ("STRATEGIES", "TAUGHT")
"""Tables by names of strategies: one is called as the language that it makes programs of."""

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
    for node in asks_in(tree):
        line = getattr(node, "lineno", 0)
        yield f"{name}:{line}: {' '.join(ast.unparse(node).split())[:120]}"


def asks_in(tree: ast.Module) -> list[ast.AST]:
    """The comparisons, tables and tests of classes in a module that tell languages apart."""
    constants = {
        target.id
        for each in tree.body
        if isinstance(each, ast.Assign) and _is_name(each.value)
        for target in each.targets
        if isinstance(target, ast.Name)
    }
    named = [
        each.value
        for each in tree.body
        if isinstance(each, ast.Assign) and _last(each.targets[0]) in STRATEGIES
    ]
    return [node for node in ast.walk(tree) if node not in named and _asks(node, constants)]


def _asks(node: ast.AST, constants: set[str]) -> bool:
    match node:
        case ast.Compare():
            sides = (node.left, *node.comparators)
            is_of_format = "format" in ast.unparse(node).lower() or any(
                _last(each) in constants for each in sides
            )
            return is_of_format and any(_names_one(each, constants) for each in sides)
        case ast.Dict():
            keys = node.keys
            return bool(keys) and all(key is not None and _names_one(key, constants) for key in keys)
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, classes]):
            return any(_is_class(each) for each in _members(classes))
        case ast.MatchValue(value=value):
            return _names_one(value, constants)
        case ast.MatchClass(cls=cls):
            return _is_class(cls)
    return False


def _members(node: ast.expr) -> list[ast.expr]:
    return list(node.elts) if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else [node]


def _names_one(node: ast.expr, constants: set[str]) -> bool:
    return any(_is_name(each) or _last(each) in constants for each in _members(node))


def _is_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in NAMES


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_class(node: ast.expr) -> bool:
    return _last(node) in CLASSES and not ast.unparse(node).endswith(FOREIGN)


if __name__ == "__main__":
    found = list(branches(Path(sys.argv[1])))
    print("\n".join(found))
    print(len(found), "branches in", len({each.split(":")[0] for each in found}), "files")
