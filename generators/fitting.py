"""Inputs that a model takes: where a run refuses those that were made, what it says of them mends them.

A message names the node, and mostly two sizes, a range or a rank. Each round tries the changes that its
numbers suggest and keeps the first that ends well, else the first that gets to a later node.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, product

from onnx import ModelProto

from corpus.case import Case, Remark
from corpus.errors import UserError
from corpus.onnx.inputs import fit_inputs
from corpus.onnx.sizes import Plan, Solved, solve
from corpus.values import Value
from oracles.judge import Judge
from oracles.verdict import Phase, Run, Status

ROUNDS = 5
TRIES = 10
"""Changes that a round tries."""

_MOST = 4096
_RANKS = range(1, 7)
_NODE = re.compile(r"Name:'([^']*)'")
_RANGE = re.compile(r"\[(-?\d+), ?(-?\d+)\]")
_RANK = re.compile(r"[Rr]ank|dimension|\d-?D\b|dims")
_INPUT_RANK = re.compile(r"Invalid rank for input: (.+?) Got: \d+ Expected: (\d+)")
_MULTIPLE = re.compile(r"multiple|divisible|modulo|%")


@dataclass(frozen=True, slots=True)
class _Try:
    """A plan, the inputs that follow from it, and what a run said of them."""

    plan: Plan
    inputs: Mapping[str, Value]
    run: Run
    at: int


def fitted(case: Case, judge: Judge, *, seed: int, dims: Mapping[str, int]) -> Case:
    """The case with inputs that the un-optimised configuration takes.

    Where none were made in `ROUNDS` rounds, the case is as it was, with a note that blames its inputs; where
    it takes those it has, or fails before it looks at them, the case itself.
    """
    if not case.inputs:
        return case
    first = _run(case, judge)
    if not is_refusal(first) or judge.executor.classify(first) == "unsupported":
        return case
    search = _Search(case, judge, seed)
    tried = search.attempt(Plan(sizes=dims))
    for _ in range(ROUNDS - 1):
        if tried is None or not is_refusal(tried.run):
            break
        tried = search.mended(tried)
    if tried is None or is_refusal(tried.run):
        said = " ".join(first.message.split())[-200:]
        return replace(case, notes=(*case.notes, Remark.UNFIT.note(said)))
    note = Remark.FITTED.note(" ".join(first.message.split())[-160:])
    return replace(case, inputs=tried.inputs, notes=(*case.notes, note))


def is_refusal(run: Run) -> bool:
    """Whether a run took the program and stopped over its data."""
    return run.status is Status.EXCEPTION and run.phase is Phase.EXECUTE


def _run(case: Case, judge: Judge) -> Run:
    return judge.runs(case, judge.configs[:1])[0]


class _Search:
    """Plans for the inputs of one case, and the runs that answer them."""

    def __init__(self, case: Case, judge: Judge, seed: int) -> None:
        self._case, self._judge, self._seed = case, judge, seed
        self._model: ModelProto = case.parsed
        self._places = {node.name: at for at, node in enumerate(self._model.graph.node) if node.name}

    def attempt(self, plan: Plan) -> _Try | None:
        """Run the inputs of a plan; None where it has none."""
        try:
            inputs = fit_inputs(self._model, self._seed, plan)
        except UserError:
            return None
        run = _run(replace(self._case, inputs=inputs), self._judge)
        return _Try(plan, inputs, run, self._place(run))

    def mended(self, tried: _Try) -> _Try | None:
        """The first change that ends well or gets further; else one that meets another complaint."""
        other = None
        solved = solve(self._model, tried.plan)
        for plan in islice(_changes(tried, solved), TRIES):
            found = self.attempt(plan)
            if found is None:
                continue
            if not is_refusal(found.run) or found.at > tried.at:
                return found
            if found.at == tried.at and found.run.message != tried.run.message:
                other = other or found
        return other

    def _place(self, run: Run) -> int:
        named = _NODE.search(run.message)
        return self._places.get(named[1], -1) if named else -1


def _changes(tried: _Try, solved: Solved) -> Iterator[Plan]:
    """Yield plans that differ from the one that was tried by what its refusal suggests, without repeats."""
    seen = [tried.plan]
    for plan in _suggested(tried, solved):
        if plan not in seen:
            seen.append(plan)
            yield plan


def _suggested(tried: _Try, solved: Solved) -> Iterator[Plan]:
    plan, message = tried.plan, tried.run.message
    numbers = list(dict.fromkeys(int(text) for text in re.findall(r"\d+", _said(message)) if len(text) < 6))
    if found := _INPUT_RANK.search(message):
        yield replace(plan, ranks={**plan.ranks, found[1]: int(found[2])})
    yield from _bounded(tried, numbers)
    free = _free(solved)
    for size, wanted in product(numbers, numbers):
        if size != wanted and 0 < wanted <= _MOST:
            yield from (plan.with_size(dim, wanted) for dim, now in free.items() if now == size)
    if _RANK.search(message):
        yield from _other_ranks(tried, solved, numbers)
    if _MULTIPLE.search(message):
        yield from (plan.with_size(dim, now * 8) for dim, now in free.items() if now in numbers)
    yield from _merged(plan, free)
    yield from _other_ranks(tried, solved, list(_RANKS))


def _said(message: str) -> str:
    """The part of a message that is about the values, not about the place in the source."""
    return message.rpartition("Status Message:")[2] or message


def _free(solved: Solved) -> dict[str, int]:
    """The size that each free dim has now."""
    return {
        dim: size
        for name, dims in solved.dims.items()
        for dim, size in zip(dims, solved.shapes[name], strict=True)
        if isinstance(dim, str)
    }


def _bounded(tried: _Try, numbers: list[int]) -> Iterator[Plan]:
    """Other whole numbers in the inputs: within a range that the message names, then the usual ones."""
    plan = tried.plan
    whole = [
        name
        for name, value in tried.inputs.items()
        if value is not None and not isinstance(value, list) and value.dtype.kind in "iu"
    ]
    ranges = [(max(int(low), 0), int(high)) for low, high in _RANGE.findall(tried.run.message)]
    if not ranges and not re.search(r"range|bound|index|length|must be|should|value", tried.run.message):
        return
    usual = [(each, each) for each in (0, 1, *numbers[:2]) if each < _MOST]
    for low, high in dict.fromkeys([*ranges, *usual]):
        if low <= high:
            yield from (replace(plan, bounds={**plan.bounds, name: (low, high)}) for name in whole)


def _other_ranks(tried: _Try, solved: Solved, numbers: list[int]) -> Iterator[Plan]:
    """Other ranks of the inputs whose declaration leaves the rank open."""
    plan = tried.plan
    for name, dims in solved.dims.items():
        if dims and all(isinstance(dim, str) and dim.startswith(f"{name}#") for dim in dims):
            yield from (replace(plan, ranks={**plan.ranks, name: rank}) for rank in numbers if rank in _RANKS)


def _merged(plan: Plan, free: Mapping[str, int]) -> Iterator[Plan]:
    """All free dims equal: what a graph asks by products of them, or only at run time, mostly holds then."""
    for size in (1, 2, 4, 8):
        yield replace(plan, sizes={**plan.sizes, **dict.fromkeys(free, size)})
