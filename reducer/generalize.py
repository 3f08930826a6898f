"""The least graph that something holds of: only nodes and outputs go, sizes, types and values stay.

A whole reduction would go on to dims of 1 and weights of 0, of which every pass makes something else.

OATest §3.2.1 removes all specific shapes and values and keeps what the operators ask for; here only what was
seen not to matter is removed.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from corpus.case import Case
from corpus.formats.onnx import parse
from corpus.onnx.check import checker_complaint
from corpus.onnx.graph import initializer_names
from oracles.judge import Judge
from reducer.engine.decider import Allowance, AllowanceSpent, Decider
from reducer.engine.journal import Answer, Journal
from reducer.engine.predicates import JudgePool
from reducer.engine.rounds import Engine, Gate
from reducer.language import language_of
from reducer.move import Hints, Move
from reducer.moves import names, node_sets, values
from reducer.subject.base import initializer, read_tensor
from reducer.subject.onnx.nodesets import declaration

FOLDS = tuple(move for move in values.MOVES if move.search is values.fold_nodes)
MOVES: tuple[Move[Any], ...] = tuple(
    sorted((*node_sets.MOVES, *names.MOVES, *FOLDS), key=lambda move: (move.order, move.name))
)

MOST_CHECKS = 200
"""The search ends after this many questions and takes the least graph so far."""


def least_graph(case: Case, holds: Callable[[bytes], bool], judge: Judge) -> onnx.ModelProto | None:
    """The model of the fewest nodes and outputs of the case's that `holds`; None where it does of none.

    The judge's un-optimised configuration tells the value of every tensor, from which those are typed that
    become inputs.
    """
    language = language_of(case.format)
    subject = language.open(case, JudgePool(lambda: judge, judge))
    if not holds(subject.case(case).program):
        return None
    subject, _ = language.learn(subject, judge, case)
    decider = Decider(
        lambda like: Answer(holds(like.program)),
        Journal(Path("unused"), {}),
        Allowance(max_checks=MOST_CHECKS),
    )
    gate = Gate(decider, case, lambda found: found.is_valid)
    engine = Engine(gate, MOVES, Hints(), lambda found: language.learn(found, judge, case)[0])
    with suppress(AllowanceSpent):
        for better in engine.run(subject):
            subject = better
    return parse(subject.case(case).program)


Holds = Callable[[onnx.ModelProto], bool]
Place = tuple[str, int]
"""An input or a weight, by name, and an axis of it."""

SMALL = (2, 3, 4)
"""Sizes that every larger one is to become."""

FLOATS = frozenset(
    (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
)
"""Element types of weights; integers are mostly shapes, axes and indices, which steer."""


@dataclass(frozen=True)
class Generalized:
    """A graph whose free dims have a name, each with the least size that was seen to do.

    `opsets` are the first and the last version that it holds in.
    """

    graph: onnx.GraphProto
    opsets: tuple[int, int]
    least: tuple[tuple[str, int], ...]


def loosen(model: onnx.ModelProto, holds: Holds, opsets: range) -> Generalized | None:
    """Return None where it holds in none of the operator sets, or not with static shapes.

    The names of dims are d0, d1 and so on, those that must be equal have the same one.
    """

    def accepted(candidate: onnx.ModelProto) -> bool:
        return checker_complaint(candidate) is None and holds(candidate)

    model = _open_ended(model)
    found = _versions(model, accepted, opsets)
    if found is None:
        return None
    model = _shrunk(_with_version(model, found[1]), accepted)
    for index in reversed(range(len(model.graph.initializer))):
        candidate = _with_input(model, index)
        if candidate is not None and accepted(candidate):
            model = candidate
    free = _free_dims(model, accepted)
    least = tuple((f"d{at}", _least(model, places, accepted)) for at, places in enumerate(free))
    _name_dims(model.graph, free)
    return Generalized(model.graph, found, least)


def static(model: onnx.ModelProto, shapes: Mapping[str, tuple[int, ...]]) -> onnx.ModelProto:
    """The model with the inputs' shapes as they are given by name, and nothing said of any other value's.

    An input that has a weight for its default is that weight.
    """
    made = _open_ended(model)
    weights = initializer_names(made.graph)
    inputs = [info for info in made.graph.input if info.name not in weights]
    del made.graph.input[:]
    made.graph.input.extend(inputs)
    for info in made.graph.input:
        if info.name in shapes and info.type.HasField("tensor_type"):
            tensor = info.type.tensor_type
            tensor.ClearField("shape")
            tensor.shape.SetInParent()
            for size in shapes[info.name]:
                tensor.shape.dim.add(dim_value=size)
    return made


def _open_ended(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy that says no shape of what it computes: those follow from the inputs'."""
    made = deepcopy(model)
    del made.graph.value_info[:]
    for info in made.graph.output:
        info.type.tensor_type.ClearField("shape")
    return made


def _versions(model: onnx.ModelProto, accepted: Holds, opsets: range) -> tuple[int, int] | None:
    """The newest run of versions without a gap."""
    last = None
    for version in reversed(opsets):
        if accepted(_with_version(model, version)):
            last = last or version
            first = version
        elif last is not None:
            break
    return None if last is None else (first, last)


def _with_version(model: onnx.ModelProto, version: int) -> onnx.ModelProto:
    made = deepcopy(model)
    for entry in made.opset_import:
        entry.version = entry.version if entry.domain else version
    return made


def _with_input(model: onnx.ModelProto, index: int) -> onnx.ModelProto | None:
    """The model with a weight as an input; None of what may steer an operator."""
    tensor = model.graph.initializer[index]
    if tensor.data_type not in FLOATS:
        return None
    made = deepcopy(model)
    del made.graph.initializer[index]
    if all(info.name != tensor.name for info in made.graph.input):
        made.graph.input.append(declaration(tensor))
    return made


def _shrunk(model: onnx.ModelProto, accepted: Holds) -> onnx.ModelProto:
    """The model with large sizes small, one size at a time, wherever inputs and weights have it."""
    for size, places in sorted(_by_size(model.graph, weights=True).items(), reverse=True):
        for small in SMALL if size > SMALL[-1] else ():
            candidate = _resized(model, dict.fromkeys(places, small))
            if accepted(candidate):
                model = candidate
                break
    return model


def _free_dims(model: onnx.ModelProto, accepted: Holds) -> list[list[Place]]:
    """Classes of inputs' dims that may be of any size, those of one class together.

    Dims of equal size are one class where they may change together; else each is tried alone.
    """
    free: list[list[Place]] = []
    for places in _by_size(model.graph).values():
        if _may_change(model, places, accepted):
            free.append(places)
        elif len(places) > 1:
            free.extend([place] for place in places if _may_change(model, [place], accepted))
    now = dict(_dims(model.graph, False))
    sizes = {place: now[place] + 1 + at for at, places in enumerate(free) for place in places}
    return free if accepted(_resized(model, sizes)) else []


def _by_size(graph: onnx.GraphProto, *, weights: bool = False) -> dict[int, list[Place]]:
    """Dims of 1 broadcast, and none of 0 holds a value: those stay."""
    found: dict[int, list[Place]] = {}
    for place, size in _dims(graph, weights):
        if size > 1:
            found.setdefault(size, []).append(place)
    return found


def _dims(graph: onnx.GraphProto, weights: bool) -> Iterator[tuple[Place, int]]:
    for info in graph.input:
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            yield (info.name, axis), dim.dim_value
    for tensor in graph.initializer if weights else ():
        if tensor.data_type in FLOATS:
            yield from (((tensor.name, axis), size) for axis, size in enumerate(tensor.dims))


def _may_change(model: onnx.ModelProto, places: list[Place], accepted: Holds) -> bool:
    """Try two other sizes, since an even or a round size may matter."""
    size = dict(_dims(model.graph, False))[places[0]]
    return all(accepted(_resized(model, dict.fromkeys(places, other))) for other in (size + 1, 2 * size + 3))


def _least(model: onnx.ModelProto, places: list[Place], accepted: Holds) -> int:
    """The smallest size that we use if it works, else the present one: an index reaches so far."""
    smallest = dict.fromkeys(places, SMALL[0])
    return SMALL[0] if accepted(_resized(model, smallest)) else dict(_dims(model.graph, False))[places[0]]


def _resized(model: onnx.ModelProto, sizes: Mapping[Place, int]) -> onnx.ModelProto:
    made = deepcopy(model)
    for info in made.graph.input:
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            dim.dim_value = sizes.get((info.name, axis), dim.dim_value)
    for tensor in made.graph.initializer:
        dims = tuple(sizes.get((tensor.name, axis), size) for axis, size in enumerate(tensor.dims))
        if dims != tuple(tensor.dims):
            tensor.CopyFrom(initializer(tensor.name, np.resize(read_tensor(tensor, ()), dims)))
    return made


def _name_dims(graph: onnx.GraphProto, free: list[list[Place]]) -> None:
    names = {place: f"d{number}" for number, places in enumerate(free) for place in places}
    for info in graph.input:
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            if (info.name, axis) in names:
                dim.dim_param = names[info.name, axis]
