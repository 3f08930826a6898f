"""Parts of crux's own code as source that stands alone in a script."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping, Sequence
from types import ModuleType


def part_source(modules: Sequence[ModuleType], users: str) -> str:
    """The definitions of some modules that a text uses, straight or through others, to paste beside it."""
    pieces: dict[str, frozenset[str]] = {}
    for module in modules:
        pieces |= _definitions(inspect.getsource(module))
    used = _closure(pieces, users)
    kept = [text for text, names in pieces.items() if names & used]
    is_block = [text.startswith(("def ", "class ")) for text in kept]
    gaps = ["\n\n\n" if any(is_block[max(0, at - 1) : at + 1]) else "\n" for at in range(len(kept))]
    return "".join(
        f"{gap if place else ''}{text}" for place, (gap, text) in enumerate(zip(gaps, kept, strict=True))
    )


def _definitions(source: str) -> dict[str, frozenset[str]]:
    """Return the definitions of a module's text, and what each defines."""
    lines = source.splitlines()
    return {
        "\n".join(lines[node.lineno - 1 : node.end_lineno]): _defined_names(node)
        for node in ast.parse(source).body
        if not isinstance(node, ast.Import | ast.ImportFrom | ast.Expr)
    }


def _defined_names(node: ast.stmt) -> frozenset[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return frozenset({node.name})
    targets = (
        node.targets
        if isinstance(node, ast.Assign)
        else [node.target]
        if isinstance(node, ast.AnnAssign)
        else []
    )
    return frozenset(each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))


def _names_in(source: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}


def _closure(pieces: Mapping[str, frozenset[str]], users: str) -> set[str]:
    """Return all names that a text needs, with those that the definitions of these need."""
    known = frozenset().union(*pieces.values())
    used: set[str] = set()
    waiting = [users]
    while waiting:
        new = (known & _names_in(waiting.pop())) - used
        used |= new
        waiting += [text for text, names in pieces.items() if names & new]
    return used
