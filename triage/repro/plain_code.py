"""Whether code that a framework printed does nothing but describe a program: names in it are a user's own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_OF_TORCH = "torch F self super float complex slice bytearray base64 inf nan"
_OF_RELAX = "R T I Module relax tvm np base64 TypeVar range int float bool"
KNOWN = {"torch": frozenset(_OF_TORCH.split()), "relax": frozenset(_OF_RELAX.split())}
"""By format, the names that such code may use beside those that it gives itself."""
MODULES = {"torch": frozenset(("operator", "_operator", "math")), "relax": frozenset(("typing", "tvm"))}
"""By format, the modules that it may import, or what they begin with."""


def surprise(code: str, format: str) -> str:
    """What code of a format does that no printed program does; empty where there is nothing."""
    try:
        tree = ast.parse(code)
    except SyntaxError as error:
        return f"it is no Python ({error.msg})"
    return next(_surprises(tree, format), "")


def _surprises(tree: ast.Module, format: str) -> Iterator[str]:
    own = set(_given(tree))
    for node in ast.walk(tree):
        match node:
            case ast.Import() | ast.ImportFrom(level=1):
                yield "it imports"
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] not in MODULES[format]:
                yield f"it imports {module}"
            case ast.Call(func=ast.Name(id="__import__")):
                if not _is_known_import(node, format):
                    yield "it imports"
            case ast.Name(id=name, ctx=ast.Load()) if name not in own | KNOWN[format] | {"__import__"}:
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


def _is_known_import(call: ast.Call, format: str) -> bool:
    match call.args:
        case [ast.Constant(value=str(name))]:
            return name in MODULES[format] or (format == "relax" and name == "ml_dtypes")
    return False
