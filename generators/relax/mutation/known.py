"""What is certain of the names of a program's main function without TVM: values by numpy, and their types.

A type is certain if TVM infers the very same: a name whose shape depends on a symbol, on data or on another
function is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from corpus.graphs.program import REF, Binding, GraphProgram, Input, tag_of
from corpus.values import Value
from generators.relax.ops import operators
from generators.relax.types import BOOL, FLOATS, Fields, Json, Tensor, Type
from generators.relax.watched import Unsound, Watched
from oracles.worker.relax_reference.rule import NotKnown

_BY_DATA = frozenset(
    f"relax.{name}"
    for name in (
        *("nonzero", "unique", "bucketize", "searchsorted", "topk", "dynamic_strided_slice", "bincount"),
        *("shape_of", "tensor_to_shape", "shape_to_tensor", "size"),
    )
)
"""Operators whose result has sizes, or a dtype, that no operand tells."""
_DTYPES = ("dtype", "out_dtype")


@dataclass(frozen=True)
class Learned:
    """The values of main's names in the run on the case's inputs, the sizes of its symbols, certain types.

    `is_whole` says whether every binding was computed.
    """

    values: Mapping[str, Any]
    sizes: Mapping[str, int]
    types: Mapping[str, Type]
    is_whole: bool


def learn(
    program: GraphProgram, inputs: Mapping[str, Value], given: Mapping[str, Type], most: float
) -> Learned:
    """Run main and tell what is certain; `given` are types that are known already.

    Raises `Unsound` for a value beyond `most`, and for a program that has no result at all.
    """
    document = json.loads(program.to_bytes())
    run, main = Watched(document, most), document["main"]
    known: dict[str, Any] = dict(run.constants)
    sizes: dict[str, int] = {}
    try:
        run.take(main, [inputs[item[0]] for item in main["inputs"]], known, sizes)
        unknown = [name for name in _computed(run, main["bindings"], known, sizes) if name]
    except (ArithmeticError, LookupError, ValueError, TypeError) as error:
        raise Unsound(str(error)) from error
    types = {**_certain(program, known), **{name: given[name] for name in given if name in known}}
    return Learned(known, sizes, types, not unknown)


def _computed(run: Watched, bindings: Json, known: dict[str, Any], sizes: dict[str, int]) -> Iterator[str]:
    """Compute what can be computed; yields the names of what cannot."""
    unknown: set[str] = set()
    for name, op, args, kwargs in bindings:
        if unknown & set(Binding("", "", tuple(args)).reads):
            unknown.add(name)
            yield name
            continue
        try:
            known[name] = run.value(name, op, args, kwargs, known, sizes)
        except NotKnown:
            unknown.add(name)
            yield name


def _certain(program: GraphProgram, known: Mapping[str, Any]) -> dict[str, Type]:
    """The types of constants, of main's inputs, and of what follows from these."""
    types: dict[str, Type] = {
        name: Tensor(value.dtype.name, value.shape) for name, value in program.constants.items()
    }
    for item in program.main.inputs:
        if (given := _of_input(item)) is not None:
            types[item.name] = given
    for binding in program.main.bindings:
        told = type_of(binding, types, known.get(binding.name))
        if told is not None:
            types[binding.name] = told
    return types


def _of_input(item: Input) -> Tensor | None:
    dims = tuple(dim for dim in item.shape if dim is not None)
    is_plain = item.declared is None and len(dims) == len(item.shape)
    return Tensor(item.dtype, dims) if is_plain else None


def type_of(binding: Binding, types: Mapping[str, Type], value: Any) -> Type | None:
    """The type of a binding of that value, if it is certain; of a tuple the types of its fields."""
    if "type" in binding.kwargs:
        return _static(binding.kwargs["type"])
    if binding.op == "match_cast":
        return _static(binding.args[1])
    if binding.op == "alias" and tag_of(binding.args[0]) == REF:
        return types.get(binding.args[0][REF])
    if binding.op == "getitem" and tag_of(binding.args[0]) == REF:
        told = types.get(binding.args[0][REF])
        return told.fields[int(binding.args[1])] if isinstance(told, Fields) else None
    if binding.op.startswith("relax.call_tir"):
        return _static(binding.kwargs.get("types", [None])[0])
    operands = [types.get(name) for name in binding.reads]
    tensors = [told for told in operands if isinstance(told, Tensor) and told.is_static]
    is_certain = binding.op in _with_entries() and len(tensors) == len(operands)
    if not is_certain or names_symbol(binding.args):
        return None
    return _typed(value, [told.dtype for told in tensors], binding)


def _typed(value: Any, dtypes: Sequence[str], binding: Binding) -> Type | None:
    if isinstance(value, tuple):
        fields = [_typed(each, dtypes, binding) for each in value]
        known = tuple(each for each in fields if each is not None)
        return Fields(known) if len(known) == len(fields) else None
    if not isinstance(value, np.ndarray):
        return None
    dtype = _dtype(value, dtypes, binding)
    return Tensor(dtype, value.shape) if dtype else None


def _dtype(value: Any, dtypes: Sequence[str], binding: Binding) -> str:
    """The dtype that is told, or that of the first operand of this kind."""
    if value.dtype.kind == "b":
        return BOOL
    told = binding.kwargs.get("attributes", ["", {}])[1]
    named = [str(told[key]) for key in _DTYPES if told.get(key) not in (None, "", "void")]
    kinds = [dtype for dtype in named or dtypes if (dtype in FLOATS) == (value.dtype.kind == "f")]
    is_one_of_several = value.dtype.kind == "f" and len({*kinds}) > 1
    return "" if is_one_of_several or (kinds and kinds[0] == BOOL) else (kinds or [""])[0]


def names_symbol(item: Json) -> bool:
    """Whether a shape or a number among arguments is spelled by symbols."""
    if isinstance(item, list | tuple):
        return any(map(names_symbol, item))
    if not isinstance(item, dict):
        return False
    if tag_of(item) in ("shape", "prim"):
        (dims,) = item.values()
        return any(isinstance(dim, str) for dim in (dims if "shape" in item else dims[1:]))
    return any(map(names_symbol, item.values()))


@cache
def _with_entries() -> frozenset[str]:
    return frozenset(each.name for each in operators()) - _BY_DATA


def _static(told: Json) -> Tensor | None:
    """The tensor of known sizes that a type of the document spells."""
    if not isinstance(told, dict) or "tensor" not in told:
        return None
    dtype, shape, _ = told["tensor"]
    is_known = dtype is not None and shape is not None and all(isinstance(dim, int) for dim in shape)
    return Tensor(str(dtype), tuple(shape)) if is_known else None
