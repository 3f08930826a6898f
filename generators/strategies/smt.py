"""Shapes from a solver (NNSmith, §3.2): operators are chosen with symbolic dims, one query finds them all.

Every choice adds constraints over the dims of its operands; binning asks that each free dim lies between
two powers of two drawn for it, so that ones, primes and large sizes all occur. A query also serves several
wanted results at once: the parts of a Split go to other operators as they are, of whatever sizes these need.
Needs the extra `smt` (z3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from corpus.errors import UserError
from generators.growth.bodies import new_scope
from generators.growth.grow import Program, begin, finish, grow_to, leaning_choice
from generators.growth.placing import place
from generators.language.budget import UNLIMITED, Budget
from generators.language.draws import Draws
from generators.language.program import MAX_RANK, Call, Operand
from generators.language.scope import MAX_ELEMENTS, DoesNotFit, Scope
from generators.language.temper import draw_temper
from generators.language.types import F32, F64, DType, Range
from generators.ops import find_operator
from oracles.extras import how_to_install

_BINS = ((1, 1), (1, 2), (2, 4), (4, 8), (8, 16), (16, 32), (32, 64), (64, 130))
_VALUES = Range(-2, 2)
_NODES_AT_ONCE = 12
"""Operators in one query; the rest of a larger program grows forward."""
_LIMIT = 200_000
"""The solver's own measure of work, which is the same on any machine; no clock."""

Term = Any
"""An integer term of the solver."""


class Symbol(NamedTuple):
    """A value of which the dims are terms; `node` made it, as its `result`, or it is an input."""

    dims: tuple[Term, ...]
    node: int = -1
    result: int = 0


class Planned(NamedTuple):
    """One operator with its operands; `attributes` may hold terms."""

    name: str
    operands: tuple[Symbol, ...]
    attributes: dict[str, Any]
    results: tuple[tuple[Term, ...], ...]


class Plan:
    """Operators over symbolic shapes, and what their dims must satisfy."""

    def __init__(self, draws: Draws, z3: Any) -> None:
        self.draws = draws
        self.z3 = z3
        # What a solver answers depends on what its context has seen; a fresh one has seen nothing.
        self.context = z3.Context()
        self.constraints: list[Term] = []
        self.free: list[Term] = []
        self.inputs: list[Symbol] = []
        self.nodes: list[Planned] = []
        self.values: list[Symbol] = []

    def dim(self) -> Term:
        """A new unknown size."""
        made = self.z3.Int(f"d{len(self.free)}", self.context)
        self.free.append(made)
        self.constraints.append(made >= 1)
        return made

    def input(self, rank: int) -> Symbol:
        """A new input of that rank, of unknown sizes."""
        made = Symbol(tuple(self.dim() for _ in range(rank)), result=len(self.inputs))
        self.inputs.append(made)
        self.values.append(made)
        return made

    def focus(self, least: int, most: int = MAX_RANK) -> Symbol:
        """A value that is there, mostly the latest; raises `DoesNotFit` where none has such a rank."""
        found = [value for value in self.values if least <= len(value.dims) <= most]
        if not found:
            raise DoesNotFit("rank")
        return found[-1] if self.draws.chance(0.5) else self.draws.pick(found)

    def other(self, rank: int) -> Symbol:
        """Another value of this rank: one that is there or a new input."""
        found = [value for value in self.values if len(value.dims) == rank]
        return self.draws.pick(found) if found and self.draws.chance(0.7) else self.input(rank)

    def add(
        self,
        name: str,
        operands: Sequence[Symbol],
        *results: tuple[Term, ...],
        **attributes: Any,
    ) -> None:
        """Plan a node."""
        self.nodes.append(Planned(name, tuple(operands), attributes, results))
        at = len(self.nodes) - 1
        self.values += [Symbol(dims, at, index) for index, dims in enumerate(results)]
        for dims in results:
            self.fits(dims)

    def fits(self, dims: Sequence[Term]) -> None:
        """Ask for no more elements than programs may hold."""
        if dims:
            self.constraints.append(self.z3.Product(*dims) <= MAX_ELEMENTS)

    def equal(self, left: Sequence[Term], right: Sequence[Term]) -> None:
        """Ask for equal sizes, dim by dim."""
        self.constraints += [a == b for a, b in zip(left, right, strict=True)]

    def solve(self) -> Callable[[Term], int] | None:
        """Sizes for the dims, with as many of the drawn bins as hold together; None where nothing does."""
        solver = self.z3.SolverFor("QF_NIA", self.context)
        solver.set("random_seed", 0)
        solver.set("rlimit", _LIMIT)
        for operand in self.inputs:
            self.fits(operand.dims)
        solver.add(*self.constraints)
        solver.push()
        wanted = [self._bin(dim) for dim in self.free]
        while wanted:
            solver.add(*(term for pair in wanted for term in pair))
            if solver.check() == self.z3.sat:
                break
            solver.pop()
            solver.push()
            wanted = wanted[: len(wanted) // 2]
        if not wanted and solver.check() != self.z3.sat:
            return None
        model = solver.model()
        return lambda term: (
            term if isinstance(term, int) else model.eval(term, model_completion=True).as_long()
        )

    def _bin(self, dim: Term) -> tuple[Term, Term]:
        low, high = self.draws.pick(_BINS)
        return dim >= low, dim <= high


def _binary(plan: Plan) -> None:
    """Two values of one rank; each pair of dims is equal, or one of them is one."""
    left = plan.focus(1)
    right = plan.other(len(left.dims))
    dims = []
    for a, b in zip(left.dims, right.dims, strict=True):
        form = plan.draws.random()
        plan.constraints.append(a == b if form < 0.6 else b == 1 if form < 0.8 else a == 1)
        dims.append(b if form >= 0.8 else a)
    plan.add(plan.draws.pick(("Add", "Mul", "Sub", "Max", "Min")), (left, right), tuple(dims))


def _unary(plan: Plan) -> None:
    value = plan.focus(0)
    plan.add(plan.draws.pick(("Relu", "Tanh", "Neg", "Abs", "Sigmoid", "Identity")), (value,), value.dims)


def _product(plan: Plan) -> None:
    left = plan.focus(2)
    right = plan.other(2)
    plan.constraints.append(left.dims[-1] == right.dims[0])
    plan.add("MatMul", (left, right), (*left.dims[:-1], right.dims[1]))


def _joined(plan: Plan) -> None:
    first = plan.focus(1)
    rest = [plan.other(len(first.dims)) for _ in range(plan.draws.between(1, 2))]
    axis = plan.draws.below(len(first.dims))
    for other in rest:
        plan.equal(_without(first.dims, axis), _without(other.dims, axis))
    total = sum((value.dims[axis] for value in rest), first.dims[axis])
    dims = (*first.dims[:axis], total, *first.dims[axis + 1 :])
    plan.add("Concat", (first, *rest), dims, axis=axis)


def _parted(plan: Plan) -> None:
    """Parts of whatever sizes their users need."""
    value = plan.focus(1)
    axis = plan.draws.below(len(value.dims))
    sizes = [plan.dim() for _ in range(2)]
    plan.constraints.append(sizes[0] + sizes[1] == value.dims[axis])
    parts = [(*value.dims[:axis], size, *value.dims[axis + 1 :]) for size in sizes]
    plan.add("Split", (value,), *parts, axis=axis, sizes=sizes)


def _moved(plan: Plan) -> None:
    value = plan.focus(2)
    perm = tuple(plan.draws.sample(range(len(value.dims)), len(value.dims)))
    plan.add("Transpose", (value,), tuple(value.dims[axis] for axis in perm), perm=perm)


def _reshaped(plan: Plan) -> None:
    """Reshape to other dims with the same product."""
    value = plan.focus(1)
    dims = tuple(plan.dim() for _ in range(plan.draws.between(1, 4)))
    plan.constraints.append(plan.z3.Product(*dims) == plan.z3.Product(*value.dims))
    plan.add("Reshape", (value,), dims, sizes=list(dims))


def _convolved(plan: Plan) -> None:
    """Windows of any size that the image allows."""
    image, weight = plan.focus(4, 4), plan.input(4)
    plan.constraints.append(image.dims[1] == weight.dims[1])
    size = [high - low + 1 for high, low in zip(image.dims[2:], weight.dims[2:], strict=True)]
    plan.constraints += [one >= 1 for one in size]
    plan.add("Conv", (image, weight), (image.dims[0], weight.dims[0], *size))


def _without(dims: Sequence[Term], axis: int) -> list[Term]:
    return [dim for at, dim in enumerate(dims) if at != axis]


_CHOICES = (_binary, _binary, _unary, _product, _joined, _parted, _moved, _reshaped, _convolved)


def programs(
    seeds: Sequence[int], nodes: int, source: Path | None, budget: Budget = UNLIMITED
) -> Iterator[Program]:
    """A program a seed; raises `UserError` where the solver is not installed."""
    if find_spec("z3") is None:
        raise UserError(f"--strategy smt: z3 is not installed; {how_to_install('z3-solver')}")
    z3 = import_module("z3")
    for seed in seeds:
        yield _program(seed, nodes, budget, z3)


def _program(seed: int, nodes: int, budget: Budget, z3: Any) -> Program:
    """The planned part with the sizes that were found, and forward growth for the rest."""
    draws = Draws(f"smt/{seed}/{nodes}")
    temper = draw_temper(draws, budget)
    dtype = draws.pick((F32, F32, F32, F64))
    scope = new_scope(draws, replace(temper, dtypes=(dtype,), extreme=0.0))
    plan = Plan(draws, z3)
    plan.input(draws.between(1, 4))
    while len(plan.nodes) < min(nodes, _NODES_AT_ONCE):
        with suppress(DoesNotFit):
            draws.pick(_CHOICES)(plan)
    size = plan.solve()
    if size is not None:
        _realise(scope, plan, size, dtype)
    if not scope.nodes:
        begin(scope)
    grow_to(scope, leaning_choice(draws), nodes)
    return finish(scope)


def _realise(scope: Scope, plan: Plan, size: Callable[[Term], int], dtype: DType) -> None:
    """The planned operators on values of those sizes; what leaves its range is left out with its users."""
    made: dict[tuple[int, int], Operand] = {}

    def operand(symbol: Symbol) -> Operand:
        key = symbol.node, symbol.result
        if key not in made:
            if symbol.node >= 0:
                raise DoesNotFit("left out")
            shape = tuple(size(dim) for dim in symbol.dims)
            made[key] = scope.create(dtype, shape, _VALUES, as_input=scope.draws.chance(0.5) or not made)
        return made[key]

    for at, planned in enumerate(plan.nodes):
        mark, before = scope.mark(), dict(made)
        try:
            call = _call(scope, planned, [operand(symbol) for symbol in planned.operands], size)
            placed = place(scope, find_operator(planned.name), call)
        except DoesNotFit:
            placed = None
        if placed is None:
            scope.restore(mark)
            made = before
            continue
        made.update(((at, index), result) for index, result in enumerate(placed))


def _call(scope: Scope, planned: Planned, operands: list[Operand], size: Callable[[Term], int]) -> Call:
    """Sizes that the solver found go in as a constant operand."""
    attributes = dict(planned.attributes)
    steering = attributes.pop("sizes", None)
    fixed = [] if steering is None else [scope.fix_ints(size(term) for term in steering)]
    return Call((*operands, *fixed), attributes, len(planned.results))
