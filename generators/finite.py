"""Values for a program that was not grown here: repaired at the first node that is not finite.

A run with every intermediate shows that node. The inputs that feed it are drawn anew within its guards or the
usual ranges; where no draw gets further, gradients do (`torch_finite`; NNSmith, section 3.3). What counts is
always another run with every intermediate. Weights are the program's own and stay, unless they are freed.
`triage/cases/sources.py` calls it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from itertools import product
from typing import NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

from corpus.allowance import RESERVE_SECONDS, OutOfTime, allowed
from corpus.case import Case, Remark
from corpus.onnx.check import repair
from corpus.onnx.graph import outer_names, producers, topological
from corpus.onnx.types import element_type
from corpus.values import NO_DIMS, Tensor, Value, is_float
from generators.fitting import fitted
from generators.language.emit import language_of
from generators.language.values import RandomSource, draw
from oracles.judge import Judge
from oracles.operators import all_operators
from oracles.probes.record import record_whole
from oracles.relation.types import Range, dtype_of
from oracles.sandbox.sandbox import Job
from oracles.verdict import Config

REPAIR_RUNS = 24
STEPS = 200
FIRST_LOOK = 0.5
"""The share of a run's time that the first look gets: what takes longer has yet to be judged."""
RATES = (100, 1000)
"""The first steps, in thousandths: the second for inputs that are far away."""

BYTE_BUDGET = 256 << 20
PROGRAM_BYTES = 16 << 20
MOST_NODES = 20_000

MOST_ELEMENTS = 1 << 20
"""A larger weight stays as it is."""

_STARTS = (Range(0.5, 2), Range(-2, -0.5))
_USUAL = (Range(0.5, 2), Range(-2, -0.5), Range(2, 8), Range(-8, -2), Range(-0.1, 0.1), Range(0, 1))


class Guard(NamedTuple):
    """Bounds on one operand, by its place."""

    place: int
    range: Range


_AWAY = Range(-math.inf, math.inf, 0.1)
_MORE: Mapping[str, tuple[Guard, ...]] = {
    "Div": (Guard(1, _AWAY),),
    "Mod": (Guard(1, _AWAY),),
    "Pow": (Guard(0, Range(0.1, 10)), Guard(1, Range(-4, 4))),
    "Exp": (Guard(0, Range(-10, 10)),),
}
"""What the generator sees to when it samples operands, rather than by a domain of the one in focus."""


@dataclass(frozen=True, slots=True)
class Settled:
    """A case and what was done to its inputs, in words; `is_finite` by a run with every intermediate.

    `ran` is False where that run did not end well, or none was tried.
    """

    case: Case
    is_finite: bool
    steps: tuple[str, ...] = ()
    ran: bool = True


@dataclass(frozen=True, slots=True)
class _Trouble:
    """The first node whose operands are finite and whose result is not, and the values of that run."""

    at: int
    node: onnx.NodeProto
    values: Mapping[str, Value]


def make_finite(case: Case, judge: Judge, *, gradients: bool = True, runs: int = REPAIR_RUNS) -> Settled:
    """The case under inputs that keep every value finite, or the best that were found in `runs` runs.

    A case that does not run, or is too large to look into, comes back as it is.
    """
    is_small = len(case.program) <= PROGRAM_BYTES and not case.external
    is_searched = language_of(case.format).searches_inputs and is_small
    if not is_searched or len(case.parsed.graph.node) > MOST_NODES:
        return Settled(case, False, ran=False)
    seconds = judge.limits.cpu_seconds
    try:
        with allowed(FIRST_LOOK * seconds + RESERVE_SECONDS):
            look = _Look(case, record_whole(judge.executor, case, byte_budget=BYTE_BUDGET))
    except OutOfTime:
        return Settled(case, False)
    if look.ran and look.trouble is not None:
        with allowed(seconds + RESERVE_SECONDS):
            look = _repaired(look, judge, runs, gradients)
    return Settled(look.case, look.ran and look.trouble is None, look.steps, look.ran)


def _repaired(look: _Look, judge: Judge, runs: int, gradients: bool) -> _Look:
    """Repair the values with a number of runs, then with gradients for the seconds that are left."""
    try:
        while look.trouble is not None and runs > 0:
            used, better = _redraw(look, judge, runs)
            runs -= used
            if better is None:
                break
            look = better
        return _search(look, judge) if look.trouble is not None and gradients else look
    except OutOfTime:
        return look


def settled(
    case: Case, judge: Judge, *, free_weights: bool = False, seed: int = 0, dims: Mapping[str, int] = NO_DIMS
) -> Case:
    """Give the case that `make_finite` leaves, with inputs that fit, and a note that says what was done.

    With `free_weights` the program's weights may move as well where its inputs alone do not do. `seed` and
    `dims` are those that its inputs were made with.
    """
    found = make_finite(case, judge)
    if not found.ran and language_of(case.format).searches_inputs:
        fitting = fitted(case, judge, seed=seed, dims=dims)
        found = found if fitting is case else make_finite(fitting, judge)
        case = fitting
    is_free = free_weights and language_of(case.format).searches_inputs and not case.external
    if is_free and not found.is_finite:
        free = freed(found.case)
        more = make_finite(free, judge)
        if more.is_finite:
            found = replace(more, case=bound(more.case, case), steps=(*found.steps, *more.steps))
    if not found.steps:
        return case
    result = "every value is finite" if found.is_finite else "NaN or infinity comes later"
    kind = Remark.CHANGED if found.case.program == case.program else Remark.FREED
    note = kind.note(f"{result} ({'; '.join(found.steps)})")
    return replace(found.case, notes=(*case.notes, note))


class _Look:
    """A case, the trouble that its values show (None where it did not run), the steps that led to it."""

    def __init__(self, case: Case, values: Mapping[str, Value] | None, steps: tuple[str, ...] = ()) -> None:
        model = repair(case.parsed)[0]
        nodes = topological(model.graph.node, outer_names(model.graph))
        self.case = case
        self.steps = steps
        self.graph = model.graph
        self.nodes = list(model.graph.node if nodes is None else nodes)
        self.ran = values is not None
        self.trouble = self._trouble(values or {})

    def _trouble(self, values: Mapping[str, Value]) -> _Trouble | None:
        fed = set(_floats(self.case))
        for at, node in enumerate(self.nodes):
            if fed.isdisjoint(node.input):
                continue
            fed.update(node.output)
            given = all(_is_finite(values.get(name)) for name in node.input)
            if given and not all(_is_finite(values.get(name)) for name in node.output):
                return _Trouble(at, node, values)
        return None

    def after(self, changed: Case, judge: Judge, step: str) -> _Look:
        """A look at the case after a step that was taken because of the trouble."""
        assert self.trouble is not None
        node = self.trouble.node
        said = f"{node.op_type} {node.name or node.output[0]}: {step}"
        values = record_whole(judge.executor, changed, byte_budget=BYTE_BUDGET)
        return _Look(changed, values, (*self.steps, said))

    def gets_further_than(self, other: _Look) -> bool:
        assert other.trouble is not None
        return self.ran and (self.trouble is None or self.trouble.at > other.trouble.at)


def _floats(case: Case) -> dict[str, Tensor]:
    """The inputs that may be changed."""
    tensors = {name: value for name, value in case.inputs.items() if isinstance(value, np.ndarray)}
    return {name: value for name, value in tensors.items() if value.size and is_float(value)}


def _is_finite(value: Value | None) -> bool:
    if isinstance(value, list):
        return all(map(_is_finite, value))
    if value is None or (value.dtype.kind != "f" and value.dtype.isbuiltin != 2):
        return True
    return bool(np.isfinite(value.astype(np.float64)).all())


def _redraw(look: _Look, judge: Judge, runs: int) -> tuple[int, _Look | None]:
    """The runs used, and the first draw of one input that gets further."""
    assert look.trouble is not None
    used = 0
    for name, wanted in _candidates(look, look.trouble):
        if used == runs:
            break
        used += 1
        changed = replace(look.case, inputs={**look.case.inputs, name: _within(look.case, name, wanted)})
        found = look.after(changed, judge, f"{name} in {wanted.low:.3g} … {wanted.high:.3g}")
        if found.gets_further_than(look):
            return used, found
    return used, None


def _within(case: Case, name: str, wanted: Range) -> Tensor:
    """The input, with what lies outside of the range drawn anew."""
    old = _floats(case)[name]
    new = draw(RandomSource(f"finite/{name}/{wanted}"), dtype_of(old), old.shape, wanted).array
    wide = old.astype(np.float64)
    kept = (wide >= wanted.low) & (wide <= wanted.high) & (np.abs(wide) >= wanted.away)
    return np.where(kept, old, new).astype(old.dtype, copy=False)


def _candidates(look: _Look, trouble: _Trouble) -> Iterator[tuple[str, Range]]:
    """Inputs with ranges for them: those that the guards ask for, then the usual ones."""
    inputs = _floats(look.case)
    made = producers(look.graph)
    operands = list(trouble.node.input)
    own = [each for each in guards().get(trouble.node.op_type, ()) if each.place < len(operands)]
    seen = [(operands[place], within) for place, within in own if operands[place] in inputs]
    yield from seen
    node = trouble.node
    waiting, reached = list(node.input), set(node.input)
    while waiting:
        name = waiting.pop()
        new = [one for one in (made[name].input if name in made else ()) if one not in reached]
        reached.update(new)
        waiting += new
    for wanted in _USUAL:
        yield from ((name, wanted) for name in inputs if name in reached and (name, wanted) not in seen)


def _search(look: _Look, judge: Judge) -> _Look:
    """Improve the inputs by gradients, from the point that the draws have reached."""
    if find_spec("torch") is None:
        return look
    ways = ((rate, wanted, False) for rate, wanted in product(RATES, (None, *_STARTS)))
    for way in ((RATES[0], None, True), *ways):
        found = _descended(look, judge, *way)
        if found is None:
            break
        look = found if found.gets_further_than(look) else look
        if look.trouble is None:
            break
    return look


def _descended(look: _Look, judge: Judge, rate: int, wanted: Range | None, draws: bool) -> _Look | None:
    """Descend from the inputs as they are, or from a range; return the end if it is better."""
    start = {name: _within(look.case, name, wanted) for name in _floats(look.case)} if wanted else {}
    searched = ("steps", STEPS), ("rate", rate), ("draws", draws)
    settings = (("via", "gradients"), ("guards", _guards_as_text()), *searched)
    way = Config("gradients", settings, backend="torch")
    (run,) = judge.executor.run(Job(look.case.program, {**look.case.inputs, **start}, (way,)))
    if not run.is_ok or look.trouble is None:
        return None
    changed = replace(look.case, inputs={**look.case.inputs, **run.outputs})
    return look.after(changed, judge, "gradients")


def _guards_as_text() -> str:
    """The guards for the worker; bounds that are none as null."""

    def bound(value: float) -> float | None:
        return value if math.isfinite(value) else None

    listed = {
        name: [(place, bound(each.low), bound(each.high), each.away) for place, each in own]
        for name, own in guards().items()
    }
    return json.dumps(listed)


# What operands must be


@cache
def guards() -> Mapping[str, tuple[Guard, ...]]:
    """Map ONNX operators to their guards."""
    own = {
        operator.name: (Guard(0, operator.domain),)
        for operator in all_operators()
        if operator.is_standard and operator.domain is not None
    }
    return {**own, **_MORE}


# Weights that may move: inputs while values are looked for, and weights again after


def freed(case: Case) -> Case:
    """The case with its float weights among its inputs; itself where it has none that may move."""
    model = deepcopy(case.parsed)
    moving = filter(_may_move, model.graph.initializer)
    found = {tensor.name: numpy_helper.to_array(tensor) for tensor in moving}
    if not found:
        return case
    declared = {each.name for each in model.graph.input}
    kept = [tensor for tensor in model.graph.initializer if tensor.name not in found]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    for name, value in found.items():
        if name not in declared:
            kind = element_type(value.dtype)
            model.graph.input.append(helper.make_tensor_value_info(name, kind, value.shape))
    return replace(case, program=model.SerializeToString(), inputs={**found, **case.inputs})


def bound(found: Case, case: Case) -> Case:
    """The case with the values that its weights and inputs have in one that was `freed`."""
    model = deepcopy(case.parsed)
    for tensor in model.graph.initializer:
        value = found.inputs.get(tensor.name)
        if isinstance(value, np.ndarray) and tensor.name not in case.inputs:
            tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
    inputs = {name: found.inputs[name] for name in case.inputs}
    return replace(case, program=model.SerializeToString(), inputs=inputs)


def _may_move(tensor: onnx.TensorProto) -> bool:
    is_inside = tensor.data_location != onnx.TensorProto.EXTERNAL
    if not is_inside or not 0 < np.prod(tensor.dims, dtype=np.int64) <= MOST_ELEMENTS:
        return False
    return is_float(numpy_helper.to_array(tensor))
