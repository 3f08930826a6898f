"""How kinds of nodes are declared: what each field means, and how the node is written as JSON.

A node kind is a frozen dataclass under `@form`. The types of its fields say what they are (an `Expr`, a
`BufferName`, a `Body` …), and the form lists them in the order of the JSON list: `store buffer indices value`
is `["store", buffer, indices, value]`. Fields in braces share an object, `?` marks those that are left out at
their default, `*` those whose items stand in the list itself, and `other:else` gives a field another key. A
list under `_` begins with its first field. `codec.py` writes and reads every node by its form.

Types are spelled as TVM does: `int32`, `float32x4`, `bool`, `void`, `handle`, `ptr:float32:global`.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import ml_dtypes
import numpy as np

_SCALAR = re.compile(
    r"(bool|void|handle|uint\d+|int\d+|bfloat16|float\d+(?:_e\d+m\d+\w*)?)(?:x([1-9]\d*))?\Z"
)
_WIDTHS = re.compile(r"\d+")
_SMALL = ("float8_", "float6_", "float4_")

INTEGERS = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"})
FLOATS = frozenset({"float16", "float32", "float64", "bfloat16"})
SIGNED = frozenset({"int8", "int16", "int32", "int64"})


class Type(NamedTuple):
    """A type's parts: `code` is int, uint, float, bool, void, handle or pointer."""

    code: str
    bits: int
    lanes: int


@cache
def parts(dtype: str) -> Type:
    """Split a type into its parts; ValueError for a text that names none."""
    if dtype.startswith("ptr:"):
        element = dtype.split(":")[1]
        parts(element)
        return Type("pointer", 64, 1)
    found = _SCALAR.match(dtype)
    if not found:
        raise ValueError(f"type {dtype[:40]!r} is not known")
    name, lanes = found[1], int(found[2] or 1)
    if name in ("bool", "void", "handle"):
        return Type(name, {"bool": 1, "void": 0, "handle": 64}[name], lanes)
    width = _WIDTHS.search(name)
    code = "float" if "float" in name else name.rstrip("0123456789")
    return Type(code, int(width[0]) if width else 0, lanes)


def element(dtype: str) -> str:
    """A vector's type of one lane."""
    found = _SCALAR.match(dtype)
    return found[1] if found else dtype


def lanes(dtype: str) -> int:
    """The number of lanes of a type; 1 for a scalar."""
    return parts(dtype).lanes


def with_lanes(dtype: str, count: int) -> str:
    """The type with that many lanes."""
    return element(dtype) if count == 1 else f"{element(dtype)}x{count}"


def is_integer(dtype: str) -> bool:
    """Whether it is a signed or unsigned integer, or a vector of these."""
    return parts(dtype).code in ("int", "uint")


def is_float(dtype: str) -> bool:
    """Whether it is a floating-point type, or a vector of these."""
    return parts(dtype).code == "float"


def is_bool(dtype: str) -> bool:
    """Whether it is a truth value, or a vector of these."""
    return parts(dtype).code == "bool"


def is_number(dtype: str) -> bool:
    """Whether arithmetic is defined on it."""
    return parts(dtype).code in ("int", "uint", "float")


def is_pointer(dtype: str) -> bool:
    """Whether it is an address."""
    return parts(dtype).code in ("pointer", "handle")


def pointer_to(dtype: str, scope: str = "global") -> str:
    """The type of addresses of such elements."""
    return f"ptr:{dtype}:{scope}"


@cache
def numpy_dtype(dtype: str) -> np.dtype[Any] | None:
    """numpy's or ml_dtypes' type of one lane; None where neither has it."""
    name = element(dtype)
    if name.startswith(("bfloat", *_SMALL)) or name in ("int4", "uint4", "int2", "uint2"):
        found = getattr(ml_dtypes, name, None)
        return np.dtype(found) if found is not None else None
    try:
        kind = np.dtype(name)
    except TypeError:
        return None
    return kind if kind.kind in "biuf" else None


def integer_range(dtype: str) -> tuple[int, int]:
    """The least and the greatest value of an integer or boolean type."""
    code, bits, _ = parts(dtype)
    if code == "int":
        return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return 0, (1 << bits) - 1


Json: TypeAlias = Any
BufferName: TypeAlias = str
"""The name of a buffer that is in scope."""
DType: TypeAlias = str
"""A type as TVM spells it; see `types.py`."""
LoopKind: TypeAlias = str
"""One of `LOOPS`."""
Word: TypeAlias = str
"""Any text."""
Lanes: TypeAlias = int
"""A number of lanes above one."""
Data: TypeAlias = Mapping[str, Json]
"""Attributes or annotations by their key."""

LOOPS = ("serial", "parallel", "vectorized", "unrolled", "thread")


def word(item: Json) -> Word:
    """The text; TypeError for anything else."""
    if not isinstance(item, str):
        raise TypeError(f"{str(item)[:40]!r} is no text")
    return item


def members(item: Json) -> dict[str, Json]:
    """The object; TypeError for anything else."""
    if not isinstance(item, dict):
        raise TypeError(f"{str(item)[:40]!r} is no object")
    return item


def identifier(item: Json) -> str:
    """The name; ValueError for one that some language could read as code."""
    text = word(item)
    if not text.isidentifier() or not text.isascii() or keyword.iskeyword(text):
        raise ValueError(f"{text[:40]!r} is no name")
    return text


def checked_type(item: Json) -> DType:
    """The type; ValueError for an unknown one."""
    parts(item)
    return str(item)


def lane_count(count: Json) -> Lanes:
    """The number of lanes; ValueError for one that no vector has."""
    if not isinstance(count, int) or not 1 < count <= 1 << 16:
        raise ValueError(f"{str(count)[:40]!r} is no number of lanes")
    return count


def loop_kind(kind: Json) -> LoopKind:
    """The kind of loop; ValueError for an unknown one."""
    if kind not in LOOPS:
        raise ValueError(f"loop {str(kind)[:40]!r} is not known")
    return str(kind)


PLAIN: Final = frozenset(
    {"str", "int", "bool", "int | float | bool", "BufferName", "DType", "LoopKind", "Word", "Lanes"}
)
"""How the types of fields are spelt that hold no nodes."""

BODIES: Final = frozenset({"Body", "Body | None"})
"""How the types of fields are spelt that hold statements."""

INNER: Final = BODIES | {"Inner", "tuple[Region, ...]"}
"""How the types of fields are spelt where the names that the node itself defines are visible."""

DEFINING: Final = frozenset(
    {"Var", "Buffer", "View", "tuple[Buffer, ...]", "tuple[Axis, ...]", "tuple[Match, ...]", "About"}
)
"""How the types of fields are spelt that define names, after the node's other expressions were read."""


@dataclass(frozen=True, slots=True)
class FormField:
    """A field in a form; `role` is its type, as it is spelt. An optional one is left out at its default."""

    name: str
    key: str
    role: str
    is_spliced: bool
    is_optional: bool
    default: Any

    @property
    def is_many(self) -> bool:
        """Whether its value is a tuple."""
        return self.role.startswith("tuple[")

    @property
    def one(self) -> str:
        """The type of its value, or of each item of the tuple."""
        return self.role.removesuffix(" | None").removeprefix("tuple[").removesuffix(", ...]")

    @property
    def phase(self) -> int:
        """When it is read: 0 before the node's own names are defined, 1 while they are, 2 after."""
        return 1 if self.role in DEFINING else 2 if self.role in INNER else 0


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a node kind: its tag or `_`, the fields of the list, of an object, and its bodies."""

    tag: str
    items: tuple[FormField, ...]
    options: tuple[FormField, ...]
    bodies: tuple[FormField, ...]

    @property
    def every(self) -> tuple[FormField, ...]:
        """All of its fields, in their order in the JSON."""
        return (*self.items, *self.options, *self.bodies)


FORMS: Final[dict[type, Form]] = {}
"""The form of every node kind that has one."""

KINDS: Final[dict[str, type]] = {}
"""Node kinds by the first item of their list."""

Kind = TypeVar("Kind", bound=type)


def form(text: str, tags: Collection[str] = ()) -> Callable[[Kind], Kind]:
    """Declare a dataclass's JSON form; `tags` are the values of its first field if that says the kind."""

    def declared(kind: Kind) -> Kind:
        FORMS[kind] = _parsed(kind, text)
        KINDS.update(dict.fromkeys(tags or {FORMS[kind].tag} - {"_"}, kind))
        return kind

    return declared


def _parsed(kind: type, text: str) -> Form:
    known = {each.name: each for each in fields(kind)}
    head, *groups = re.findall(r"{[^}]*}|[^{} ][^{}]*", text)
    tag, *words = head.split()
    items = tuple(_field(known, word) for word in words)
    members = [_field(known, word) for group in groups for word in group.strip("{}").split()]
    options = tuple(each for each in members if each.role not in BODIES)
    return Form(tag, items, options, tuple(each for each in members if each.role in BODIES))


def _field(known: Mapping[str, Any], word: str) -> FormField:
    name, _, key = word.strip("*?").partition(":")
    own = known[name]
    default = own.default if own.default_factory is MISSING else own.default_factory()
    return FormField(name, key or name, own.type, "*" in word, "?" in word, default)
