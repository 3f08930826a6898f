"""How a Relax program grows, and what ends its growth (the RFC's base cases).

A leaf is a name in scope, an input, a constant, or a filled tensor (the RFC's "Core Approach"). An operand
that must lie within bounds is guarded where it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import takewhile
from math import prod
from typing import Any

import numpy as np

from corpus.values import Tensor as Array
from generators.language.profile import Budget
from generators.language.values import RandomSource
from generators.relax.choices import Choices
from generators.relax.making import Frame, Helper, Known, attributes
from generators.relax.operator import (
    ANY,
    BOOL,
    Asking,
    Dim,
    Fields,
    Json,
    Sizes,
    Tensor,
    Type,
    Want,
    Within,
    concrete,
)
from generators.relax.watched import (
    MOST_FLOAT,
    MOST_HALF,
    Cost,
    TooLarge,
    Unsound,
    Watched,
    deepened,
    is_held,
    lies_within,
    names_of,
)
from oracles.worker.relax_reference.program import wide
from oracles.worker.relax_reference.rule import NotKnown

_NOTHING = Cost()

_DIMS = 3
"""How many sizes a program keeps to, so that what one operator makes fits what another one reads."""


Form = Callable[..., Any]
"""From a growth, a frame, a target, its bounds and fuel to what was grown; None where it does not fit."""


_TRIES = 4

MOST_ELEMENTS = 3000
"""Of one value, at the sizes of the program."""


class Growth:
    """One program under growth, by the forms that there are. `left` counts the bindings it may still get."""

    def __init__(
        self, draws: RandomSource, policy: Choices, nodes: int, budget: Budget, forms: Mapping[str, Form]
    ) -> None:
        self.draws = draws
        self._forms = forms
        self.foremost = ""
        """The operator that the next call is to be of, where the type allows that."""
        self.policy = policy
        self.budget = budget
        self.cost = Cost()
        self.depths: dict[str, int] = {}
        """By name of a binding, the operators of the longest chain that ends in it."""
        self.left = nodes
        self.main = Frame(takes_inputs=True)
        self.feeds: dict[str, Array] = {}
        self.constants: dict[str, Array] = {}
        self.functions: dict[str, Json] = {}
        self.opaque: dict[str, Json] = {}
        self.helpers: list[Helper] = []
        self.types: dict[str, Type] = {}
        self.results: list[str] = []
        """Names that the program gives besides what was grown for."""
        self.hidden: dict[str, Any] = {}
        """Values of names that only the pattern that made them reads."""
        self._names = 0
        self.floats = self._palette(policy.floats)
        self.integers = self._palette(policy.integers)
        self.dims = tuple(draws.sample(policy.dims, min(_DIMS, len(policy.dims))))

    def _palette(self, weights: Mapping[str, float]) -> tuple[str, ...]:
        """Two dtypes that this program keeps to, the first of them mostly."""
        first, other = (self.draws.weighted(tuple(weights), tuple(weights.values())) for _ in range(2))
        return first, first, other

    def fresh(self, letter: str = "v") -> str:
        """Make a name that the program does not hold yet."""
        self._names += 1
        return f"{letter}{self._names}"

    def skip_names(self, count: int) -> None:
        """Make none of the first `count` names."""
        self._names = max(self._names, count)

    @property
    def most(self) -> float:
        """The largest magnitude that a value may have: float16 holds less."""
        return MOST_HALF if "float16" in self.floats else MOST_FLOAT

    def asking(self, frame: Frame) -> Asking:
        """What a solver may use within a frame."""
        symbols = frame.all_symbols()
        own = [dim for dim in self.dims if self.budget.fits((dim,))] or [1]
        dims: tuple[Dim, ...] = (*own, *symbols, *symbols)
        usual = (dims, self.floats, self.integers, self.policy.most_rank, self.policy.binned)
        return Asking(self.draws, frame.all_sizes(), *usual)

    # Values

    def run(self) -> Watched:
        """A run that sees the program as it is now."""
        outside = {"functions": self.functions, "opaque": self.opaque}
        run = Watched({"main": {}, "constants": {}, "facts": {}, **outside}, self.most)
        run.constants = {name: wide(value) for name, value in self.constants.items()}
        return run

    def bind(
        self, frame: Frame, op: str, args: list[Json], told: Type, kwargs: Mapping[str, Json] | None = None
    ) -> Known:
        """A new binding with its value; Unsound for a value that no program may hold."""
        name = self.fresh()
        value = self.put(frame, name, op, args, kwargs)
        self._agree(op, told, value, frame)
        return self.know(frame, name, told, value)

    def bind_on(
        self, hidden: Known, frame: Frame, op: str, args: list[Json], told: Type, **kwargs: Json
    ) -> Known:
        """A new binding that reads a value which no other growth may read."""
        inner = Frame(known=[hidden], outer=frame)
        made = self.bind(inner, op, args, told, kwargs)
        frame.bindings += inner.bindings
        frame.known.append(made)
        return made

    def put_as(self, frame: Frame, told: Type, op: str, args: list[Json]) -> Known:
        """A new binding that is of a type because of what reads it, not by its own."""
        name = self.fresh()
        return Known(name, told, self.put(frame, name, op, args))

    def put(
        self, frame: Frame, name: str, op: str, args: list[Json], kwargs: Mapping[str, Json] | None = None
    ) -> Any:
        """Add a binding that nothing reads by its type, and return its value."""
        run, given = self.run(), dict(kwargs or {})
        known = {**run.constants, **frame.values()}
        value = run.value(name, op, args, given, known, frame.all_sizes())
        read = [known[each] for each in names_of(args) if each in known]
        self.pay(op, read, value, run.inside if op == "call" else _NOTHING)
        self.place(name, op, args)
        frame.bindings.append([name, op, args, given])
        return value

    def pay(self, op: str, read: list[Any], value: Any, inside: Cost = _NOTHING) -> None:
        """Count what a value costs; TooLarge where the budget does not hold it.

        A branch has paid for itself as it grew, so that `inside` is what a called function costs.
        """
        cost = self.cost.plus(op, read, value).and_also(inside)
        if not is_held(self.budget, cost, value):
            raise TooLarge(op)
        self.cost = cost

    def place(self, name: str, op: str, args: Json) -> None:
        """Note the longest chain that ends in a new binding; TooLarge where the budget does not hold it.

        What an attempt that was undone said of the name is forgotten.
        """
        self.types.pop(name, None)
        self.depths[name] = deepened(self.depths, op, args)
        if not self.budget.reaches(self.depths[name]):
            raise TooLarge(op)

    def know(self, frame: Frame, name: str, told: Type, value: Any) -> Known:
        """Note a value of a body, with its type and what it was in the run."""
        self.left -= 1
        self.types[name] = told
        found = Known(name, told, value)
        frame.known.append(found)
        return found

    def _agree(self, op: str, told: Type, value: Any, frame: Frame) -> None:
        """An entry whose types and values differ is a mistake of ours."""
        if isinstance(told, Tensor) and isinstance(value, np.ndarray):
            wanted = concrete(told.shape, frame.all_sizes())
            kind = "f" if told.is_float else np.dtype(told.dtype).kind
            if wanted != value.shape or kind != value.dtype.kind:
                raise AssertionError(f"{op}: {told} {wanted}, but {value.dtype}{value.shape}")
        elif isinstance(told, Fields):
            for field, part in zip(told.fields, value, strict=True):
                self._agree(op, field, part, frame)

    def constant(self, array: Array) -> Known:
        """A constant of the program; the same one where it is there already."""
        known = (name for name, value in self.constants.items() if _is_same(value, array))
        name = next(known, "") or self.fresh("c")
        value = self.constants.setdefault(name, array)
        return Known(name, Tensor(array.dtype.name, array.shape), wide(value))

    # Growing

    def grow(self, frame: Frame, target: Type, within: Within = ANY, fuel: int = 0) -> Known:
        """A value of the type within the bounds."""
        sizes = concrete(target.shape, frame.all_sizes()) if isinstance(target, Tensor) else ()
        if prod(max(size, 1) for size in sizes) > MOST_ELEMENTS:
            raise TooLarge(str(target))
        if fuel > 0 and self.left > 0 and isinstance(target, Tensor):
            for _ in range(_TRIES):
                name = self.draws.weighted(tuple(self.policy.forms), tuple(self.policy.forms.values()))
                found: Known | None = None
                with self.attempt(frame) as is_lost:
                    found = self._forms[name](self, frame, target, within, fuel)
                    if found is not None:
                        found = self.settle(frame, found, target, within)
                    if found is not None:
                        is_lost.clear()
                if found is not None and not is_lost:
                    return found
        return leaf(self, frame, target, within)

    def settle(self, frame: Frame, found: Known, target: Type, within: Within) -> Known | None:
        """The value, guarded where it leaves the bounds; None where no guard helps."""
        if lies_within(found.value, within):
            return found
        assert isinstance(target, Tensor)
        found = guarded(self, frame, found, target, within)
        return found if lies_within(found.value, within) else None

    def grow_all(self, frame: Frame, wants: list[Want], fuel: int) -> list[Known]:
        """The operands of a call, which share the fuel."""
        found = []
        for place, want in enumerate(wants):
            share = fuel if place == len(wants) - 1 else self.draws.between(0, fuel)
            fuel -= share
            grown = self.grow(frame, want.type, want.within, share)
            if want.is_named and grown.name in self.constants:
                grown = self.bind(frame, "alias", [grown.ref], want.type)
            found.append(grown)
        return found

    # Taking back

    @contextmanager
    def attempt(self, frame: Frame) -> Iterator[list[bool]]:
        """Grow on trial: undo the growth if it fails. Clear the list to keep it."""
        left, names, cost = self.left, self._names, self.cost
        stores = (self.feeds, self.constants, self.functions, self.opaque, self.hidden)
        lists = (*frame.lists, self.helpers, self.results)
        kept = [len(each) for each in (*stores, *lists)]
        is_lost = [True]
        try:
            yield is_lost
        except (Unsound, NotKnown, TooLarge):
            is_lost[:] = [True]
        if is_lost:
            self.left, self._names, self.cost = left, names, cost
            for store, count in zip(stores, kept, strict=False):
                for name in list(store)[count:]:
                    del store[name]
            for each, count in zip(lists, kept[len(stores) :], strict=True):
                del each[count:]


_REUSE, _CONSTANT = 0.75, 0.3

_JOINED = 0.7
"""How often a value that is read again is an operator's result where there is one, so that operators meet."""


def _is_same(one: Array, other: Array) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and np.array_equal(one, other)


def leaf(growth: Growth, frame: Frame, target: Type, within: Within) -> Known:
    """A value of the type within the bounds, by one binding at most."""
    if isinstance(target, Fields):
        parts = [leaf(growth, frame, each, within) for each in target.fields]
        return growth.bind(frame, "alias", [{"tuple": [each.ref for each in parts]}], target)
    if isinstance(target, Sizes):
        return growth.bind(frame, "alias", [{"shape": list(target.dims)}], target)
    assert isinstance(target, Tensor)
    found = fitting(frame, target, within)
    if found and growth.draws.chance(_REUSE):
        made = [each for each in found if growth.depths.get(each.name)]
        return growth.draws.pick(made if made and growth.draws.chance(_JOINED) else found)
    if not is_bound(target, frame):
        return growth.draws.pick(found) if found else filled(growth, frame, target, within)
    shape = concrete(target.shape, frame.all_sizes())
    if frame.takes_inputs and not (target.is_static and growth.draws.chance(_CONSTANT)):
        return new_input(growth, frame, target, within)
    if target.is_static:
        return growth.constant(drawn(growth.draws, target.dtype, shape, within))
    return filled(growth, frame, target, within)


def fitting(frame: Frame, target: Type, within: Within) -> list[Known]:
    """The names in scope of this very type, whose values lie within the bounds."""
    return [each for each in frame.readable() if each.type == target and lies_within(each.value, within)]


def is_bound(target: Tensor, frame: Frame) -> bool:
    """Whether a parameter of main may have the type: its symbols are main's own, each of them a whole dim."""
    return target.is_static or (
        frame.takes_inputs
        and all(isinstance(dim, int) or dim in frame.symbols[: frame_symbols(frame)] for dim in target.shape)
    )


def frame_symbols(frame: Frame) -> int:
    """Count the symbols that a frame's inputs bind; the others come from casts."""
    bound = {dim for item in frame.inputs for dim in item[2] if isinstance(dim, str)}
    return sum(1 for _ in takewhile(bound.__contains__, frame.symbols))


def new_input(growth: Growth, frame: Frame, target: Tensor, within: Within) -> Known:
    """A further parameter of main."""
    name = growth.fresh("x")
    array = drawn(growth.draws, target.dtype, concrete(target.shape, frame.all_sizes()), within)
    growth.pay("alias", [], array)
    growth.feeds[name] = array
    growth.types[name] = target
    frame.inputs.append([name, target.dtype, list(target.shape)])
    found = Known(name, target, wide(array))
    frame.known.append(found)
    return found


def filled(growth: Growth, frame: Frame, target: Tensor, within: Within) -> Known:
    """A tensor of one number, which may be of symbolic dims."""
    number = growth.constant(drawn(growth.draws, target.dtype, (), within))
    args = [{"shape": list(target.shape)}, number.ref]
    return growth.bind(frame, "relax.full", args, target, attributes("InitAttrs", dtype=target.dtype))


def drawn(draws: RandomSource, dtype: str, shape: tuple[int, ...], within: Within) -> Array:
    """Plain values within the bounds."""
    count = int(np.prod(shape, dtype=np.int64))
    if dtype == BOOL:
        return np.array([draws.chance(0.5) for _ in range(count)], bool).reshape(shape)
    is_float = dtype.startswith("float")
    low, high = (-3.0, 3.0) if is_float else (0.0, 6.0) if dtype.startswith("u") else (-4.0, 4.0)
    if within.low is not None or within.high is not None:
        low = within.low if within.low is not None else low
        high = min(within.high if within.high is not None else high, max(low + 6.0, high))
        low = max(low, high - 12.0)
    numbers = np.array([low + (high - low) * draws.random() for _ in range(count)], np.float64)
    values = numbers if is_float else np.floor(numbers + 0.5)
    if within.is_nonzero:
        values = np.where(np.abs(values) < 0.5, 1.0, values)
    if is_float:
        values = np.round(values, 3)
    return values.astype(dtype).reshape(shape)


def guarded(growth: Growth, frame: Frame, found: Known, target: Tensor, within: Within) -> Known:
    """The value brought into the bounds: an index by a remainder, other numbers by clipping."""
    if within.low is not None or within.high is not None:
        is_index = not target.is_float and within.low == 0 and within.high is not None
        if is_index and growth.draws.chance(0.5):
            count = int(within.high or 0) + 1
            args = [found.ref, _scalar(growth, count, target.dtype)]
            found = growth.bind(frame, "relax.floor_mod", args, target)
        else:
            found = _clipped(growth, frame, found, target, within)
    return _not_zero(growth, frame, found, target) if within.is_nonzero else found


def _scalar(growth: Growth, value: float, dtype: str) -> Json:
    return growth.constant(np.array(value).astype(dtype)).ref


def _clipped(growth: Growth, frame: Frame, found: Known, target: Tensor, within: Within) -> Known:
    for op, bound in (("relax.maximum", within.low), ("relax.minimum", within.high)):
        if bound is not None:
            args = [found.ref, _scalar(growth, bound, target.dtype)]
            found = growth.bind(frame, op, args, target)
    return found


def _not_zero(growth: Growth, frame: Frame, found: Known, target: Tensor) -> Known:
    """Replace values near zero by one."""
    size = found
    if target.is_float or not target.dtype.startswith("u"):
        size = growth.bind(frame, "relax.abs", [found.ref], target)
    limit = _scalar(growth, 0.25 if target.is_float else 1, target.dtype)
    small = growth.bind(frame, "relax.less", [size.ref, limit], target.of(BOOL))
    one = _scalar(growth, 1, target.dtype)
    return growth.bind(frame, "relax.where", [small.ref, one, found.ref], target)
