"""What of an original a reduced case still tells: its words, and runs of its values."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import onnx
from google.protobuf.message import Message

from corpus.case import Case
from corpus.onnx.graph import tensors, walk_model
from corpus.values import Tensor
from reducer.private.strings import ENUMERATIONS
from reducer.private.values import RUN
from reducer.subject.onnx.naming import OFFICIAL
from reducer.subject.tensors import read_tensor

SHORTEST_WORD = 4
FEWEST_DISTINCT = 3
CHUNK = 1 << 20
PLAIN = re.compile(r"[a-z]\d+|graph\d*|(?:custom|local|Op)\d+|ai\.onnx.*|com\.microsoft.*")
"""The names that the reducer gives by itself, and domains of everyone's."""


def words_left(original: Case, case: Case) -> tuple[str, ...]:
    """Return the reduced case's strings that hold a word of the original, four characters or longer."""
    own = {text for text in _all_words(case) if len(text) >= SHORTEST_WORD and not PLAIN.fullmatch(text)}
    if not own:
        return ()
    words = {text for text in _all_words(original) if len(text) >= SHORTEST_WORD}
    return tuple(sorted(text for text in own if text in words or any(word in text for word in words)))


def _all_words(case: Case) -> Iterator[str]:
    model: onnx.ModelProto = case.parsed
    yield from _words(model, _vocabulary(model))
    for name, value in case.inputs.items():
        yield name
        for array in value if isinstance(value, list) else (value,):
            if isinstance(array, np.ndarray) and array.dtype.kind in "USO":
                yield from (str(each) for each in array.flat)


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
    for array in _arrays(case):
        runs.setdefault(array.dtype, set()).update(_runs(array))
    wanted = {dtype: found for dtype, found in runs.items() if found}
    return any(_is_in(array, dtype, found) for dtype, found in wanted.items() for array in _arrays(original))


def _arrays(case: Case) -> Iterator[Tensor]:
    model: onnx.ModelProto = case.parsed
    for value in case.inputs.values():
        members = value if isinstance(value, list) else [] if value is None else [value]
        yield from (member for member in members if _has_run(member))
    for tensor in tensors(model):
        if tensor.data_type != onnx.TensorProto.STRING:
            array = read_tensor(tensor, case.external)
            if _has_run(array):
                yield array
    for node in walk_model(model):
        for attribute in node.attribute:
            if len(attribute.floats) >= RUN:
                yield np.array(attribute.floats, np.float32)


def _has_run(array: Tensor) -> bool:
    return array.dtype.kind not in "USO" and array.size >= RUN


def _runs(array: Tensor) -> set[bytes]:
    """Return the runs of eight values that tell something, as bytes."""
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
