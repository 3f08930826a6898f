"""Programs whose main becomes a function of the module that a new main calls with operands of several sizes.

One compiled function of symbolic dims then runs for all of them, and the case still holds one set of inputs.
"""

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from corpus.errors import UserError
from corpus.graphs.format import symbols
from corpus.graphs.program import CALL, REF, Binding, Graph, Input
from corpus.values import Tensor as Array
from generators.language.values import RandomSource
from generators.relax.leaves import drawn
from generators.relax.operator import Json, Tensor, Type, Within, concrete
from generators.relax.programs import RelaxProgram, has_shape
from generators.relax.watched import COMPARISONS, MOST_FLOAT, MOST_HALF, Unsound, Watched, is_close
from oracles.worker.relax_reference.rule import NotKnown

_SHARE = 0.6
"""How many of the programs with symbolic dims are run with several sizes."""
_MOST_FURTHER, _TRIES, _SHARED = 3, 5, 0.4
"""How many further sizes there are, how often one is drawn, and how often a static input serves all."""
_MOST_ELEMENTS = 20_000
_STEPS = {"relax.ceil": 0.0, "relax.floor": 0.0, "relax.trunc": 0.0, "relax.astype": 0.0, "relax.round": 0.5}
"""Operators whose results jump, and where between two whole numbers."""
_SLACK = {True: 2.0**-7, False: 1e-4}
"""How near to a jump rounding may decide, of halves and of others: no noise is put into a function."""

Feeds = Mapping[str, Array]


def instantiated(made: RelaxProgram, draws: RandomSource) -> RelaxProgram:
    """The program run with several sizes, if it has symbolic dims and other sizes suit what it computes."""
    main = made.program.main
    names = symbols(item.shape for item in main.inputs)
    if not names or any(item.declared is not None for item in main.inputs) or not draws.chance(_SHARE):
        return made
    tried = (_resized(made, names, draws) for _ in range(_TRIES))
    further = [feeds for feeds in tried if feeds and _is_sound(made, feeds)]
    further = further[: draws.between(1, _MOST_FURTHER)]
    calls = draws.sample([made.inputs, *further], len(further) + 1)
    return _calling(made, calls, draws.chance(0.5)) if further else made


def _resized(made: RelaxProgram, names: Sequence[str], draws: RandomSource) -> Feeds:
    """Operands of main for other sizes of its symbolic dims; none if one would be too large."""
    sizes = {name: draws.extent() for name in names}
    feeds: dict[str, Array] = {}
    for item in made.program.main.inputs:
        given = made.inputs[item.name]
        told = Tensor(item.dtype, tuple(dim for dim in item.shape if dim is not None))
        shape = concrete(told.shape, sizes)
        if prod(shape) > _MOST_ELEMENTS:
            return {}
        is_shared = told.is_static and draws.chance(_SHARED)
        feeds[item.name] = given if is_shared else _like(draws, given, shape)
    return feeds


def _like(draws: RandomSource, given: Array, shape: tuple[int, ...]) -> Array:
    """Values in the range of those that the program was grown with, for which its operators are defined."""
    if not given.size or given.dtype.kind == "b":
        return drawn(draws, given.dtype.name, shape, Within())
    numbers = given.astype(np.float64)
    is_nonzero = bool(np.all(np.abs(numbers) >= 0.5))
    within = Within(float(numbers.min()), float(numbers.max()), is_nonzero)
    return drawn(draws, given.dtype.name, shape, within)


def _is_sound(made: RelaxProgram, feeds: Feeds) -> bool:
    """Whether every value is defined, not too large, and of the dims that its type says."""
    is_half = any(array.dtype == np.float16 for array in (*feeds.values(), *made.program.constants.values()))
    run = _Typed(json.loads(made.program.to_bytes()), made.types, is_half=is_half)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)  # numpy's, of a mean of nothing
            run.main(feeds)
    except (Unsound, NotKnown, ArithmeticError, LookupError, ValueError, RuntimeWarning):
        return False
    return True


class _Typed(Watched):
    """A run that is `Unsound` near a jump, and at a tensor of other dims than its type says, or too large."""

    def __init__(self, document: Mapping[str, Any], types: Mapping[str, Type], *, is_half: bool) -> None:
        super().__init__(document, MOST_HALF if is_half else MOST_FLOAT)
        self.types, self.slack = types, _SLACK[is_half]

    def value(
        self,
        name: str,
        op: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        known: dict[str, Any],
        sizes: dict[str, int],
    ) -> Any:
        """Compute a binding and look at its dims."""
        told = self.types.get(name)
        if isinstance(told, Tensor):
            _must_be_bounded(_elements(told, sizes))
        found = super().value(name, op, args, kwargs, known, sizes)
        if isinstance(found, np.ndarray):
            _must_be_bounded(found.size)
        if isinstance(told, Tensor) and not has_shape(found, told.shape, sizes):
            raise Unsound(f"{name} is not {told}")
        if op in COMPARISONS:
            left, right = (self.argument(each, known, sizes) for each in args)
        elif op in _STEPS:
            left = self.argument(args[0], known, sizes)
            right = np.rint(np.asarray(left) - _STEPS[op]) + _STEPS[op]
        else:
            return found
        if is_close(left, right, self.slack):
            raise Unsound("rounding decides")
        return found


def _elements(told: Tensor, sizes: Mapping[str, int]) -> int:
    """How many elements a tensor of that type has; 0 if a symbol of it has no size yet."""
    try:
        return prod(concrete(told.shape, sizes))
    except UserError:
        return 0


def _must_be_bounded(elements: int) -> None:
    if elements > _MOST_ELEMENTS:
        raise Unsound(f"{elements} elements")


@dataclass
class _Main:
    """The new main function while its calls are written."""

    function: str
    old: Graph
    inputs: list[Input]
    feeds: dict[str, Array]
    bindings: list[Binding]
    outputs: list[str]

    def call(self, place: int, feeds: Feeds) -> None:
        """Call the function with these operands, and return what it gives."""
        operands = [self.operand(item, f"{item.name}_{place}", feeds[item.name]) for item in self.old.inputs]
        result = f"{self.function}_{place}"
        self.bindings.append(Binding(result, "call", ({CALL: self.function}, *operands)))
        if len(self.old.outputs) == 1:
            self.outputs.append(result)
            return
        for at, output in enumerate(self.old.outputs):
            self.bindings.append(Binding(f"{output}_{place}", "getitem", ({REF: result}, at)))
            self.outputs.append(f"{output}_{place}")

    def operand(self, item: Input, name: str, value: Array) -> Json:
        """An input of main for a parameter; the same one for the same value."""
        for other, fed in self.feeds.items():
            if fed is value:
                return {REF: other}
        self.inputs.append(Input(name, item.dtype, value.shape))
        self.feeds[name] = value
        return {REF: name}


def _calling(made: RelaxProgram, calls: Sequence[Feeds], is_in_block: bool) -> RelaxProgram:
    """The program with a main that makes these calls of what was main."""
    old = made.program
    main = _Main("whole", old.main, [], {}, [], [])
    for place, feeds in enumerate(calls):
        main.call(place, feeds)
    marks = {"block": 1} if is_in_block else {}
    bindings = tuple(replace(each, kwargs=marks) for each in main.bindings)
    graph = Graph(tuple(main.inputs), bindings, tuple(main.outputs), old.main.facts)
    program = replace(old, main=graph, functions={**old.functions, main.function: old.main})
    types = {
        item.name: Tensor(item.dtype, value.shape)
        for item, value in zip(main.inputs, main.feeds.values(), strict=True)
    }
    return replace(made, program=program, inputs=main.feeds, types={**made.types, **types}, alone=made)
