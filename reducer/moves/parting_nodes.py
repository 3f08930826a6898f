"""Of a wrong value: the nodes at which the optimised run parts from the un-optimised one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from corpus.values import Tensor
from reducer.move import Hints, Move, Search
from reducer.moves.named_nodes import around
from reducer.search import Items
from reducer.subject.onnx.nodesets import keep_nodes
from reducer.subject.onnx.retype import change_tensors
from reducer.subject.onnx.subject import OnnxSubject


def keep_parting_nodes(subject: OnnxSubject, hints: Hints) -> Search:
    """Only the rewritten nodes; else those around them too. Wrong evidence costs two calls.

    Where their own results are wrong within the tolerance only, they first get values of many magnitudes,
    then the nodes by which the difference grows.
    """
    rewritten = _makers(subject, hints.parting.rewritten)
    carriers = _makers(subject, hints.parting.carriers)
    if not rewritten or len(rewritten | carriers) >= len(subject.nodes):
        return subject
    choices: tuple[Callable[[], OnnxSubject | None], ...] = (
        partial(_keep_revalued if carriers else keep_nodes, subject, rewritten),
        partial(keep_nodes, subject, rewritten | (carriers or around(subject, rewritten))),
    )
    for proposal in choices:
        if (yield proposal):
            return proposal() or subject
    return subject


def _makers(subject: OnnxSubject, names: Iterable[str]) -> Items:
    return frozenset(subject.producer[name] for name in names if name in subject.producer)


def _keep_revalued(subject: OnnxSubject, keep: Items) -> OnnxSubject | None:
    """The nodes `keep`, with values of many magnitudes flowing in."""
    kept = keep_nodes(subject, keep)
    return with_magnitudes(kept) if kept is not None else None


def with_magnitudes(subject: OnnxSubject) -> OnnxSubject | None:
    """Return the subject with every float input spread over both signs and several magnitudes."""
    arrays = {name: subject.array(name) for name in subject.graph_inputs if name not in subject.initializers}
    changed = {
        name: _magnitudes(array)
        for name, array in arrays.items()
        if array is not None and array.dtype.kind == "f"
    }
    return change_tensors(subject, changed) if changed else None


def _magnitudes(array: Tensor) -> Tensor:
    """1, -3, 1/3, -9, 1/9 … -81, 1/81, then with the other signs, and so on."""
    index = np.arange(array.size)
    steps = np.array([0, 1, -1, 2, -2, 3, -3, 4, -4])[index % 9]
    return (np.where(index % 2, -1.0, 1.0) * 3.0**steps).reshape(array.shape).astype(array.dtype)


MOVES = (
    Move(
        "keep the nodes where values part", 140, keep_parting_nodes, reshapes=True, once=True, on=OnnxSubject
    ),
)
