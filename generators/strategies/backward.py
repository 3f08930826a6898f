"""From a wanted result back to inputs, by the operators' recognisers and solvers (the Relay fuzzing RFC).

Fuel bounds the nodes: every operand that a solver asks for is grown back in its turn while there is some,
and reused or created afterwards. What is then missing of the size asked for grows forward from values that
are there, and back before inputs of the graph, in turns.
"""

from dataclasses import replace

from generators.growth.grow import Program, begin, finish, grow_to, leaning_choice
from generators.growth.steps import Bodies, place_wanted, recognising
from generators.language.profile import BINNED, UNLIMITED, Budget, Profile, depths_of, draw_profile
from generators.language.scope import Scope
from generators.language.values import RandomSource
from generators.strategies import each_seed
from oracles.relation.program import MAX_ELEMENTS, Operand, volume
from oracles.relation.types import ANYTHING, TENSORS, DType, Range, Shape, TensorType

_TRIES = 4
_BACK_RATE = 0.5
"""How often growth goes on before an input instead of after a value, after the first tree."""
_ATOM_RATE = 0.15
"""How often an operand is no operator's result although there is fuel."""


class BackwardScope(Scope):
    """A scope that grows the operands that are asked of it; `fuel` is how many nodes it may still add."""

    def __init__(self, draws: RandomSource, profile: Profile, fuel: int) -> None:
        super().__init__(draws, profile, Bodies())
        self.fuel = fuel

    def supply(self, dtype: DType, shape: Shape, within: Range | None = None) -> Operand:
        """An operand of that type, grown while there is fuel."""
        if self.fuel > 0 and volume(shape) <= MAX_ELEMENTS and not self.draws.chance(_ATOM_RATE):
            grown = self.grow_back(TensorType(dtype, shape), within or ANYTHING)
            if grown is not None:
                return grown
        return super().supply(dtype, shape, within)

    def grow_back(self, wanted: TensorType, within: Range) -> Operand | None:
        """A new operator's result of this type and inside this range; None when no try gives one."""
        mark, fuel = self.mark(), self.fuel
        for _ in range(_TRIES):
            operator = recognising(self.draws, wanted, self.opset, self.profile.realms)
            if operator is None:
                return None
            self.fuel = fuel - 1
            result = place_wanted(self, operator, wanted)
            if result is not None and result.range.is_within(within):
                return result
            self.restore(mark)
            self.fuel = fuel
        return None


def backward(seed: int, nodes: int, budget: Budget = UNLIMITED) -> Program:
    """The program of a seed, grown from a wanted result."""
    draws = RandomSource(f"backward/{seed}/{nodes}")
    profile = replace(draw_profile(draws, budget), binned=BINNED)
    scope = BackwardScope(draws, profile, max(1, nodes // 2))
    shape = scope.shape(draws.between(0, 4))
    wanted = TensorType(draws.pick(scope.profile.dtypes), shape)
    if scope.grow_back(wanted, ANYTHING) is None:
        begin(scope)
    choose = leaning_choice(draws)
    while len(scope.nodes) < nodes:
        before = len(scope.nodes)
        scope.fuel = min(draws.between(1, 3), nodes - before)
        if draws.chance(_BACK_RATE):
            grow_before(scope)
        scope.fuel = 0
        grow_to(scope, choose, min(nodes, len(scope.nodes) + draws.between(1, 3)))
        if len(scope.nodes) == before:  # the budget has no room for more
            break
    return finish(scope)


def grow_before(scope: BackwardScope) -> bool:
    """Let an operator's result stand where an input of the graph stood (NNSmith's backward insertion).

    What is grown reads inputs and constants alone, and goes before everything else.
    """
    captured = {name for node in scope.nodes for body in node.bodies for name in body.captures}
    open_inputs = [
        (at, operand)
        for at, (operand, value) in enumerate(scope.inputs)
        if operand.content is None and operand.name not in captured and operand.dtype in TENSORS
    ]
    if not open_inputs:
        return False
    at, old = scope.draws.pick(open_inputs)
    pool, count, mark = scope.pool, len(scope.nodes), scope.mark()
    leaves = {operand.name for operand, _ in scope.inputs} - {old.name}
    scope.pool = [value for value in pool if value.name in leaves or value.is_constant]
    grown = scope.grow_back(old.type, old.range)
    made = [value for value in scope.pool if value not in pool]
    scope.pool = pool
    later = [node.reading(old.name, grown.name) for node in scope.nodes[:count]] if grown else []
    nodes = [*scope.nodes[count:], *later]
    if grown is None or not scope.profile.budget.reaches(max(depths_of(nodes, {}).values(), default=0)):
        scope.restore(mark)
        return False
    scope.pool[:] = [*made, *(value for value in pool if value.name != old.name)]
    scope.nodes[:] = nodes
    del scope.inputs[at]
    return True


STRATEGIES = {"backward": each_seed(backward)}
