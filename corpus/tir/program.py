"""What the format `tir` says of a module: its document, its inputs and their values, size, and plain form.

`program.tir.json` is the tree as a JSON document that a person can read and diff, a statement on every line.
Expressions: a name is a variable, a bare number an `int32` or (with a dot) a `float32`, `true` a `bool`,
`"7:int64"` a literal of another type, everything else a list that starts with what it is: `["add", "i",
1]`, `["load", "A", "i", 0]`, `["exp", x]`, `["cast", "int8", x]`. Such a call has its last operand's type;
a call of another type is `["call", callee, type, …]`. Statements are lists as well: `["store", "B", ["i"],
0.0]`; those with statements inside end with an object of bodies.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from corpus.errors import UserError
from corpus.format import Measure
from corpus.reading import load_json
from corpus.tir.codec import Decoder, Encoder
from corpus.tir.forms import FORMS, Json, numpy_dtype, parts
from corpus.tir.scopes import defined_names, problems, untrusted_callees
from corpus.tir.tree import Attr, Block, For, Function, Module, Stmt, Store, is_jump
from corpus.tir.values import Binary, Buffer, Call, Cast, Const, Expr, Load, Unary, Var
from corpus.tir.walk import buffers, expressions, renamed, statements, walk
from corpus.values import InputType, Tensor, Value

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


SIZES = (2, 3, 4, 5)
"""What the dims that only the caller's arrays fix are tried with."""


@lru_cache(maxsize=32)
def parse(program: bytes, where: str = "program") -> Module:
    """The module of a document; UserError for one that spells none, or an ill-formed one.

    The last ones are remembered: modules are immutable, and rules, gates and backends ask in turn.
    """
    try:
        module = from_bytes(program)
        wrong = problems(module)
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        text = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise UserError(f"{where}: no tir program ({' '.join(text.split())[:160]})") from None
    if wrong:
        raise UserError(f"{where}: an ill-formed tir program ({wrong[0][:160]}); mend it")
    return module


def input_types(module: Module, where: str = "program") -> dict[str, InputType]:
    """Map the parameters of the first function to their types, in order; a computed dim can have any size."""
    types = {}
    for item in module.main.params:
        dtype = numpy_dtype(item.dtype)
        if dtype is None or parts(item.dtype).lanes > 1:
            raise UserError(f"{where}: parameter {item.name!r} is of type {item.dtype}, which no array has")
        shape = tuple(_dim(expr) for expr in item.shape) if isinstance(item, Buffer) else ()
        types[item.name] = InputType(dtype, shape)
    return types


def _dim(expr: Expr) -> int | str | None:
    if isinstance(expr, Const):
        return int(expr.value)
    return expr.name if isinstance(expr, Var) else None


def check(module: Module, where: str, memory_bytes: int) -> None:
    """UserError where a parameter's static dims alone exceed the memory."""
    for name, declared in input_types(module, where).items():
        dims = [dim for dim in declared.shape or () if isinstance(dim, int)]
        if any(dim < 0 for dim in dims):
            raise UserError(f"{where}: parameter {name!r} has a dim of {min(dims)}; mend it")
        size = math.prod(dims) * declared.dtype.itemsize
        if size > memory_bytes:
            raise UserError(
                f"{where}: parameter {name!r} takes {size} bytes, over the memory limit of {memory_bytes};"
                " make it smaller or raise --memory"
            )


def calls_outside(program: bytes) -> str:
    """Name in words the callees outside the list of harmless functions; empty if there is none."""
    found = untrusted_callees(parse(program))
    return f"it calls {', '.join(map(repr, found[:3]))}" if found else ""


def make_inputs(module: Module, seed: int) -> dict[str, Value]:
    """Small values for every parameter; a dim of one name has one size everywhere. UserError for odd dims."""
    sizes = dict(_sizes(module, seed))
    made: dict[str, Value] = {}
    for place, item in enumerate(module.main.params):
        rng = np.random.default_rng([seed % (1 << 63), place])
        if isinstance(item, Buffer):
            shape = tuple(_evaluated(expr, sizes) for expr in item.shape)
            made[item.name] = _drawn(item.dtype, shape, rng)
        else:
            is_size = item.name in sizes
            made[item.name] = (
                np.array(sizes[item.name], item.dtype) if is_size else _drawn(item.dtype, (), rng)
            )
    return made


def _sizes(module: Module, seed: int) -> Iterator[tuple[str, int]]:
    """Yield a size for each variable that stands in a parameter's shape."""
    shapes = [expr for buffer in module.main.buffers for expr in buffer.shape]
    names = dict.fromkeys(expr.name for expr in expressions(tuple(shapes)) if isinstance(expr, Var))
    yield from ((name, SIZES[(seed + place) % len(SIZES)]) for place, name in enumerate(names))


def _evaluated(expr: Expr, sizes: Mapping[str, int]) -> int:
    match expr:
        case Const(value=value):
            return int(value)
        case Var(name=name) if name in sizes:
            return sizes[name]
        case Cast(value=value):
            return _evaluated(value, sizes)
        case Binary(op=op, a=a, b=b) if op in _ARITHMETIC:
            return int(_ARITHMETIC[op](_evaluated(a, sizes), _evaluated(b, sizes)))
    raise UserError("a parameter's dim cannot be computed; give --inputs")


_ARITHMETIC: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b if b else 0,
    "floormod": lambda a, b: a % b if b else 0,
    "min": min,
    "max": max,
}


def _drawn(dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> Tensor:
    kind = numpy_dtype(dtype) or np.dtype(np.float32)
    if kind.kind == "b":
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    if kind.kind in "iu":
        return np.asarray(rng.integers(0 if kind.kind == "u" else -4, 9, shape)).astype(kind)
    return np.asarray(rng.integers(-16, 17, shape) / 8.0).astype(kind)


def words(module: Module) -> tuple[str, ...]:
    """List the kinds of statements, operators and callees in the order of the text."""
    found = []
    for function in module.functions.values():
        for stmt in statements(function.body):
            kind = type(stmt).__name__.lower()
            found.append(f"{stmt.kind} for" if isinstance(stmt, For) else kind)
        for expr in expressions(function.body):
            if isinstance(expr, Binary | Unary):
                found.append(expr.op)
            elif isinstance(expr, Call):
                found.append(expr.callee)
            elif not isinstance(expr, Var | Const | Load):
                found.append(type(expr).__name__.lower())
    return tuple(found)


def measure(module: Module) -> Measure:
    """The statements of the first function are the nodes.

    Those of other functions count as function nodes.
    """
    counts = [len([*statements(function.body)]) for function in module.functions.values()]
    return Measure(
        nodes=counts[0],
        function_nodes=sum(counts[1:]),
        bytes=len(to_bytes(module)),
        initializer_bytes=0,
        inputs=len(module.main.params),
        outputs=len(module.main.buffers),
        ops=words(module),
    )


def has_blocks(module: Module) -> bool:
    """Whether any function holds a block."""
    return any(map(holds_blocks, module.functions.values()))


def holds_blocks(function: Function) -> bool:
    """Whether the function holds a block."""
    return any(isinstance(stmt, Block) for stmt in statements(function.body))


OF_BLOCKS = "s_tir"
"""The attribute by which TVM knows a function of blocks."""


def is_rooted(function: Function) -> bool:
    """Whether it holds no blocks, or is said to hold blocks and has one around all."""
    if not holds_blocks(function):
        return True
    root = function.body[0] if len(function.body) == 1 else None
    return function.attrs.get(OF_BLOCKS) is True and isinstance(root, Block) and not root.axes


def marks(module: Module) -> frozenset[str]:
    """Name what passes must heed.

    These are `lanes`, those along a dim that is not a buffer's last (`crossed`), `jumps` out of loops,
    `matches`, `staged` and `doubled` loops; lanes and doubled ones that do not begin at 0 (`shifted`).
    """
    found = (_mark(stmt) for one in module.functions.values() for stmt in statements(one.body))
    return frozenset(word for words in found for word in words.split())


def _mark(stmt: Stmt) -> str:
    match stmt:
        case For(kind="vectorized"):
            return f"lanes {'crossed' * _is_crossed(stmt)} {'shifted' * _is_shifted(stmt)}"
        case For() if "software_pipeline_stage" in stmt.annotations:
            return "staged"
        case For() if _is_shifted(stmt) and any(_mark(each) == "doubled" for each in statements(stmt.body)):
            return "shifted"
        case Block(matches=(_, *_)):
            return "matches"
        case Attr(key="double_buffer_scope"):
            return "doubled"
    return "jumps" if is_jump(stmt) else ""


def _is_shifted(loop: For) -> bool:
    return not isinstance(loop.min, Const) or loop.min.value != 0


def _is_crossed(loop: For) -> bool:
    """Whether its variable stands in an index that is not a buffer's last."""
    accesses = (each for each in walk(loop.body) if isinstance(each, Load | Store))
    return any(loop.var in expressions(each.indices[:-1]) for each in accesses)


def is_flat(module: Module) -> bool:
    """Whether every buffer has one dim."""
    return all(len(buffer.shape) == 1 for one in module.functions.values() for buffer in buffers(one))


def canonical(module: Module) -> bytes:
    """The document under plain names."""
    names: dict[str, dict[str, str]] = {}
    for key, function in module.functions.items():
        mine: dict[str, str] = {}
        for name in dict.fromkeys(defined_names(function)):
            mine[name] = f"n{len(mine)}"
        names[key] = mine
    return to_bytes(Module({key: renamed(one, names[key]) for key, one in module.functions.items()}))
