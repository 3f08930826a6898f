"""Expressions as Python functions of the state: compiled once, run for every element."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from corpus.tir.forms import element, is_bool, is_float, lanes
from corpus.tir.values import (
    Binary,
    Broadcast,
    BufferRef,
    Call,
    Cast,
    Const,
    Expr,
    Let,
    Load,
    Ramp,
    Select,
    Shuffle,
    Unary,
    Var,
    type_of,
)
from oracles.tir.scalars import (
    EXACT,
    ROUGH,
    TYPED,
    UNDEFINED,
    NotModelled,
    Scalar,
    Undefined,
    binary,
    casting,
    checking,
    noisy,
    reinterpreting,
    rounding,
    without_operand,
)
from oracles.tir.state import Address, State

Compiled: TypeAlias = Callable[[State], Any]
"""What gives an expression's value: a scalar, or a tuple of these for a vector."""

LOW = frozenset({"bfloat16", "float8_e4m3fn", "float8_e5m2"})
"""Types that TVM computes in a wider one, for longer or shorter: each operation of theirs is rough."""


def compiled(expr: Expr) -> Compiled:
    """Compile an expression into a function.

    Raises NotModelled for one that the interpreter does not know.
    """
    make = _KINDS.get(type(expr))
    if make is None:
        raise NotModelled(f"the expression {type(expr).__name__}")
    return make(expr)


def many(exprs: tuple[Expr, ...]) -> list[Compiled]:
    """Several expressions."""
    return [compiled(expr) for expr in exprs]


def lifted(
    function: Callable[..., Scalar],
    width: int,
    open_result: Callable[[Scalar], Scalar] = lambda last: UNDEFINED,
) -> Callable[..., Any]:
    """Lift a function on lanes to values. If an operand is undefined, so is the result.

    `open_result` gives that one from the last operand, or raises where the operation may end the process.
    """

    def on_scalars(*operands: Scalar) -> Scalar:
        for operand in operands:
            if operand is UNDEFINED:
                return open_result(operands[-1])
        return function(*operands)

    if width == 1:
        return on_scalars
    return lambda *operands: tuple(on_scalars(*lane) for lane in zip(*operands, strict=True))


def _var(expr: Var) -> Compiled:
    name = expr.name
    return lambda state: state.vars[name]


def _const(expr: Const) -> Compiled:
    value = rounding(expr.dtype)(float(expr.value)) if is_float(expr.dtype) else expr.value
    return lambda state: value


def _binary(expr: Binary) -> Compiled:
    dtype = type_of(expr.a)
    operation, width = binary(expr.op, dtype), lanes(dtype)
    left, right = compiled(expr.a), compiled(expr.b)
    open_result = without_operand(expr.op, dtype)
    is_rough = is_float(dtype) and (element(dtype) in LOW or expr.op in ("mod", "floordiv", "floormod"))
    if width == 1 and not is_rough:

        def scalar(state: State) -> Scalar:
            a, b = left(state), right(state)
            return open_result(b) if a is UNDEFINED or b is UNDEFINED else operation(a, b)

        return scalar
    whole = lifted(operation, width, open_result)
    if is_rough:
        return _roughly(lambda state: whole(left(state), right(state)), expr.dtype)
    return lambda state: whole(left(state), right(state))


def _roughly(compute: Compiled, dtype: str, callee: str = "") -> Compiled:
    """Add noise to a computation if the state asks for it."""
    if not is_float(dtype):
        return compute
    rounded, name = rounding(dtype), element(dtype)

    def moved(value: Scalar, state: State) -> Scalar:
        state.is_rough = True
        if value is UNDEFINED or state.noise is None:
            return value
        return rounded(noisy(value, name, state.noise, callee))

    if lanes(dtype) == 1:
        return lambda state: moved(compute(state), state)
    return lambda state: tuple(moved(value, state) for value in compute(state))


def _unary(expr: Unary) -> Compiled:
    dtype = expr.dtype
    checked = checking(dtype) if not is_bool(dtype) else None
    operation = (lambda value: not value) if checked is None else (lambda value: checked(~value))
    value, whole = compiled(expr.a), lifted(operation, lanes(dtype))
    return lambda state: whole(value(state))


def _cast(expr: Cast) -> Compiled:
    value = compiled(expr.value)
    before = type_of(expr.value)
    if before == expr.dtype:
        return value
    whole = lifted(casting(before, expr.dtype), lanes(expr.dtype))
    if lanes(expr.dtype) == 1 and element(expr.dtype).startswith("float8"):
        return _perhaps_rounded(value, whole)
    return lambda state: whole(value(state))


def _perhaps_rounded(value: Compiled, rounded: Callable[[Scalar], Scalar]) -> Compiled:
    """A cast to eight bits: exact here, and left out in runs with noise, since TVM's own memory is wider."""

    def cast(state: State) -> Scalar:
        before = value(state)
        after = rounded(before)
        if after is UNDEFINED or after == before:
            return after
        state.is_rough = True
        return after if state.noise is None else float(before)

    return cast


def _select(expr: Select) -> Compiled:
    condition, then, other = many((expr.condition, expr.then, expr.other))
    width, each = lanes(expr.dtype), lanes(type_of(expr.condition)) > 1

    def chosen(state: State) -> Any:
        which, one, two = condition(state), then(state), other(state)
        if each:
            return tuple(_chosen(*lane) for lane in zip(which, one, two, strict=True))
        if which is UNDEFINED:
            return UNDEFINED if width == 1 else (UNDEFINED,) * width
        return one if which else two

    return chosen


def _chosen(condition: Scalar, then: Scalar, other: Scalar) -> Scalar:
    return UNDEFINED if condition is UNDEFINED else then if condition else other


def _ramp(expr: Ramp) -> Compiled:
    base, stride = compiled(expr.base), compiled(expr.stride)
    checked, count = checking(expr.dtype), expr.lanes

    def ramp(state: State) -> tuple[Scalar, ...]:
        first, step = base(state), stride(state)
        if first is UNDEFINED or step is UNDEFINED:
            return (UNDEFINED,) * count
        return tuple(checked(first + lane * step) for lane in range(count))

    return ramp


def _broadcast(expr: Broadcast) -> Compiled:
    value, count = compiled(expr.value), expr.lanes
    if lanes(type_of(expr.value)) > 1:
        raise NotModelled("a broadcast of vectors")
    return lambda state: (value(state),) * count


def _shuffle(expr: Shuffle) -> Compiled:
    vectors = [(compiled(item), lanes(type_of(item)) > 1) for item in expr.vectors]
    picked = [item.value for item in expr.indices if isinstance(item, Const)]
    if len(picked) != len(expr.indices):
        raise NotModelled("a shuffle by what is no constant")

    def shuffled(state: State) -> Any:
        flat: list[Scalar] = []
        for value, is_vector in vectors:
            flat.extend(value(state)) if is_vector else flat.append(value(state))
        found = tuple(flat[int(index)] for index in picked)
        return found if len(found) > 1 else found[0]

    return shuffled


def _let(expr: Let) -> Compiled:
    name, value, body = expr.var.name, compiled(expr.value), compiled(expr.body)

    def let(state: State) -> Any:
        state.vars[name] = value(state)
        return body(state)

    return let


def _load(expr: Load) -> Compiled:
    name, indices = expr.buffer, many(expr.indices)
    if indices and lanes(type_of(expr.indices[-1])) > 1:
        return _load_vector(name, indices)

    def load(state: State) -> Scalar:
        return state.read(name, [index(state) for index in indices])

    return load


def _load_vector(name: str, indices: list[Compiled]) -> Compiled:
    *first, last = indices

    def load(state: State) -> tuple[Scalar, ...]:
        head = [index(state) for index in first]
        return tuple(state.read(name, [*head, index]) for index in last(state))

    return load


def _call(expr: Call) -> Compiled:
    special = _CALLS.get(expr.callee) if not expr.callee.startswith("@") else _routine
    if special is not None:
        return special(expr)
    args = many(expr.args) if not any(isinstance(arg, BufferRef) for arg in expr.args) else []
    width = lanes(expr.dtype)
    if expr.callee in ROUGH:
        computed = _applied(_rounded(ROUGH[expr.callee], expr.dtype), args, width)
        return _roughly(computed, expr.dtype, expr.callee)
    if expr.callee in EXACT:
        return _applied(_rounded(EXACT[expr.callee], expr.dtype), args, width)
    if expr.callee in TYPED:
        function, dtype = TYPED[expr.callee], type_of(expr.args[0])
        return _applied(lambda *operands: function(dtype, *operands), args, width, expr.dtype)
    raise NotModelled(f"the intrinsic {expr.callee}")


def _routine(expr: Call) -> Compiled:
    """A function of the module, for what it does to memory."""
    name, operands = expr.callee[1:], many(expr.args)
    return lambda state: state.call(name, [operand(state) for operand in operands])


def _rounded(function: Callable[..., float], dtype: str) -> Callable[..., Scalar]:
    rounded = rounding(dtype)
    return lambda *operands: rounded(function(*operands))


def _kept(function: Callable[..., Scalar], dtype: str) -> Callable[..., Scalar]:
    """Convert a function's results to the type; undefined ones stay undefined."""
    rounded = rounding(dtype)

    def kept(*lane: Scalar) -> Scalar:
        found = function(*lane)
        return found if found is UNDEFINED else rounded(found)

    return kept


def _applied(function: Callable[..., Scalar], args: list[Compiled], width: int, dtype: str = "") -> Compiled:
    whole = lifted(_kept(function, dtype) if dtype and is_float(dtype) else function, width)
    return lambda state: whole(*(arg(state) for arg in args))


def _if_then_else(expr: Call) -> Compiled:
    """Only the branch that is taken is computed."""
    condition, then, other = many(expr.args)
    if lanes(type_of(expr.args[0])) > 1:
        raise NotModelled("if_then_else by a vector")

    def branch(state: State) -> Any:
        which = condition(state)
        if which is UNDEFINED:
            raise Undefined("the condition of if_then_else is undefined")
        return then(state) if which else other(state)

    return branch


def _vector_half(expr: Call) -> Compiled:
    (value,) = many(expr.args)
    half = lanes(type_of(expr.args[0])) // 2
    part = slice(half) if expr.callee == "vectorlow" else slice(half, None)

    def taken(state: State) -> Any:
        found = value(state)[part]
        return found if half > 1 else found[0]

    return taken


def _vector_joined(expr: Call) -> Compiled:
    left, right = many(expr.args)
    return lambda state: (*left(state), *right(state))


def _reinterpret(expr: Call) -> Compiled:
    before = type_of(expr.args[0])
    if lanes(before) != lanes(expr.dtype):
        raise NotModelled("a reinterpretation of other lanes")
    (value,) = many(expr.args)
    whole = lifted(reinterpreting(before, expr.dtype), lanes(before))
    return lambda state: whole(value(state))


def _address(expr: Call) -> Compiled:
    """Where a buffer's data begins, or where an element lies."""
    (source,) = expr.args
    if isinstance(source, BufferRef):
        return lambda state: Address((view := state.views[source.buffer]).memory, view.start)
    if not isinstance(source, Load):
        raise NotModelled("an address of another kind")
    name, indices = source.buffer, many(source.indices)

    def address(state: State) -> Address:
        view = state.views[name]
        return Address(view.memory, view.place([index(state) for index in indices]))

    return address


def _nothing(expr: Call) -> Compiled:
    width = lanes(expr.dtype)
    return lambda state: UNDEFINED if width == 1 else (UNDEFINED,) * width


def _assumed(expr: Call) -> Compiled:
    (condition,) = many(expr.args)

    def assumed(state: State) -> Scalar:
        if condition(state) is not True:
            raise Undefined("an assumption does not hold")
        return True

    return assumed


_CALLS: Final[dict[str, Callable[[Call], Compiled]]] = {
    "if_then_else": _if_then_else,
    "vectorlow": _vector_half,
    "vectorhigh": _vector_half,
    "vectorcombine": _vector_joined,
    "reinterpret": _reinterpret,
    "undef": _nothing,
    "assume": _assumed,
    "buffer_data": _address,
    "address_of": _address,
}
_KINDS: Final[dict[type, Callable[[Any], Compiled]]] = {
    Var: _var,
    Const: _const,
    Binary: _binary,
    Unary: _unary,
    Cast: _cast,
    Select: _select,
    Ramp: _ramp,
    Broadcast: _broadcast,
    Shuffle: _shuffle,
    Let: _let,
    Load: _load,
    Call: _call,
}
