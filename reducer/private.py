"""`--private`: what the original said, replaced: names, strings, weight values, and the search for remains.

In comes a reduced case and its original; out comes a case that keeps the failure and none of the words
or values. `reducer/course.py` calls it after the search.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import ml_dtypes
import numpy as np
import onnx
from google.protobuf.message import Message
from onnx import NodeProto, TensorProto

from corpus.case import Case
from corpus.onnx.graph import function_key, tensors, walk_all_graphs, walk_model
from corpus.onnx.types import is_external
from corpus.reading import ExternalFile
from corpus.values import Tensor, Value
from reducer.subject.base import initializer, read_tensor, real_parts
from reducer.subject.onnx.retype import change_model, drop_unused_sets, rename_sets
from reducer.subject.onnx.subject import (
    OFFICIAL,
    OnnxSubject,
    clear_remarks,
    dim_names,
    number_dims,
    number_graphs,
    numbered,
    plain_functions,
    renamed_runs,
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


def broken(array: Tensor, offset: int) -> Tensor:
    """Every eighth value is another one; no run of eight is left."""
    flat = np.array(array, copy=True).reshape(-1)
    others = fresh(array).reshape(-1)
    for at in range(offset, flat.size, RUN):
        flat[at] = others[at] if others[at] != flat[at] else others[at - 1]
    return flat.reshape(array.shape)


CHANGES: tuple[Change, ...] = (fresh, alike, *(partial(broken, offset=at) for at in reversed(range(RUN))))


ENUMERATIONS = frozenset(
    (
        *("auto_pad", "mode", "direction", "activations", "activation", "reduction", "equation", "layout"),
        *("coordinate_transformation_mode", "nearest_mode", "padding_mode", "approximate", "format", "norm"),
        *("keep_aspect_ratio_policy", "case_change_action", "post_transform", "aggregate_function"),
        *("kernel_type", "nodes_modes", "rounding_mode", "pixel_format", "onnx_dtype", "cast_to"),
        *("map_form", "interpolation_mode", "qk_norm", "quant_type"),
    )
)
"""Attributes of official operators whose strings choose one of a few ways, or are structure."""


def placeholders(subject: OnnxSubject) -> dict[str, str]:
    """Map strings of data to plain ones: letters to letters, digits to digits, distinct to distinct.

    Strings of one pattern are numbered in sorted order, so that their order stays. A plain string maps to
    itself.
    """
    by_pattern: dict[str, list[str]] = {}
    for text in sorted(set(_strings(subject))):
        by_pattern.setdefault("".join(map(_blank, text)), []).append(text)
    return {
        text: _counted(pattern, number)
        for pattern, texts in by_pattern.items()
        for number, text in enumerate(texts)
    }


def _blank(char: str) -> str:
    if char.isdigit():
        return "0"
    if char.isalpha():
        return "A" if char.isupper() else "a"
    return char


def _counted(pattern: str, number: int) -> str:
    """The pattern with a number in its letters and digits, the last one counting fastest."""
    chars = list(pattern)
    for at in reversed(range(len(chars))):
        base = {"0": 10, "a": 26, "A": 26}.get(chars[at])
        if base is not None:
            number, digit = divmod(number, base)
            chars[at] = chr(ord(chars[at]) + digit)
    return "".join(chars)


def with_strings(subject: OnnxSubject, instead: Mapping[str, str]) -> OnnxSubject:
    """The subject with some strings replaced wherever they are: attributes, weights, inputs."""

    def edit(model: onnx.ModelProto) -> None:
        for node in walk_model(model):
            for attribute in _data_attributes(node):
                if attribute.type == onnx.AttributeProto.STRING:
                    attribute.s = _swap(attribute.s, instead)
                attribute.strings[:] = [_swap(text, instead) for text in attribute.strings]
        for tensor in tensors(model):
            tensor.string_data[:] = [_swap(text, instead) for text in tensor.string_data]

    inputs = {name: _swap_value(value, instead) for name, value in subject.inputs.items()}
    return replace(_edited(edit, subject), inputs=inputs)


def _strings(subject: OnnxSubject) -> Iterator[str]:
    for node in walk_model(subject.model):
        for attribute in _data_attributes(node):
            yield from (_text(each) for each in (attribute.s, *attribute.strings) if each)
    for tensor in tensors(subject.model):
        if tensor.data_type == TensorProto.STRING:
            yield from map(_text, tensor.string_data)
    yield from _texts_of(subject.inputs)


def _texts_of(inputs: Mapping[str, Value]) -> Iterator[str]:
    for value in inputs.values():
        for array in value if isinstance(value, list) else (value,):
            if isinstance(array, np.ndarray) and array.dtype.kind in "USO":
                yield from map(str, array.flat)


def _data_attributes(node: NodeProto) -> Iterator[onnx.AttributeProto]:
    """Yield the attributes whose strings are data."""
    is_official = node.domain in OFFICIAL
    for attribute in node.attribute:
        if (attribute.s or attribute.strings) and not (is_official and attribute.name in ENUMERATIONS):
            yield attribute


def _text(content: bytes) -> str:
    return content.decode("utf-8", errors="surrogateescape")


def _swap(content: bytes, instead: Mapping[str, str]) -> bytes:
    text = _text(content)
    return instead.get(text, text).encode("utf-8", errors="surrogateescape")


def _swap_value(value: Value, instead: Mapping[str, str]) -> Value:
    if isinstance(value, list):
        return [_swap_array(array, instead) for array in value]
    return _swap_array(value, instead) if isinstance(value, np.ndarray) else value


def _swap_array(array: Tensor, instead: Mapping[str, str]) -> Tensor:
    if array.dtype.kind not in "USO":
        return array
    swapped = [instead.get(str(each), str(each)) for each in array.flat]
    return np.array(swapped, dtype=array.dtype).reshape(array.shape)


def _edited(edit: Callable[[onnx.ModelProto], None], subject: OnnxSubject) -> OnnxSubject:
    model = deepcopy(subject.model)
    edit(model)
    return replace(subject, model=model)


def _drop_remarks(model: onnx.ModelProto) -> None:
    """Documentation, metadata, producers, names of nodes and graphs, operator sets that are not used."""
    clear_remarks(model)
    model.ClearField("domain")
    number_graphs(model)
    for holder in (*walk_all_graphs(model), *model.functions):
        del holder.value_info[:]
    for node in walk_model(model):
        node.ClearField("name")
        for attribute in node.attribute:
            for tensor in (*([attribute.t] if attribute.HasField("t") else []), *attribute.tensors):
                tensor.ClearField("name")
    drop_unused_sets(model)


def _plain_dims(subject: OnnxSubject) -> OnnxSubject:
    """Symbolic dims become d0, d1, …"""
    named = replace(subject, earlier=renamed_runs(subject.earlier, dim_names(subject.model)))
    return _edited(number_dims, named)


def _plain_domains(model: onnx.ModelProto) -> None:
    """Foreign domains become custom0, …; their operators Op0, …; and the attributes of those a0, …"""
    functions = {function_key(each) for each in model.functions}
    foreign = [
        node
        for node in walk_model(model)
        if node.domain not in OFFICIAL and function_key(node) not in functions
    ]
    domains = numbered((node.domain for node in foreign), "custom")
    kinds = numbered((node.op_type for node in foreign), "Op")
    attributes = numbered((item.name for node in foreign for item in node.attribute), "a")
    for node in foreign:
        for attribute in node.attribute:
            attribute.name = attributes[attribute.name]
        node.domain, node.op_type = domains[node.domain], kinds[node.op_type]
        node.ClearField("overload")
    rename_sets(model, domains)


EDITS = (
    partial(_edited, _drop_remarks),
    _plain_dims,
    partial(_edited, plain_functions),
    partial(_edited, _plain_domains),
)
"""No remarks, plain dims, functions and what they take under plain names, plain domains."""


SHORTEST_WORD = 4
FEWEST_DISTINCT = 3
CHUNK = 1 << 20
PLAIN = re.compile(r"[a-z]\d+|graph\d*|(?:custom|local|Op)\d+|ai\.onnx.*|com\.microsoft.*")
"""The names that the reducer gives by itself, and domains of everyone's."""


def words_left(original: Case, case: Case) -> tuple[str, ...]:
    """The reduced case's strings that hold a word of the original, four characters or longer."""
    own = {text for text in _all_words(case) if len(text) >= SHORTEST_WORD and not PLAIN.fullmatch(text)}
    if not own:
        return ()
    words = {text for text in _all_words(original) if len(text) >= SHORTEST_WORD}
    return tuple(sorted(text for text in own if text in words or any(word in text for word in words)))


def _all_words(case: Case) -> Iterator[str]:
    model: onnx.ModelProto = case.parsed
    yield from _words(model, _vocabulary(model))
    yield from case.inputs
    yield from _texts_of(case.inputs)


def _words(message: Message, known: frozenset[str]) -> Iterator[str]:
    """Yield every text in a message, weights left out, that is not of the operators' own vocabulary."""
    for field, value in message.ListFields():
        values = value if field.is_repeated else (value,)
        if field.message_type is not None:
            for inner in values:
                yield from _words(inner, known)
        elif field.cpp_type == field.CPPTYPE_STRING and field.name != "raw_data":
            for text in values:
                plain = text if isinstance(text, str) else text.decode("utf-8", errors="replace")
                if plain not in known:
                    yield plain


def _vocabulary(model: onnx.ModelProto) -> frozenset[str]:
    """Official operators, domains, attribute names and enumerated values that the model uses."""
    found = set(OFFICIAL)
    for node in walk_model(model):
        if node.domain in MICROSOFT or onnx.defs.has(node.op_type, domain=node.domain):
            found.add(node.op_type)
            for attribute in node.attribute:
                found.add(attribute.name)
                if attribute.name in ENUMERATIONS:
                    texts = (attribute.s, *attribute.strings)
                    found.update(text.decode("utf-8", errors="replace") for text in texts)
    return frozenset(found)


MICROSOFT = frozenset(domain for domain in OFFICIAL if domain.startswith("com."))


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
