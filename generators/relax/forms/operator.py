"""A call of an operator whose recogniser takes the type."""

from __future__ import annotations

from generators.relax.frame import Frame, Known
from generators.relax.growing import Growth
from generators.relax.operator import Argument, Given, Group, Literal, Want, Within, target_of
from generators.relax.ops import recognising
from generators.relax.types import Fields, Json, Tensor

NAME = "operator"
_TRIES = 6


def grow(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """Solve for the type, grow the operands, bind the call, and take the field that was solved for."""
    policy = growth.policy
    weighed = [(each, policy.weight(each)) for each in recognising(target)]
    fitting, weights = [each for each, by in weighed if by > 0], [by for _, by in weighed if by > 0]
    for _ in range(_TRIES if fitting else 0):
        operator = growth.draws.weighted(fitting, weights)
        call = operator.solve(growth.asking(frame), target)
        if call is None or not policy.accept(operator, call):
            continue
        wants = list(_wants(call.args))
        operands = iter(growth.grow_all(frame, wants, fuel - 1))
        args = [_spelled(growth, each, operands) for each in call.args]
        told = {"attributes": [call.attributes[0], dict(call.attributes[1])]} if call.attributes else {}
        made = growth.bind(frame, operator.name, args, call.result, told)
        if call.at is None:
            return made
        assert isinstance(call.result, Fields)
        others = [at for at in range(len(call.result.fields)) if at != call.at]
        if others and growth.draws.chance(0.3):
            other = growth.draws.pick(others)
            growth.bind(frame, "getitem", [{"ref": made.name}, other], call.result.fields[other])
        return growth.bind(frame, "getitem", [{"ref": made.name}, call.at], target_of(call))
    return None


def _wants(args: tuple[Argument, ...]) -> list[Want]:
    found: list[Want] = []
    for each in args:
        if isinstance(each, Want):
            found.append(each)
        elif isinstance(each, Group):
            found += _wants(each.members)
    return found


def _spelled(growth: Growth, argument: Argument, operands: object) -> Json:
    if isinstance(argument, Literal):
        return argument.item
    if isinstance(argument, Given):
        return {"ref": growth.constant(argument.array).name}
    if isinstance(argument, Group):
        return {"tuple": [_spelled(growth, each, operands) for each in argument.members]}
    return {"ref": next(operands).name}  # type: ignore[call-overload]
