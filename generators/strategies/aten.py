"""Forward, over operators of torch itself, with those of ONNX between them that torch has a lowering for.

A program goes on from a new input every few nodes: whatever is compiled at once is compiled for little more.

Only torch's own targets run such programs; for those a mixture holds them.
"""

from dataclasses import replace

from generators.growth.fragments import new_scope
from generators.growth.grow import Choose, Program, begin, finish, grow_to, leaning_choice
from generators.language.profile import Budget, Profile, draw_profile
from generators.language.scope import Scope
from generators.language.values import RandomSource
from generators.strategies import each_seed
from oracles.relation.operator import Operator
from oracles.relation.program import DTypeFamily, Operand
from oracles.relation.types import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8

_DTYPES = (F32, F64, F16, BF16, I32, I64, I16, I8, U8, BOOL)
_WEIGHTS = (12.0, 3.0, 2.0, 1.5, 2.0, 2.0, 0.7, 0.7, 1.0, 0.7)
_COMPANIONS = """
    Abs Add And BatchNormalization BitwiseAnd Clip Concat Conv Cos CumSum Div Einsum Equal Erf Exp Expand
    Floor Gather GatherElements Gemm Greater Less Log MatMul Max MaxPool Mean Min Mod Mul Neg Not Pad Pow
    PRelu Reciprocal ReduceL2 ReduceMax ReduceMean ReduceSum Relu Reshape Round ScatterElements Sigmoid
    Sign Sin Slice Softmax Split Sqrt Squeeze Sub Tanh Transpose Unsqueeze Where
"""
COMPANIONS = frozenset(_COMPANIONS.split())
"""Operators of ONNX that programs of torch's own hold as well."""
_TRIES, _BETWEEN, _CHAIN = 12, 0.4, 5


def program(seed: int, nodes: int, budget: Budget) -> Program:
    """The program of a seed, from several inputs one after another."""
    draws = RandomSource(f"aten/{seed}/{nodes}")
    scope = new_scope(draws, _temper(draws, budget))
    choose = _choice(draws)
    begin(scope)
    while (room := nodes - len(scope.nodes)) > 0:
        before = len(scope.nodes)
        grow_to(scope, choose, before + draws.between(1, min(_CHAIN, room)))
        if len(scope.nodes) == before:  # the budget allows no more
            break
        begin(scope)
    return finish(scope)


def _temper(draws: RandomSource, budget: Budget) -> Profile:
    """Draw a temper with the types that torch computes in, bfloat16 among them, and nothing written out."""
    profile = draw_profile(draws, budget)
    first, other = (draws.weighted(_DTYPES, _WEIGHTS) for _ in range(2))
    realms = {DTypeFamily.ATEN, DTypeFamily.NARROW} if BF16 in (first, other) else {DTypeFamily.ATEN}
    return replace(profile, dtypes=(first, first, other), realms=frozenset(realms), composite=0.0)


def _choice(draws: RandomSource) -> Choose:
    leaning = leaning_choice(draws)

    def choose(scope: Scope, focus: Operand) -> Operator | None:
        for _ in range(_TRIES):
            operator = leaning(scope, focus)
            if operator is None or operator.realm is DTypeFamily.ATEN:
                return operator
            if operator.name in COMPANIONS and draws.chance(_BETWEEN):
                return operator
        return None

    return choose


STRATEGIES = {"aten": each_seed(program)}
