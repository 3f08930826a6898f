"""Growing a program by type: a form for the target, its parts by their types, while fuel lasts.

The RFC's "Core Approach". An operand that must lie within bounds is guarded where it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from generators.language.profile import Budget
from generators.language.values import RandomSource
from generators.relax.choices import Choices
from generators.relax.frame import Frame, Known
from generators.relax.leaves import leaf
from generators.relax.making import Making
from generators.relax.operator import ANY, BOOL, Tensor, Type, Want, Within, concrete
from generators.relax.watched import TooLarge, lies_within


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
