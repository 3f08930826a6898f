"""Whether code that a framework printed does nothing but describe a program: names in it are a user's own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from triage.projects import Printed


def surprise(code: str, printed: Printed) -> str:
    """Name what no program printed by its framework does; empty if the code does nothing of the kind."""
    try:
        tree = ast.parse(code)
    except SyntaxError as error:
        return f"it is no Python ({error.msg})"
    return next(_surprises(tree, printed), "")


def _surprises(tree: ast.Module, printed: Printed) -> Iterator[str]:
    own = set(_given(tree))
    for node in ast.walk(tree):
        match node:
            case ast.Import() | ast.ImportFrom(level=1):
                yield "it imports"
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] not in printed.modules:
                yield f"it imports {module}"
            case ast.Call(func=ast.Name(id="__import__")):
                if not _is_known_import(node, printed):
                    yield "it imports"
            case ast.Name(id=name, ctx=ast.Load()) if name not in own | printed.names | {"__import__"}:
                yield f"it uses {name}"
            case ast.Attribute(attr=name) if name.startswith("__") and name != "__init__":
                yield f"it uses {name}"


def _given(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case (
                ast.Name(id=name, ctx=ast.Store())
                | ast.arg(arg=name)
                | ast.ClassDef(name=name)
                | ast.FunctionDef(name=name)
            ):
                yield name
            case ast.FunctionDef(name=name):
                yield name
            case ast.ImportFrom(names=names):
                yield from (each.asname or each.name for each in names)


def _is_known_import(call: ast.Call, printed: Printed) -> bool:
    match call.args:
        case [ast.Constant(value=str(name))]:
            return name in printed.modules | printed.by_name
    return False
