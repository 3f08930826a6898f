"""What programs of a policy look like: operators, forms of expressions, types, sizes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from corpus.pattern import GraphPattern
from generators.relax.operator import Asking, Call, Operator, Tensor

Result = Callable[[Asking], Tensor]
Accept = Callable[[Operator, Call], bool]


def any_tensor(asking: Asking) -> Tensor:
    """A result of a few dims, mostly of floats."""
    draws = asking.draws
    dtype = asking.float() if draws.chance(0.75) else draws.pick([asking.integer(), "bool"])
    rank = draws.weighted((0, 1, 2, 3, 4), (1.0, 2.0, 4.0, 3.0, 3.0))
    return Tensor(dtype, asking.shape(rank, rank))


def whatever(operator: Operator, call: Call) -> bool:
    """Every call of every operator."""
    return True


FORMS: Mapping[str, float] = {
    "operator": 14.0,
    "variable": 4.0,
    "branch": 0.8,
    "pair": 0.6,
    "helper": 0.9,
    "closure": 0.6,
    "maker": 0.05,
    "recursion": 0.25,
    "cast": 0.7,
    "loose": 0.5,
    "unknown": 0.4,
    "shape": 0.03,
    "numbers": 0.03,
    "inspected": 0.15,
    "view": 0.1,
    "primfunc": 0.7,
    "loops": 0.4,
    "inplace": 0.5,
    "alias": 0.3,
}
"""How often each form of `generators/relax/forms` is tried."""


@dataclass(frozen=True)
class Choices:
    """The policy by which programs are drawn; each field may be replaced by itself.

    The `name` keeps the seeds of two policies apart. `operators` limits them by name (None allows all),
    `accept` takes or refuses each call that a solver found, `result` draws the type of each output.
    `binned` is the rate of attributes' numbers (sizes of windows, steps, widths) that come from bins between
    powers of two instead of a few usual ones. `symbolic` is how often a program has symbolic dims, and
    `blocks` how often a run of bindings is a
    dataflow block.
    """

    name: str = ""
    operators: frozenset[str] | None = None
    accept: Accept = whatever
    result: Result = any_tensor
    forms: Mapping[str, float] = field(default_factory=lambda: FORMS)
    floats: Mapping[str, float] = field(
        default_factory=lambda: {"float32": 8.0, "float64": 1.0, "float16": 1.0}
    )
    integers: Mapping[str, float] = field(
        default_factory=lambda: {"int64": 4.0, "int32": 4.0, "int8": 1.0, "uint8": 1.0}
    )
    dims: tuple[int, ...] = (1, 2, 3, 4, 5)
    symbols: tuple[str, ...] = ("n", "m")
    symbolic: float = 0.35
    blocks: float = 0.7
    most_rank: int = 4
    binned: float = 0.5
    patterns: Mapping[str, Sequence[GraphPattern]] = field(default_factory=dict)
    """By pass, programs on which it fires; with any, half of what a program grows for is one of these."""

    def weight(self, operator: Operator) -> float:
        """An operator's weight beside the others."""
        is_in = self.operators is None or operator.name in self.operators
        return operator.weight if is_in else 0.0
