"""Fresh programs as their makers give them: forward by weights or without, by a solver, and programs of TIR.

`random` grows forward, by weights between classes of operators that each program draws for itself.

`uniform` has no weights: HirFuzz's Algorithm 1 without its guide (§5.5), to compare the others with. Every
operator is as likely as any other, and so is every element type. Its operands are values that are there,
where some fit, and new ones otherwise.

`aten` grows over operators of torch itself, with those of ONNX between them that torch has a lowering for. A
program goes on from a new input every few nodes: whatever is compiled at once is compiled for little more.
Only torch's own targets run such programs; for those a mixture holds them.

`smt` (NNSmith, §3.2) chooses operators with symbolic dims, and one query finds them all. Every choice adds
constraints over the dims of its operands and over its attributes: what the operator's own type rule compares;
binning asks that each free number lies between two powers of two drawn for it, so that ones, primes and large
sizes all occur. It needs the extra `smt` (z3).

`tir` makes programs with sequences of passes, grown and mutated together: only `tvm` runs them.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from corpus.errors import UserError
from generators.feedback import CoverageSnapshot
from generators.growth.grow import Choose, Program, begin, finish, grow, grow_to, leaning_choice
from generators.growth.steps import apply, is_defined, new_scope, operators_for
from generators.language.profile import UNLIMITED, Budget, Profile, draw_profile
from generators.language.scope import Scope
from generators.language.values import RandomSource
from generators.solved import solved_program
from generators.strategies import each_seed
from generators.tir.breeding import breed
from generators.tir.programs import TirProgram, make_program
from oracles.extras import how_to_install, provide
from oracles.operators import all_operators
from oracles.relation.operator import Operator
from oracles.relation.program import ONNX_REALMS, DoesNotFit, DTypeFamily, Operand
from oracles.relation.types import ALL, BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, DType


def solved(seeds: Sequence[int], nodes: int, source: Path | None, budget: Budget) -> Iterator[Program]:
    """Yield a program a seed; raises `UserError` where the solver is not installed."""
    provide("z3-solver")
    if find_spec("z3") is None:
        raise UserError(f"--strategy smt: z3 is not installed; {how_to_install('z3-solver')}")
    z3 = import_module("z3")
    for seed in seeds:
        yield solved_program(seed, nodes, budget, z3)


def loops(
    seeds: Sequence[int], nodes: int, source: Path | None, budget: Budget = UNLIMITED
) -> Iterator[TirProgram]:
    """Yield a program a seed; they start from the `.tir.json` files below `source`, if it is given."""
    _refuse_bounds(budget)
    for seed in seeds:
        yield make_program(seed, nodes, source)


def bred_loops(
    seeds: Sequence[int], nodes: int, lesson: CoverageSnapshot, budget: Budget
) -> Iterator[TirProgram]:
    """Yield a program a seed, bred from what the campaign has found worth keeping."""
    _refuse_bounds(budget)
    for seed in seeds:
        yield breed(seed, nodes, lesson.pool)


def _refuse_bounds(budget: Budget) -> None:
    if budget.is_limited:
        raise UserError("--strategy tir: --max-flops and its kin bound no TIR programs; leave them out")


_TRIES = 8
"""New values that are offered to an operator: some take few shapes."""
_IDLE, _IDLE_IN_BUDGET = 20_000, 300
"""Steps without a node before a program is left as it is; within a budget there may be no room for more."""


@cache
def known_operators() -> tuple[Operator, ...]:
    """All that take an operand."""
    return tuple(operator for operator in all_operators() if not operator.is_source)


def uniform(seed: int, nodes: int, budget: Budget = UNLIMITED) -> Program:
    """One program of all operators.

    An operator that finds no value that fits gets a new one, as in the paper's PREINSERT. The first value is
    what the first operator needs, so that a program of one node is as likely to hold any operator.
    """
    draws = RandomSource(f"uniform/{seed}/{nodes}")
    profile = replace(draw_profile(draws, budget), dtypes=ALL, composite=0.0, realms=ONNX_REALMS)
    scope = new_scope(draws, profile)
    idle, most = 0, _IDLE_IN_BUDGET if scope.is_limited else _IDLE
    while len(scope.nodes) < nodes and idle < most:
        before, mark = len(scope.nodes), scope.mark()
        if not _step(scope, draws.pick(known_operators())):
            scope.restore(mark)
        idle = idle + 1 if len(scope.nodes) == before else 0
    if not scope.pool:
        begin(scope)
    return finish(scope)


def _step(scope: Scope, operator: Operator) -> bool:
    """The operator with one of its element types, on any value that they fit."""
    dtypes = operator.types_in(scope)
    if not dtypes:
        return False
    dtype = scope.draws.pick(dtypes)
    found = [value for value in scope.pool if _fits(scope, operator, dtype, value)]
    if found and apply(scope, operator, scope.draws.pick(found)):
        return True
    return not found and any(_apply_to_new(scope, operator, dtype) for _ in range(_TRIES))


def _fits(scope: Scope, operator: Operator, dtype: DType, value: Operand) -> bool:
    if value.dtype is not dtype or not operator.takes(dtype, value.rank, scope.opset):
        return False
    return is_defined(operator, value)


def _apply_to_new(scope: Scope, operator: Operator, dtype: DType) -> bool:
    """The operator on a new value of a rank that it takes; whatever it declines is taken back."""
    mark, rank = scope.mark(), scope.draws.pick(operator.ranks)
    if not operator.takes(dtype, rank, scope.opset):
        return False
    with suppress(DoesNotFit):
        if apply(scope, operator, scope.create(dtype, scope.shape(rank), operator.domain)):
            return True
    scope.restore(mark)
    return False


_ATEN_DTYPES = (F32, F64, F16, BF16, I32, I64, I16, I8, U8, BOOL)
_ATEN_WEIGHTS = (8.0, 2.0, 2.0, 2.0, 2.0, 2.0, 1.0, 2.0, 2.0, 1.5)
_ATEN_COMPANIONS = """
    Abs Add And BatchNormalization BitwiseAnd Clip Concat Conv Cos CumSum Div Einsum Equal Erf Exp Expand
    Floor Gather GatherElements Gemm Greater Less Log MatMul Max MaxPool Mean Min Mod Mul Neg Not Pad Pow
    PRelu Reciprocal ReduceL2 ReduceMax ReduceMean ReduceSum Relu Reshape Round ScatterElements Sigmoid
    Sign Sin Slice Softmax Split Sqrt Squeeze Sub Tanh Transpose Unsqueeze Where
"""
COMPANIONS = frozenset(_ATEN_COMPANIONS.split())
"""Operators of ONNX that programs of torch's own hold as well."""
_ATEN_EDGES, _ATEN_AT_EDGES = (15, 16, 17, 31, 32, 33, 63, 64, 65), 0.6
"""Widths of vectors of each element type, with their neighbours."""
_ATEN_LENGTHS, _ATEN_LONG, _ATEN_ELEMENTS = (1025, 4096, 4097, 5000), 0.08, 10_000
"""Sums over more elements than one loop adds up, which inductor splits."""
_ATEN_NAMED = (0.0, 0.0, 0.0, 0.0, 0.6)
"""How many of the inputs' dims are compiled as symbols."""
_ONLY_ATEN, _ATEN_EVENLY = frozenset({DTypeFamily.ATEN}), 0.5
"""How often each operator of torch's own is as likely as any other: classes of many leave each few places."""
_ATEN_TRIES, _ATEN_BETWEEN, _ATEN_CHAIN = 12, 0.4, 5


def aten_program(seed: int, nodes: int, budget: Budget) -> Program:
    """The program of a seed, from several inputs one after another."""
    draws = RandomSource(f"aten/{seed}/{nodes}")
    scope = new_scope(draws, _aten_temper(draws, budget))
    choose = _aten_choice(draws)
    begin(scope)
    while (room := nodes - len(scope.nodes)) > 0:
        before = len(scope.nodes)
        grow_to(scope, choose, before + draws.between(1, min(_ATEN_CHAIN, room)))
        if len(scope.nodes) == before:  # the budget allows no more
            break
        begin(scope)
    return finish(scope)


def _aten_temper(draws: RandomSource, budget: Budget) -> Profile:
    """Draw a temper with the types that torch computes in, bfloat16 among them, and nothing written out."""
    profile = draw_profile(draws, budget)
    first, other = (draws.weighted(_ATEN_DTYPES, _ATEN_WEIGHTS) for _ in range(2))
    realms = {DTypeFamily.ATEN, DTypeFamily.NARROW} if BF16 in (first, other) else {DTypeFamily.ATEN}
    named = draws.pick(_ATEN_NAMED)
    own = replace(profile, dtypes=(first, first, other), realms=frozenset(realms), composite=0.0, named=named)
    edges = draws.sample(_ATEN_EDGES, draws.between(1, 2)) if draws.chance(_ATEN_AT_EDGES) else []
    dims = [*own.dims, *edges]
    if draws.chance(_ATEN_LONG):
        dims.append(draws.pick(_ATEN_LENGTHS))
        own = replace(own, elements=_ATEN_ELEMENTS)
    return replace(own, dims=tuple(dim for dim in dims if budget.fits((dim,))) or (1,))


def _aten_choice(draws: RandomSource) -> Choose:
    leaning = leaning_choice(draws)

    def choose(scope: Scope, focus: Operand) -> Operator | None:
        if draws.chance(_ATEN_EVENLY):
            known = operators_for(focus.dtype, focus.rank, scope.opset, _ONLY_ATEN).values()
            own = [operator for kind in known for operator in kind if operator.realm is DTypeFamily.ATEN]
            return draws.pick(own) if own else None
        for _ in range(_ATEN_TRIES):
            operator = leaning(scope, focus)
            if operator is None or operator.realm is DTypeFamily.ATEN:
                return operator
            if operator.name in COMPANIONS and draws.chance(_ATEN_BETWEEN):
                return operator
        return None

    return choose


STRATEGIES = {
    "random": each_seed(lambda seed, nodes, budget: grow(seed, nodes, budget=budget)),
    "smt": solved,
    "tir": loops,
    "uniform": each_seed(uniform),
    "aten": each_seed(aten_program),
}


TAUGHT = {"tir": bred_loops}
