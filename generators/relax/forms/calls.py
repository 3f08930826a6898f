"""Forms that call operators and PrimFuncs, name, cast or take apart values, or ask a tensor for its facts."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from corpus.graphs.program import PrimFunc
from corpus.tir.program import OF_BLOCKS, make_inputs
from corpus.tir.scopes import is_well_formed
from corpus.tir.tree import Block, Function, Module, Stmt
from corpus.tir.values import Buffer, Const, type_of
from corpus.tir.walk import expressions
from generators.language.values import RandomSource
from generators.relax.choices import any_tensor
from generators.relax.forms.facts import astype
from generators.relax.leaves import Form, Growth, fitting
from generators.relax.making import Frame, Known, attributes
from generators.relax.operator import (
    ANY,
    Argument,
    Dim,
    Fields,
    Given,
    Group,
    Json,
    Literal,
    Tensor,
    Type,
    Want,
    Within,
    target_of,
    type_to_json,
)
from generators.relax.ops import recognising
from generators.relax.watched import Unsound
from generators.tir.blocks import Stages
from generators.tir.frame import Names
from oracles.tir.interpreter import interpret

_TRIES = 6


def grow_operator(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """Solve for the type, grow the operands, bind the call, and take the field that was solved for."""
    policy = growth.policy
    weighed = [(each, policy.weight(each)) for each in recognising(target)]
    fitting, weights = [each for each, by in weighed if by > 0], [by for _, by in weighed if by > 0]
    for _ in range(_TRIES if fitting else 0):
        named = [each for each in fitting if each.name == growth.foremost]
        operator = named[0] if named else growth.draws.weighted(fitting, weights)
        call = operator.solve(growth.asking(frame), target)
        if call is None or not policy.accept(operator, call):
            continue
        growth.foremost = ""
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
            growth.bind(frame, "getitem", [made.ref, other], call.result.fields[other])
        return growth.bind(frame, "getitem", [made.ref, call.at], target_of(call))
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
        return growth.constant(argument.array).ref
    if isinstance(argument, Group):
        return {"tuple": [_spelled(growth, each, operands) for each in argument.members]}
    return {"ref": next(operands).name}  # type: ignore[call-overload]


PRIMFUNC_DTYPES = ("float32", "float64", "int32", "int64")


def grow_primfunc(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """Operands of the target's dtype, read at places that the result's own give, and a formula of them."""
    if not target.is_static or target.dtype not in PRIMFUNC_DTYPES:
        return None
    draws = growth.draws
    reads = [read_of(growth, target, place) for place in range(draws.between(1, 3))]
    value: Json = reads[0][1]
    for _, read in reads[1:]:
        value = [draws.pick(["+", "-", "*", "max", "min"]), value, read]
    if draws.chance(0.4):
        number = float(draws.between(1, 3)) if target.is_float else draws.between(1, 3)
        value = [draws.pick(["+", "*", "max"]), value, number]
    types = [target.shaped(*shape) for shape, _ in reads]
    return _call_tir(growth, frame, _formula(types, target, value), types, target, fuel)


def _formula(types: list[Tensor], target: Tensor, value: Json, **facts: Json) -> Json:
    """A PrimFunc that computes each element of the target."""
    operands = [[each.dtype, list(each.shape)] for each in types]
    told = {"operands": operands, "shape": list(target.shape), "dtype": target.dtype, "value": value}
    return {"compute": {**told, **facts}}


def _call_tir(
    growth: Growth, frame: Frame, function: Json, types: list[Tensor], target: Tensor, fuel: int
) -> Known:
    """A call of a new PrimFunc, with operands of these types."""
    name = growth.fresh("prim")
    growth.opaque[name] = function
    operands = growth.grow_all(frame, list(map(Want, types)), fuel - 1)
    args = [{"function": name}, {"tuple": [each.ref for each in operands]}]
    return growth.bind(frame, "relax.call_tir", args, target, {"types": [type_to_json(target)]})


def read_of(growth: Growth, target: Tensor, operand: int) -> tuple[tuple[Dim, ...], Json]:
    """An operand's shape and the element that is read: axes in another order, shifted or left out."""
    draws = growth.draws
    axes = draws.sample(range(target.rank), target.rank)
    axes = axes if draws.chance(0.3) else sorted(axes)
    kept = [axis for axis in axes if not draws.chance(0.2)]
    shape, index = [], []
    for axis in kept:
        size, place = int(target.shape[axis]), ["index", axis]
        way = draws.below(5)
        if way == 0:
            shift = draws.between(1, 2)
            shape.append(size + shift)
            index.append(["+", place, shift])
        elif way == 1 and size > 1:
            shape.append(size)
            index.append(["-", size - 1, place])
        else:
            shape.append(size)
            index.append(place)
    return tuple(shape), ["at", operand, *index]


def grow_inplace(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """The operand is a sum of its own: no two are the same, so that no pass takes two for one."""
    if not target.is_static or not target.rank or target.dtype not in PRIMFUNC_DTYPES:
        return None
    draws = growth.draws
    own: Json = ["at", 0, *(["index", axis] for axis in range(target.rank))]
    shape, other = read_of(growth, target, 1)
    types = [target, target.shaped(*shape)]
    name = growth.fresh("prim")
    value = [draws.pick(["+", "-", "*", "max", "min"]), own, other]
    growth.opaque[name] = _formula(types, target, value, inplace=True)
    source, read = growth.grow_all(frame, list(map(Want, types)), fuel - 1)
    number = draws.between(1, 2**20) / 2**20 if target.is_float else draws.between(1, 90)
    step = growth.constant(np.array(number, target.dtype))
    written = growth.bind(frame, "relax.add", [source.ref, step.ref], target)
    frame.known.remove(written)
    args = [{"function": name}, {"tuple": [written.ref, read.ref]}]
    told = {"types": [type_to_json(target)], **attributes("CallTIRInplaceAttrs", inplace_indices=[0])}
    return growth.bind_on(written, frame, "relax.call_tir_inplace", args, target, **told)


_MOST_ELEMENTS = 24
_MOST_STAGES = 3
_MOST_STEPS = 800
_LOOPS_TRIES = 4
_COARSE = frozenset({"float16", "bfloat16"})
"""Types that TVM may compute in a wider one: what a result may differ by is more than rounding of float32."""


def grow_loops(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """Make a PrimFunc of the target's type, then operands for it."""
    if not target.is_static or target.dtype not in PRIMFUNC_DTYPES:
        return None
    if not 0 < prod(int(dim) for dim in target.shape) <= _MOST_ELEMENTS:
        return None
    types = [Tensor(target.dtype, _dims(growth)) for _ in range(growth.draws.between(1, 2))]
    drawn = (primfunc(growth.draws, types, target) for _ in range(_LOOPS_TRIES))
    function = next(filter(is_sound, drawn), None)
    if function is None:
        return None
    return _call_tir(growth, frame, PrimFunc(function).told, types, target, fuel)


def primfunc(draws: RandomSource, operands: Sequence[Tensor], target: Tensor) -> Function:
    """A chain of blocks, as the strategy `tir` grows it, from operands of the target's dtype to a result."""
    stages = Stages(draws, Names(), target.dtype, extreme=False)
    given = [_buffer(stages.names.fresh("A"), each) for each in operands]
    known, body = list(given), list[Stmt]()
    for _ in range(draws.below(_MOST_STAGES)):
        buffer, stmt = stages.stage(known)
        known.append(buffer)
        body.append(stmt)
    result = _buffer(stages.names.fresh("R"), target)
    body.append(stages.filled(result, known))
    root = Block("root", (), (), (), tuple(body), allocs=tuple(known[len(given) :]))
    params = tuple(map(_as_relax_has_it, (*given, result)))
    return Function(params, (root,), attrs={"tirx.noalias": True, OF_BLOCKS: True})


def _buffer(name: str, told: Tensor) -> Buffer:
    return Buffer(name, tuple(Const(int(dim)) for dim in told.shape), told.dtype)


def _as_relax_has_it(buffer: Buffer) -> Buffer:
    """A parameter with dims and offset of int64, as in the functions of operators: FuseTIR compares both."""
    dims = tuple(Const(int(dim.value), "int64") for dim in buffer.shape if isinstance(dim, Const))
    return replace(buffer, shape=dims, offset=Const(0, "int64"))


def is_sound(function: Function) -> bool:
    """Whether a PrimFunc is well-formed and its result is defined for small operands."""
    module = Module({"main": function})
    is_plain = _COARSE.isdisjoint(map(type_of, expressions(function.body)))
    if not is_plain or not is_well_formed(module):
        return False
    inputs, fresh = make_inputs(module, 0), [function.params[-1].name]
    return interpret(module, inputs, trials=0, steps=_MOST_STEPS, fresh=fresh).is_defined


def _dims(growth: Growth) -> tuple[int, ...]:
    asking = growth.asking(Frame())
    return tuple(max(1, asking.static()) for _ in range(growth.draws.between(1, 2)))


def grow_alias(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """Bind a second name to a value of the target type."""
    found = growth.grow(frame, target, within, fuel - 1)
    return growth.bind(frame, "alias", [found.ref], target)


def grow_cast(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """Bind a match_cast of a value of the target type."""
    found = growth.grow(frame, target, within, fuel - 1)
    return growth.bind(frame, "match_cast", [found.ref, type_to_json(target)], target)


def grow_loose(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """The dims, the rank, the dtype too, or all of it is left open for a while."""
    found = growth.grow(frame, target, within, fuel - 1)
    forms: list[Json] = [
        {"tensor": [target.dtype, None, target.rank]},
        {"tensor": [target.dtype, None, -1]},
        {"tensor": [None, None, -1]},
        {"any": True},
    ]
    name = growth.fresh()
    growth.place(name, "alias", [found.ref])
    frame.bindings.append([name, "alias", [found.ref], {"type": growth.draws.pick(forms)}])
    told = type_to_json(target)
    loose = Known(name, target, found.value)
    return growth.bind_on(loose, frame, "match_cast", [{"ref": name}, told], target)


def grow_pair(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """The target among other fields."""
    others = [any_tensor(growth.asking(frame)) for _ in range(growth.draws.between(0, 2))]
    at = growth.draws.below(len(others) + 1)
    types: list[Type] = [*others[:at], target, *others[at:]]
    parts = [growth.grow(frame, each, ANY, max(0, fuel - 1) // len(types)) for each in types]
    refs = [each.ref for each in parts]
    told: Type = Fields(tuple(types))
    if growth.draws.chance(0.25):
        inner = growth.bind(frame, "alias", [{"tuple": refs}], told)
        outer = Fields((told, target))
        whole = growth.bind(frame, "alias", [{"tuple": [inner.ref, refs[at]]}], outer)
        inner = growth.bind(frame, "getitem", [whole.ref, 0], told)
        return growth.bind(frame, "getitem", [inner.ref, at], target)
    whole = growth.bind(frame, "alias", [{"tuple": refs}], told)
    return growth.bind(frame, "getitem", [whole.ref, at], target)


def grow_variable(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """One that keeps the bounds, else one that is guarded."""
    found = fitting(frame, target, within) or fitting(frame, target, ANY)
    return growth.draws.pick(found) if found else None


def grow_unknown(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """Spread the elements of a row of unknown length over the target's shape and reduce them to it."""
    if target.rank > 3 or target.dtype in ("bool", "float16", "uint8", "int8"):
        return None
    row = growth.draws.pick((_nonzero, _nonzero, _unique, _sliced))(growth, frame, fuel)
    return reduced(growth, frame, row, target)


def _nonzero(growth: Growth, frame: Frame, fuel: int) -> Known:
    """The first row of the places of what is not zero."""
    rank = growth.draws.between(1, 2)
    source = growth.grow(frame, Tensor("float32", growth.asking(frame).shape(rank, rank)), ANY, fuel // 2)
    found = _cast(growth, frame, "relax.nonzero", [source.ref], "int64", rank)
    zero = growth.constant(np.array(0, "int64"))
    told = attributes("TakeAttrs", axis=0, mode="clip")
    return growth.bind(frame, "relax.take", [found.ref, zero.ref], _row(found), told)


def _unique(growth: Growth, frame: Frame, fuel: int) -> Known:
    """The different elements of a tensor of integers."""
    dtype = growth.draws.pick(["int64", "int32"])
    source = growth.grow(frame, Tensor(dtype, growth.asking(frame).shape(1, 2)), ANY, fuel // 2)
    flags = [{"prim": ["bool", is_set]} for is_set in (1, 0, 0, 0)]
    return _cast(growth, frame, "relax.unique", [source.ref, *flags], dtype)


def _sliced(growth: Growth, frame: Frame, fuel: int) -> Known:
    """A part of a vector whose ends are tensors."""
    draws, asking = growth.draws, growth.asking(frame)
    size = max(asking.static(), 2)
    source = growth.grow(frame, Tensor(asking.float(), (size,)), ANY, fuel // 2)
    first = draws.below(size)
    ends = first, draws.between(first + 1, size), draws.pick([1, 1, 2])
    refs = [growth.constant(np.array([each], "int64")).ref for each in ends]
    assert isinstance(source.type, Tensor)
    args = [source.ref, *refs]
    return _cast(growth, frame, "relax.dynamic_strided_slice", args, source.type.dtype)


def _cast(growth: Growth, frame: Frame, op: str, args: list[Json], dtype: str, rows: int = 0) -> Known:
    """Bind a call of a result of unknown length, and a cast that names this; Unsound if it is empty."""
    name, symbol = growth.fresh(), growth.fresh("k")
    value = growth.put(frame, name, op, args)
    if not value.size:
        raise Unsound("nothing is left")
    frame.symbols.append(symbol)
    frame.sizes[symbol] = value.shape[-1]
    told = Tensor(dtype, (rows, symbol) if rows else (symbol,))
    args = [{"ref": name}, type_to_json(told)]
    return growth.bind_on(Known(name, told, value), frame, "match_cast", args, told)


def _row(found: Known) -> Tensor:
    assert isinstance(found.type, Tensor)
    return Tensor(found.type.dtype, found.type.shape[-1:])


def reduced(growth: Growth, frame: Frame, row: Known, target: Tensor) -> Known:
    """The row, of the target's dtype, beside each of the target's elements; its largest."""
    told = _row(row)
    if told.dtype != target.dtype:
        told = told.of(target.dtype)
        row = astype(growth, frame, row, told)
    wide = Tensor(target.dtype, (*target.shape, *told.shape))
    spread = growth.bind(frame, "relax.broadcast_to", [row.ref, {"shape": list(wide.shape)}], wide)
    over = attributes("StatisticalAttrs", axis=[target.rank], keepdims=False)
    name = growth.draws.pick(["relax.max", "relax.min"])
    return growth.bind(frame, name, [spread.ref], target, over)


FORMS: dict[str, Form] = {
    "operator": grow_operator,
    "primfunc": grow_primfunc,
    "inplace": grow_inplace,
    "loops": grow_loops,
    "alias": grow_alias,
    "cast": grow_cast,
    "loose": grow_loose,
    "pair": grow_pair,
    "variable": grow_variable,
    "unknown": grow_unknown,
}
