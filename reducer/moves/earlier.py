"""Fewer earlier runs of what is compiled, with fewer and smaller sizes; none is a case that runs once.

What fails in an earlier run, or whatever ran before, fails as well with the inputs of that run.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import onnx

from corpus.case import Case
from oracles.worker.arrays import with_shape
from reducer.move import Hints, Move, Search, SearchOf, first_smaller, first_valid, over_sets, smaller_by
from reducer.search import Items, drop_one_at_a_time
from reducer.subject.base import Facts
from reducer.subject.onnx.retype import change_model
from reducer.subject.onnx.subject import OnnxSubject

MOST_ELEMENTS = 1 << 20
"""Of a larger input of an earlier run no input is made."""


def fewer_earlier_runs(subject: OnnxSubject, hints: Hints) -> Search:
    """None; the inputs of one of them instead; one size after the other less; at last smaller sizes."""
    if not subject.earlier:
        return subject
    subject = yield from first_smaller(subject, _shorter(subject))
    if not subject.earlier:
        return (yield from _static(subject))
    places = [(at, name) for at, sizes in enumerate(subject.earlier) for name in sizes]
    fewer = yield from over_sets(
        subject, drop_one_at_a_time(range(len(places))), partial(_with_sizes, subject, places)
    )
    kept = [(at, name) for at, sizes in enumerate(fewer.earlier) for name in sizes]
    lower = [partial(_with_size, at, name, small) for at, name in kept for small in (1, 2, 3)]
    return (yield from smaller_by(fewer, lower))


def _shorter(subject: OnnxSubject) -> Iterator[Callable[[], OnnxSubject | None]]:
    """The last run alone; each other one alone, and after those before it."""
    yield partial(replace, subject, earlier=())
    case = subject.case(Case("onnx", b"", {})).knowing(subject.model)
    for at, shapes in enumerate(case.earlier_shapes):
        for earlier in dict.fromkeys((0, at)):
            yield partial(_with_shapes, replace(subject, earlier=subject.earlier[:earlier]), shapes)


def _with_shapes(subject: OnnxSubject, shapes: Mapping[str, tuple[int, ...]]) -> OnnxSubject | None:
    """The subject with inputs of these shapes, of which no facts are known; they may be empty."""
    if any(np.prod(shape, dtype=float) > MOST_ELEMENTS for shape in shapes.values()):
        return None
    changed = {name: with_shape(np.asarray(subject.inputs[name]), shape) for name, shape in shapes.items()}
    return replace(subject, facts=Facts()).with_tensors(changed)


def _static(subject: OnnxSubject) -> SearchOf[OnnxSubject]:
    """The subject with the sizes of its inputs for their symbolic dims, if it still fails."""

    def edit(model: onnx.ModelProto) -> None:
        for info in model.graph.input:
            dims, given = info.type.tensor_type.shape.dim, subject.array(info.name)
            for dim, length in zip(dims, () if given is None else given.shape, strict=False):
                dim.dim_value = length

    return (yield from first_valid(subject, [partial(change_model, subject, edit)]))


def _with_sizes(subject: OnnxSubject, places: Sequence[tuple[int, str]], keep: Items) -> OnnxSubject:
    kept = {places[place] for place in keep}
    runs = (
        {name: length for name, length in sizes.items() if (at, name) in kept}
        for at, sizes in enumerate(subject.earlier)
    )
    return replace(subject, earlier=tuple(filter(None, runs)))


def _with_size(at: int, name: str, length: int, subject: OnnxSubject) -> OnnxSubject:
    sizes = {**subject.earlier[at], name: length}
    return replace(subject, earlier=(*subject.earlier[:at], sizes, *subject.earlier[at + 1 :]))


MOVES = (Move("fewer earlier runs", 245, fewer_earlier_runs, reshapes=True, on=OnnxSubject),)
