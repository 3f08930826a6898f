"""What ends growth (the RFC's base cases): a name in scope, an input, a constant, or a filled tensor.

The RFC's "Core Approach". An operand that must lie within bounds is guarded where it does not.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from corpus.values import Tensor as Array
from generators.language.profile import Budget
from generators.language.values import RandomSource
from generators.relax.choices import Choices
from generators.relax.making import Frame, Known, Making
from generators.relax.operator import ANY, BOOL, Fields, Sizes, Tensor, Type, Want, Within, concrete
from generators.relax.watched import TooLarge, lies_within
from oracles.worker.relax_reference.program import wide

_REUSE, _CONSTANT = 0.75, 0.3
_JOINED = 0.7
"""How often a value that is read again is an operator's result where there is one, so that operators meet."""


def leaf(growth: Making, frame: Frame, target: Type, within: Within) -> Known:
    """A value of the type within the bounds, by one binding at most."""
    if isinstance(target, Fields):
        parts = [leaf(growth, frame, each, within) for each in target.fields]
        return growth.bind(frame, "alias", [{"tuple": [{"ref": each.name} for each in parts]}], target)
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
    count = 0
    for name in frame.symbols:
        if name not in bound:
            break
        count += 1
    return count


def new_input(growth: Making, frame: Frame, target: Tensor, within: Within) -> Known:
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


def filled(growth: Making, frame: Frame, target: Tensor, within: Within) -> Known:
    """A tensor of one number, which may be of symbolic dims."""
    number = growth.constant(drawn(growth.draws, target.dtype, (), within))
    args = [{"shape": list(target.shape)}, {"ref": number.name}]
    return growth.bind(
        frame, "relax.full", args, target, {"attributes": ["InitAttrs", {"dtype": target.dtype}]}
    )


def drawn(draws: RandomSource, dtype: str, shape: tuple[int, ...], within: Within) -> Array:
    """Plain values within the bounds."""
    count = int(np.prod(shape, dtype=np.int64))
    if dtype == BOOL:
        return np.array([draws.chance(0.5) for _ in range(count)], bool).reshape(shape)
    is_float = dtype.startswith("float")
    low, high = -3.0, 3.0
    if not is_float:
        low, high = (0.0, 6.0) if dtype.startswith("u") else (-4.0, 4.0)
    if within.low is not None or within.high is not None:
        low = within.low if within.low is not None else low
        high = min(within.high if within.high is not None else high, max(low + 6.0, high))
        low = max(low, high - 12.0)
    numbers = [low + (high - low) * draws.random() for _ in range(count)]
    values = np.array(numbers, np.float64) if is_float else np.floor(np.array(numbers, np.float64) + 0.5)
    if within.is_nonzero:
        values = np.where(np.abs(values) < 0.5, 1.0, values)
    if is_float:
        values = np.round(values, 3)
    return values.astype(dtype).reshape(shape)


def guarded(growth: Making, frame: Frame, found: Known, target: Tensor, within: Within) -> Known:
    """The value brought into the bounds: an index by a remainder, other numbers by clipping."""
    if within.low is not None or within.high is not None:
        is_index = not target.is_float and within.low == 0 and within.high is not None
        if is_index and growth.draws.chance(0.5):
            count = int(within.high or 0) + 1
            args = [{"ref": found.name}, _scalar(growth, count, target.dtype)]
            found = growth.bind(frame, "relax.floor_mod", args, target)
        else:
            found = _clipped(growth, frame, found, target, within)
    return _not_zero(growth, frame, found, target) if within.is_nonzero else found


def _scalar(growth: Making, value: float, dtype: str) -> dict[str, str]:
    return {"ref": growth.constant(np.array(value).astype(dtype)).name}


def _clipped(growth: Making, frame: Frame, found: Known, target: Tensor, within: Within) -> Known:
    for op, bound in (("relax.maximum", within.low), ("relax.minimum", within.high)):
        if bound is not None:
            args = [{"ref": found.name}, _scalar(growth, bound, target.dtype)]
            found = growth.bind(frame, op, args, target)
    return found


def _not_zero(growth: Making, frame: Frame, found: Known, target: Tensor) -> Known:
    """Replace values near zero by one."""
    size = found
    if target.is_float or not target.dtype.startswith("u"):
        size = growth.bind(frame, "relax.abs", [{"ref": found.name}], target)
    limit = _scalar(growth, 0.25 if target.is_float else 1, target.dtype)
    small = growth.bind(frame, "relax.less", [{"ref": size.name}, limit], target.of(BOOL))
    one = _scalar(growth, 1, target.dtype)
    return growth.bind(frame, "relax.where", [{"ref": small.name}, one, {"ref": found.name}], target)


Form = Callable[..., Any]
"""From a growth, a frame, a target, its bounds and fuel to what was grown; None where it does not fit."""

_TRIES = 4
MOST_ELEMENTS = 3000
"""Of one value, at the sizes of the program."""


class Growth(Making):
    """One program under growth, by the forms that there are."""

    def __init__(
        self, draws: RandomSource, policy: Choices, nodes: int, budget: Budget, forms: Mapping[str, Form]
    ) -> None:
        super().__init__(draws, policy, nodes, budget)
        self._forms = forms
        self.foremost = ""
        """The operator that the next call is to be of, where the type allows that."""

    def grow(self, frame: Frame, target: Type, within: Within = ANY, fuel: int = 0) -> Known:
        """A value of the type within the bounds."""
        if isinstance(target, Tensor):
            count = 1
            for size in concrete(target.shape, frame.all_sizes()):
                count *= max(size, 1)
            if count > MOST_ELEMENTS:
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
                grown = self.bind(frame, "alias", [{"ref": grown.name}], want.type)
            found.append(grown)
        return found
