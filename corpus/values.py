"""The values that go in and out of a program, and `inputs.npz`, the file that keeps them.

numpy's own types are stored as they are; bfloat16, float8, int4 and their kin as unsigned bit patterns that
are read by the model's type; strings as `U`; a sequence as `name#0`, `name#1`, …; an empty sequence and an
absent optional as an empty marker `name#empty`, `name#absent`.
"""

from __future__ import annotations

import ast
import io
import math
import operator
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from corpus.errors import UserError

Tensor = NDArray[Any]
"""A numpy array; bfloat16, float8, float4 and int4 as ml_dtypes' types, strings as numpy `U`."""

Value = Tensor | list[Tensor] | None
"""A tensor, a sequence of tensors, or an absent optional."""

Shape = tuple[int | str | None, ...]
"""Static sizes, names of symbolic dims, None where a size is unknown."""

NO_DIMS: Mapping[str, int] = {}
"""No sizes of symbolic dims."""

_ARITHMETIC: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul},
    **{ast.FloorDiv: operator.floordiv, ast.Div: operator.floordiv, ast.Mod: operator.mod},
}


def computed_dim(text: str, size_of: Callable[[str], int]) -> int:
    """The size of a dim written as a formula of others, such as `n * 2 + 1`; ValueError if it is none."""
    try:
        return _computed(ast.parse(text, mode="eval").body, size_of)
    except (SyntaxError, LookupError, ZeroDivisionError, RecursionError, MemoryError) as error:
        raise ValueError(f"{text[:60]!r} is no formula of sizes") from error


def _computed(formula: ast.expr, size_of: Callable[[str], int]) -> int:
    match formula:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return size_of(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_computed(operand, size_of)
        case ast.BinOp(left=left, op=sign, right=right):
            return _ARITHMETIC[type(sign)](_computed(left, size_of), _computed(right, size_of))
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=[left, right]):
            return (min if name == "min" else max)(_computed(left, size_of), _computed(right, size_of))
    raise LookupError(ast.dump(formula))


_MARKER = np.zeros(0, np.uint8)
_DEFAULT_MEMORY = 8 << 30


def is_float(tensor: Tensor) -> bool:
    """Whether its values can be rounded: numpy's floats and complexes, and the small floats of ml_dtypes."""
    return tensor.dtype.kind in "fc" or (_is_extension(tensor) and "float" in tensor.dtype.name)


def _is_extension(tensor: Tensor) -> bool:
    """Whether its dtype is one of ml_dtypes' own (2 is numpy's word for a dtype registered from outside)."""
    return int(tensor.dtype.isbuiltin) == 2


def widen(tensor: Tensor) -> Tensor:
    """Convert to a dtype that numpy computes with: small floats to float32, int4 and the like to int64."""
    if _is_extension(tensor):
        return tensor.astype(np.float32 if is_float(tensor) else np.int64)
    return tensor.astype(np.float32) if tensor.dtype == np.float16 else tensor


@dataclass(frozen=True, slots=True)
class InputType:
    """The type of a program's input; `required` is False if the program has a default for it.

    With `key` it is a map to numbers of `dtype`, and its value the list of its keys and its values.
    """

    dtype: np.dtype[Any]
    shape: Shape | None
    sequence: bool = False
    optional: bool = False
    required: bool = True
    key: np.dtype[Any] | None = None

    def __str__(self) -> str:
        dims = "…" if self.shape is None else ",".join("?" if dim is None else str(dim) for dim in self.shape)
        text = f"{_dtype_name(self.dtype)}[{dims}]"
        if self.key is not None:
            return f"map from {_dtype_name(self.key)} to {_dtype_name(self.dtype)}"
        text = f"sequence of {text}" if self.sequence else text
        return f"optional {text}" if self.optional else text


def _dtype_name(dtype: np.dtype[Any]) -> str:
    return "string" if dtype.kind in "UO" else dtype.name


def _is_foreign(dtype: np.dtype[Any]) -> bool:
    """Whether numpy lacks the type (it is ml_dtypes'), so that it is kept as bits."""
    return dtype.isbuiltin == 2


def stored(array: Tensor) -> Tensor:
    """The array as it is kept: little-endian, C order, bits for what numpy lacks, the narrowest `U`."""
    if array.dtype.kind in "OU":
        texts = np.array([str(text) for text in array.ravel()], dtype=np.str_)
        return texts.reshape(array.shape)
    if _is_foreign(array.dtype):
        bits = np.ascontiguousarray(array).view(f"<u{array.dtype.itemsize}")
        return bits.reshape(array.shape)
    kept = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
    return kept


def stored_members(inputs: Mapping[str, Value]) -> Iterator[tuple[str, Tensor]]:
    """Yield the members of `inputs.npz`, in order; also what a case's identity is computed over."""
    for name, value in inputs.items():
        if value is None:
            yield f"{name}#absent", _MARKER
        elif not isinstance(value, list):
            yield name, stored(value)
        elif not value:
            yield f"{name}#empty", _MARKER
        else:
            yield from ((f"{name}#{index}", stored(item)) for index, item in enumerate(value))


def write_inputs(target: Path | IO[bytes], inputs: Mapping[str, Value]) -> None:
    """Write `inputs.npz`; the same values give the same bytes. UserError when two inputs share a member."""
    members: dict[str, Tensor] = {}
    for name, array in stored_members(inputs):
        if name in members:
            raise UserError(f"inputs: two of them would be kept as {name!r}; rename one")
        members[name] = array
    write_npz(target, members)


def stored_names(source: Path, memory_bytes: int = _DEFAULT_MEMORY) -> tuple[str, ...]:
    """List the members that a file of inputs has."""
    with NpzReader(source, str(source), memory_bytes) as members:
        return members.names


def read_inputs(
    source: Path | IO[bytes], types: Mapping[str, InputType], *, memory_bytes: int = _DEFAULT_MEMORY
) -> dict[str, Value]:
    """The inputs that `types` names, in its order; UserError where the file does not fit them."""
    return read_inputs_noting(source, types, memory_bytes=memory_bytes)[0]


def read_inputs_noting(
    source: Path | IO[bytes],
    types: Mapping[str, InputType],
    *,
    memory_bytes: int = _DEFAULT_MEMORY,
) -> tuple[dict[str, Value], tuple[str, ...]]:
    """Read inputs as `read_inputs` does, with a note for each member that no input of the program takes."""
    where = str(source) if isinstance(source, Path) else "inputs.npz"
    inputs: dict[str, Value] = {}
    with NpzReader(source, where, memory_bytes) as members:
        unused = dict.fromkeys(members.names)
        for name, declared in types.items():
            for member in _members_of(name, unused):
                del unused[member]
            if _is_given(name, declared, members, where):
                inputs[name] = _read_value(name, declared, members)
    return inputs, tuple(f"{where}: {name!r} is no input of the program; dropped" for name in unused)


def _members_of(name: str, unused: Mapping[str, None]) -> list[str]:
    if name in unused:
        return [name]
    marked = [f"{name}#{mark}" for mark in ("absent", "empty") if f"{name}#{mark}" in unused]
    items: list[str] = []
    while f"{name}#{len(items)}" in unused:
        items.append(f"{name}#{len(items)}")
    return marked + items


def _is_given(name: str, declared: InputType, members: NpzReader, where: str) -> bool:
    if _members_of(name, dict.fromkeys(members.names)):
        return True
    if not declared.required:
        return False
    found = ", ".join(repr(member) for member in members.names[:6]) or "nothing"
    raise UserError(
        f"{where}: no input {name!r} (expected {declared}, found {found}); add it, or leave the file out to"
        " have values made from the seed"
    )


def _read_value(name: str, declared: InputType, members: NpzReader) -> Value:
    given = set(members.names)
    if name in given:
        return fit_value(name, members.read(name), declared, members.where)
    if f"{name}#absent" in given:
        return fit_value(name, None, declared, members.where)
    items: list[Tensor] = []
    while f"{name}#{len(items)}" in given:
        items.append(members.read(f"{name}#{len(items)}"))
    return fit_value(name, items, declared, members.where)


def fit_value(name: str, value: Value, declared: InputType, where: str) -> Value:
    """The value in the declared type (bits become ml_dtypes' types); UserError where it does not fit."""
    if value is None:
        if not declared.optional:
            raise _misfit(name, "an absent optional", declared, where)
        return None
    if declared.key is not None:
        key = InputType(declared.key, (None,))
        if not isinstance(value, list) or len(value) != 2 or len({item.shape for item in value}) != 1:
            raise _misfit(name, "not the list of its keys and its values", declared, where)
        values = InputType(declared.dtype, (None,))
        return [_fit_tensor(f"{name}#{at}", value[at], each, where) for at, each in enumerate((key, values))]
    if isinstance(value, list):
        if not declared.sequence:
            raise _misfit(name, f"a sequence of {len(value)}", declared, where)
        return [_fit_tensor(f"{name}#{index}", item, declared, where) for index, item in enumerate(value)]
    if declared.sequence:
        raise _misfit(name, "one tensor", declared, where)
    return _fit_tensor(name, value, declared, where)


def _fit_tensor(name: str, array: Tensor, declared: InputType, where: str) -> Tensor:
    typed = _typed(array, declared.dtype)
    if typed is None or not _fits_shape(typed.shape, declared.shape):
        dims = ",".join(map(str, array.shape))
        raise _misfit(name, f"{_dtype_name(array.dtype)}[{dims}]", declared, where)
    return typed


def _misfit(name: str, found: str, declared: InputType, where: str) -> UserError:
    kept = f", kept as uint{8 * declared.dtype.itemsize}" if _is_foreign(declared.dtype) else ""
    return UserError(
        f"{where}: input {name!r} is {found}, the program takes {declared}{kept};"
        " give it in that type and shape"
    )


def _typed(array: Tensor, dtype: np.dtype[Any]) -> Tensor | None:
    """The array as the dtype, or None: bits and raw bytes of its width are taken for what numpy lacks."""
    if dtype.kind == "U":
        return array if array.dtype.kind == "U" else None
    if _is_foreign(dtype):
        if array.dtype == dtype:
            return array
        raw = array.dtype.kind == "u" or (array.dtype.kind == "V" and array.dtype.fields is None)
        if not raw or array.dtype.itemsize != dtype.itemsize:
            return None
        native = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=False))
        return native.view(dtype).reshape(array.shape)
    if array.dtype.newbyteorder("=") != dtype:
        return None
    return array.astype(dtype, copy=False)


def _fits_shape(found: tuple[int, ...], declared: Shape | None) -> bool:
    """Whether rank and static sizes agree; a symbolic dim takes any size."""
    if declared is None:
        return True
    if len(found) != len(declared):
        return False
    return all(not isinstance(want, int) or size == want for size, want in zip(found, declared, strict=True))


_EPOCH = (1980, 1, 1, 0, 0, 0)
_SUFFIX = ".npy"
_BROKEN = (
    *(zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError),
    *(SyntaxError, tokenize.TokenError, TypeError, KeyError, MemoryError, OverflowError),
)
"""What zip files and numpy raise for a member that is damaged; a header is a Python literal to numpy."""
KINDS = "biufcU"
"""numpy's letters for what an input may be: bool, integers, floats, complex numbers, text."""
MOST_DIMS = 32
_NAME_BYTES = 60_000


def write_npz(target: Path | IO[bytes], members: Mapping[str, NDArray[Any]]) -> None:
    """Write the arrays in the given order; the same arrays give the same bytes."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name, array in members.items():
            if "\0" in name or len(name.encode()) > _NAME_BYTES:
                raise UserError(f"input {name[:40]!r}: no zip member can have this name; rename the input")
            member = zipfile.ZipInfo(name + _SUFFIX, _EPOCH)
            member.create_system, member.external_attr = 3, 0o644 << 16
            header = io.BytesIO()
            np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
            member.file_size = header.tell() + array.nbytes
            with archive.open(member, "w") as file:
                file.write(header.getvalue())
                file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


class NpzReader:
    """An open `.npz`; `names` are its members, read one at a time and only when asked for.

    Raises `UserError` for anything that is not a sound array of plain data, or that would take more than
    `memory_bytes`, before memory is taken.
    """

    def __init__(self, source: Path | IO[bytes], where: str, memory_bytes: int) -> None:
        self.where = where
        self.left = memory_bytes
        if isinstance(source, Path) and not source.is_file():
            raise UserError(f"{where}: not a regular file; give an npz file")
        try:
            self._archive = zipfile.ZipFile(source)
        except _BROKEN as error:
            raise UserError(
                f"{where}: not an npz file ({_line(error)}); write one with numpy.savez"
            ) from error
        self._members = {
            info.filename.removesuffix(_SUFFIX): info
            for info in self._archive.infolist()
            if info.filename.endswith(_SUFFIX)
        }
        self.names = tuple(self._members)

    def __enter__(self) -> NpzReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    def read(self, name: str) -> NDArray[Any]:
        """The named array, read-only."""
        info = self._members[name]
        try:
            with self._archive.open(info) as file:
                return self._array(name, info, file)
        except _BROKEN as error:
            raise UserError(
                f"{self.where}: {name!r} is not a readable array ({_line(error)}); write the file again"
            ) from error

    def _array(self, name: str, info: zipfile.ZipInfo, file: IO[bytes]) -> NDArray[Any]:
        shape, fortran, dtype = _header(file)
        if dtype.hasobject:
            raise UserError(f"{self.where}: {name!r} holds Python objects; save plain arrays, strings as `U`")
        if dtype.kind not in KINDS or len(shape) > MOST_DIMS:
            raise ValueError(f"an array of type {dtype.str} and {len(shape)} dims")
        size = math.prod(shape) * dtype.itemsize
        if max(size, math.prod(shape)) > self.left:
            raise UserError(
                f"{self.where}: {name!r} takes {size} bytes, over the memory limit; give smaller inputs"
                " or raise --memory"
            )
        if size > info.file_size:
            raise ValueError("its header claims more than it holds")
        self.left -= size
        data = file.read(size)
        if len(data) < size:
            raise EOFError("it ends early")
        array = np.frombuffer(data, dtype) if size else np.zeros(math.prod(shape), dtype)
        if dtype.kind == "U" and size and not _is_text(np.frombuffer(data, dtype.str[0] + "u4")):
            raise ValueError("a text that holds no characters")
        return array.reshape(shape, order="F" if fortran else "C")


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
    else:
        raise ValueError(f"npy version {version[0]}.{version[1]}")
    if any(dim < 0 for dim in shape):
        raise ValueError("a negative dimension")
    return shape, fortran, dtype


def _is_text(points: NDArray[Any]) -> bool:
    """Whether these numbers are characters: none beyond the last, and no half of one."""
    return bool(((points < 0xD800) | ((points > 0xDFFF) & (points <= 0x10FFFF))).all())


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__
