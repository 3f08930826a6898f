"""What a whole program leans to: sizes, element types, how often values are shared, what realms let in."""

from __future__ import annotations

from dataclasses import dataclass, replace

from generators.language.budget import UNLIMITED, Budget
from generators.language.random_source import RandomSource
from oracles.relation.program import FIRST_OPSET, LAST_OPSET, DTypeFamily, dtype_family_of
from oracles.relation.types import ALL, NARROW, TEXT, DType


@dataclass(frozen=True, slots=True)
class Profile:
    """The leanings of one program, drawn once so that rare things meet in one program.

    The rates hold for every operand of every operator alike. `dims` are the sizes that its shapes are made
    of. `extreme` is the rate of hazard values, `shared` of inner values that are outputs too, `unfixed` of
    graph inputs where an operand is usually fixed, `composite` of composite operators written out, `inputs`
    of graph inputs among new operands, `reuse` of existing values. `realms` are the rare groups of types that
    are allowed. `named` is the rate of inputs' dims that have a name instead of a size; `binned`
    is the rate of attributes' numbers that come from bins between powers of two. The program keeps to the
    `budget`.
    """

    opset: int
    dims: tuple[int, ...]
    dtypes: tuple[DType, ...]
    extreme: float
    shared: float
    unfixed: float
    composite: float
    inputs: float
    reuse: float
    realms: frozenset[DTypeFamily]
    named: float = 0.0
    binned: float = 0.0
    budget: Budget = UNLIMITED


BINS = ((1, 1), (1, 2), (2, 4), (4, 8), (8, 16), (16, 32), (32, 64), (64, 130))
"""Between two powers of two each: a size of a drawn one, so that ones and large sizes occur (NNSmith)."""


BINNED = 0.5
"""How many numbers of attributes come from bins, in the strategies that draw by bins at all."""


def with_binned_dims(draws: RandomSource, profile: Profile) -> Profile:
    """The temper with sizes of five bins in place of its own, and attributes by bins."""
    drawn = (draws.between(*bin) for bin in draws.sample(BINS, 5))
    dims = tuple(dim for dim in drawn if profile.budget.fits((dim,)))
    return replace(profile, dims=dims or (1,), binned=BINNED)


def draw_profile(draws: RandomSource, budget: Budget = UNLIMITED) -> Profile:
    """Odd sizes, extreme values, shared outputs and unfixed operands each come in a part of the programs."""
    dims = draws.sample((1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17), 4)
    if draws.chance(0.3):
        dims.append(1)
    if draws.chance(0.12):
        dims.append(draws.pick(_LARGE_DIMS))
    if draws.chance(0.08):
        dims.append(0)
    first = draws.weighted(ALL, _DTYPE_WEIGHTS)
    realms = frozenset(realm for realm, rate in _REALM_RATES if draws.chance(rate))
    return Profile(
        opset=LAST_OPSET if draws.chance(0.2) else draws.between(FIRST_OPSET, LAST_OPSET),
        dims=tuple(dim for dim in dims if budget.fits((dim,))) or (1,),
        dtypes=(first, first, first, _other_dtype(draws, realms)),
        extreme=draws.pick((0.0, 0.0, 0.1, 0.5)),
        shared=draws.pick((0.0, 0.0, 0.1, 0.4)),
        unfixed=draws.pick((0.0, 0.0, 0.0, 0.1)),
        composite=draws.pick((0.0, 0.1, 0.3, 0.6)),
        inputs=draws.pick((0.05, 0.3, 0.7)),
        reuse=draws.pick((0.3, 0.6, 0.85)),
        realms=realms,
        named=draws.pick((0.0,) * 9 + (0.6,)),
        budget=budget,
    )


_REALM_RATES = (
    (DTypeFamily.CONTRIB, 0.15),
    (DTypeFamily.CONTROL, 0.1),
    (DTypeFamily.TEXT, 0.03),
    (DTypeFamily.CONTAINER, 0.015),
    (DTypeFamily.NARROW, 0.015),
)


def _other_dtype(draws: RandomSource, realms: frozenset[DTypeFamily]) -> DType:
    """Now and then one that a realm lets in."""
    rare = [dtype for dtype in (TEXT, *NARROW) if dtype_family_of(dtype) in realms]
    return draws.pick(rare) if rare and draws.chance(0.6) else draws.weighted(ALL, _DTYPE_WEIGHTS)


_LARGE_DIMS = (31, 32, 33, 63, 64, 65, 97, 127, 128, 129)
"""Powers of two with their neighbours, and a prime."""

_DTYPE_WEIGHTS = tuple(
    {DType.F32: 12.0, DType.F64: 3.0, DType.F16: 1.0, DType.I32: 2.0, DType.I64: 2.0, DType.U8: 1.0}.get(
        dtype, 0.6
    )
    for dtype in ALL
)
