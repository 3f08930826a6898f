"""Weights and inputs that could tell of their model, and values to stand in for them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto

from corpus.case import Case
from corpus.onnx.graph import tensors, walk_model
from corpus.onnx.types import is_external
from corpus.reading import ExternalFile
from corpus.values import Tensor, Value
from reducer.subject.base import initializer, read_tensor, real_parts
from reducer.subject.onnx.retype import change_model
from reducer.subject.onnx.subject import (
    OnnxSubject,
)

RUN = 8
"""So many values one after the other tell where they come from."""


GOLDEN = 0.6180339887498949


Place: TypeAlias = tuple[str, int | str, int]
"""Where values are: in an input, a member of one, a tensor of the model, an attribute of numbers."""


Change: TypeAlias = Callable[[Tensor], Tensor]


def telling_places(subject: OnnxSubject) -> tuple[Place, ...]:
    """The places of values that tell something and that we did not make ourselves."""
    return tuple(
        place
        for place, array in _arrays(subject.model, subject.inputs)
        if tells(array) and not _same(fresh(array), array) and not _same(alike(array), array)
    )


def tells(array: Tensor) -> bool:
    """Whether an array holds a run of eight values, and not the same value throughout."""
    if not _has_run(array):
        return False
    flat = np.asarray(array).reshape(-1)
    return bool((flat != flat[0]).any())


def with_values(subject: OnnxSubject, places: tuple[Place, ...], change: Change) -> OnnxSubject | None:
    """The subject with changed values at some places; None where nothing changes, or it does not type."""
    arrays = dict(_arrays(subject.model, subject.inputs))
    changed = {place: change(arrays[place]) for place in places if place in arrays}
    changed = {place: new for place, new in changed.items() if not _same(new, arrays[place])}
    if not changed:
        return None

    def edit(model: onnx.ModelProto) -> None:
        for number, tensor in enumerate(tensors(model)):
            if ("tensor", number, 0) in changed:
                tensor.CopyFrom(initializer(tensor.name, changed["tensor", number, 0]))
        for number, attribute in enumerate(_numbers(model)):
            if ("floats", number, 0) in changed:
                attribute.floats[:] = changed["floats", number, 0].tolist()

    inputs = {name: _changed_input(name, value, changed) for name, value in subject.inputs.items()}
    return change_model(subject, edit, inputs)


def _changed_input(name: str, value: Value, changed: Mapping[Place, Tensor]) -> Value:
    if isinstance(value, list):
        return [changed.get(("member", name, at), each) for at, each in enumerate(value)]
    return changed.get(("input", name, 0), value) if value is not None else None


def _arrays(
    model: onnx.ModelProto, inputs: Mapping[str, Value], external: Iterable[ExternalFile] = ()
) -> Iterator[tuple[Place, Tensor]]:
    """Yield every array of numbers: inputs, members of sequences, tensors at any depth, attributes.

    Tensors outside of the model are left out, unless their files are given.
    """
    files = tuple(external)
    for name, value in inputs.items():
        if isinstance(value, list):
            yield from ((("member", name, at), each) for at, each in enumerate(value))
        elif value is not None:
            yield ("input", name, 0), value
    for number, tensor in enumerate(tensors(model)):
        if tensor.data_type != TensorProto.STRING and (files or not is_external(tensor)):
            yield ("tensor", number, 0), read_tensor(tensor, files)
    for number, attribute in enumerate(_numbers(model)):
        yield ("floats", number, 0), np.array(attribute.floats, np.float32)


def _numbers(model: onnx.ModelProto) -> Iterator[onnx.AttributeProto]:
    for node in walk_model(model):
        yield from (attribute for attribute in node.attribute if attribute.floats)


def _same(one: Tensor, other: Tensor) -> bool:
    return one.tobytes() == np.ascontiguousarray(other).tobytes()


def fresh(array: Tensor) -> Tensor:
    """Values spread evenly over the same range, of floats up to a power of two; such values stay."""
    if array.dtype.kind == "c":
        both: Tensor = fresh(real_parts(array)).view(array.dtype).reshape(array.shape)
        return both
    steps = np.modf(np.arange(array.size) * GOLDEN)[0]
    if array.dtype.kind in "biu" or _is_integer(array):
        return _fresh_integers(array, steps)
    wide = np.asarray(array).astype(np.float64).ravel()
    finite = wide[np.isfinite(wide)]
    top = _power(np.abs(finite).max(initial=0.0), array.dtype)
    low, high = (-top if (finite < 0).any() else 0.0), (top if (finite > 0).any() else 0.0)
    values = low + (high - low) * steps
    values[0], values[1] = high, low
    made: Tensor = values.astype(array.dtype).reshape(array.shape)
    return made


def _fresh_integers(array: Tensor, steps: Tensor) -> Tensor:
    """Evenly spread over the same range, both ends among them."""
    numbers = [int(value) for value in (np.asarray(array).min(), np.asarray(array).max())]
    low, high = min(numbers), max(numbers)
    values = [low + int((high - low + 1) * step) for step in steps.tolist()]
    values[0], values[1] = high, low
    made: Tensor = np.array(values, dtype=object).astype(array.dtype).reshape(array.shape)
    return made


def _is_integer(array: Tensor) -> bool:
    return str(array.dtype) in ("int2", "int4", "uint2", "uint4")


def _power(most: float, dtype: np.dtype[np.generic]) -> float:
    """The next power of two, as far as the type reaches."""
    if not most:
        return 0.0
    reach = float(ml_dtypes.finfo(dtype).max)
    return float(min(2.0 ** np.ceil(np.log2(most)), reach))


def alike(array: Tensor) -> Tensor:
    """The same order of sizes and the same quarters, the values between them spread evenly.

    What is not finite stays where it is.
    """
    if array.dtype.kind not in "fV":
        return fresh(array)
    wide = np.asarray(array).astype(np.float64).ravel()
    at = np.flatnonzero(np.isfinite(wide))
    if at.size < RUN:
        return array
    order = at[np.argsort(wide[at], kind="stable")]
    anchors = np.quantile(wide[at], (0, 0.25, 0.5, 0.75, 1), method="nearest")
    wide[order] = np.interp(np.linspace(0, 1, at.size), (0, 0.25, 0.5, 0.75, 1), anchors)
    return wide.astype(array.dtype).reshape(array.shape)


CHANGES: tuple[Change, ...] = (fresh, alike)

FEWEST_DISTINCT = 3

CHUNK = 1 << 20


def holds_run(original: Case, case: Case) -> bool:
    """Whether eight values one after the other of the original are in the reduced case, in whatever type.

    Runs of fewer than three distinct values tell nothing.
    """
    runs: dict[np.dtype[np.generic], set[bytes]] = {}
    for array in _arrays_with_runs(case):
        runs.setdefault(array.dtype, set()).update(_runs(array))
    wanted = {dtype: found for dtype, found in runs.items() if found}
    return any(
        _is_in(array, dtype, found)
        for dtype, found in wanted.items()
        for array in _arrays_with_runs(original)
    )


def _arrays_with_runs(case: Case) -> Iterator[Tensor]:
    found = (array for _, array in _arrays(case.parsed, case.inputs, case.external))
    return filter(_has_run, found)


def _has_run(array: Tensor) -> bool:
    return array.dtype.kind not in "USO" and array.size >= RUN


def _runs(array: Tensor) -> set[bytes]:
    """The runs of eight values that tell something, as bytes."""
    flat = np.ascontiguousarray(array).reshape(-1)
    width = flat.dtype.itemsize
    content = flat.tobytes()
    starts = range(flat.size - RUN + 1)
    pieces = (content[at * width : (at + RUN) * width] for at in starts)
    return {
        piece
        for piece in pieces
        if len({piece[at : at + width] for at in range(0, RUN * width, width)}) >= FEWEST_DISTINCT
    }


def _is_in(array: Tensor, dtype: np.dtype[np.generic], runs: set[bytes]) -> bool:
    """Whether one of the runs is in the array, that cast to their type; a chunk in memory at a time."""
    width = dtype.itemsize
    firsts = np.unique(np.array([np.frombuffer(run[:width], _bits(width))[0] for run in runs]))
    flat = np.asarray(array).reshape(-1)
    for start in range(0, flat.size, CHUNK):
        with np.errstate(all="ignore"):
            part = np.ascontiguousarray(flat[start : start + CHUNK + RUN - 1].astype(dtype))
        content = part.tobytes()
        for at in np.flatnonzero(np.isin(np.frombuffer(content, _bits(width)), firsts)):
            if content[at * width : (at + RUN) * width] in runs:
                return True
    return False


def _bits(width: int) -> np.dtype[np.generic]:
    return np.dtype(f"u{width}") if width in (1, 2, 4, 8) else np.dtype(f"V{width}")
