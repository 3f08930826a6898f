"""The arithmetic of dims, computed."""

import ast
from typing import Any, Callable, Mapping  # noqa: UP035 (Python 3.8)

from oracles.worker.relax_reference.rule import NotKnown


def evaluated(dim: Any, sizes: Mapping[str, Any]) -> Any:
    """A dim's size, or by arrays of places those that an index map gives."""
    if not isinstance(dim, str):
        return int(dim)
    return _term(ast.parse(dim, mode="eval").body, sizes)


def _term(node: Any, sizes: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return int(str(node.value))
    if isinstance(node, ast.Name):
        if node.id not in sizes:
            raise NotKnown(f"the size of {node.id}")
        return sizes[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_term(node.operand, sizes)
    if isinstance(node, ast.BinOp):
        left, right = _term(node.left, sizes), _term(node.right, sizes)
        for kind, operation in OPERATIONS:
            if isinstance(node.op, kind):
                return operation(left, right)
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in ("min", "max"):
            return (min if name == "min" else max)(*(_term(each, sizes) for each in node.args))
    raise NotKnown("a dim's arithmetic")


OPERATIONS: tuple[tuple[Any, Callable[[Any, Any], Any]], ...] = (
    (ast.Add, lambda left, right: left + right),
    (ast.Sub, lambda left, right: left - right),
    (ast.Mult, lambda left, right: left * right),
    (ast.FloorDiv, lambda left, right: left // right),
    (ast.Mod, lambda left, right: left % right),
)
