"""`program.tir.json`: the tree as a JSON document that a person can read and diff, a statement on every
line.

Expressions: a name is a variable, a bare number an `int32` or (with a dot) a `float32`, `true` a `bool`,
`"7:int64"` a literal of another type, everything else a list that starts with what it is: `["add", "i",
1]`, `["load", "A", "i", 0]`, `["exp", x]`, `["cast", "int8", x]`. Such a call has its last operand's type;
a call of another type is `["call", callee, type, …]`. Statements are lists as well: `["store", "B", ["i"],
0.0]`; those with statements inside end with an object of bodies.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from corpus.reading import load_json
from corpus.tir.codec import Decoder, Encoder
from corpus.tir.forms import FORMS, Json
from corpus.tir.tree import Function, Module

VERSION = 1
FORMAT = "tir"
BODIED = frozenset(form.tag for form in FORMS.values() if form.bodies)


def to_json(module: Module) -> Json:
    """The module as plain JSON values, as the worker takes it."""
    functions = {name: Encoder().function(function) for name, function in module.functions.items()}
    return {"format": FORMAT, "version": VERSION, "functions": functions}


def to_bytes(module: Module) -> bytes:
    """The document: the same bytes for the same module."""
    parts = [f"{json.dumps(name)}: {_function_text(one)}" for name, one in module.functions.items()]
    functions = ",\n".join(parts)
    text = f'{{\n"format": "{FORMAT}",\n"version": {VERSION},\n"functions": {{\n{functions}\n}}\n}}\n'
    return text.encode()


def from_json(item: Json) -> Module:
    """The module that JSON values spell; ValueError, LookupError or TypeError where they spell none."""
    if item["format"] != FORMAT or item["version"] != VERSION:
        raise ValueError(f"it is of format {item['format']!r}, version {item['version']!r}")
    functions = {str(name): Decoder().function(one) for name, one in item["functions"].items()}
    if odd := next((name for name in functions if not name.isidentifier()), ""):
        raise ValueError(f"{odd[:40]!r} is no name")
    if not functions:
        raise ValueError("it has no function")
    return Module(functions)


def from_bytes(text: bytes) -> Module:
    """The module of a document; ValueError, LookupError or TypeError where it is none."""
    return from_json(load_json(text))


def _function_text(function: Function) -> str:
    parts = Encoder().function(function)
    params = ",\n    ".join(json.dumps(item) for item in parts["params"])
    body = "\n".join(_body_lines(parts["body"], "    "))
    return (
        f'{{\n  "params": [\n    {params}],\n  "returns": {json.dumps(parts["returns"])},\n'
        f'  "attrs": {json.dumps(parts["attrs"])},\n  "body": [\n{body}\n  ]}}'
    )


def _body_lines(body: list[Json], indent: str) -> Iterator[str]:
    """Yield the statements of a body, with a comma after each but the last."""
    for position, stmt in enumerate(body):
        end = "," if position < len(body) - 1 else ""
        if stmt[0] in BODIED:
            yield from _bodied_lines(stmt, indent, end)
        else:
            yield f"{indent}{json.dumps(stmt)}{end}"


def _bodied_lines(stmt: list[Json], indent: str, end: str) -> Iterator[str]:
    *head, bodies = stmt
    yield f"{indent}{json.dumps(head)[:-1]}, {{"
    for position, (name, body) in enumerate(bodies.items()):
        last = position == len(bodies) - 1
        yield f"{indent}  {json.dumps(name)}: ["
        yield from _body_lines(body, indent + "    ")
        yield f"{indent}  ]{'}]' + end if last else ','}"
