"""Element by element: arithmetic with broadcasting, comparisons, logic, bits, activations, casts."""

from generators.relax.operator import (
    ANY,
    BOOL,
    INTEGERS,
    SIGNED,
    Asking,
    Call,
    Dim,
    Likely,
    Operator,
    Recogniser,
    Tensor,
    Want,
    Within,
    all_of,
    anything,
    is_float,
    is_number,
    number,
    of,
    ranked,
)

_POSITIVE, _NOT_NEGATIVE = Within(0.05, 100.0), Within(0.0, 100.0)
_UNIT, _SMALL = Within(-0.95, 0.95), Within(-4.0, 4.0)
_NONZERO = Within(is_nonzero=True)


def is_single(told: Tensor) -> bool:
    """Floats for which LLVM's code generator knows every function: of halves it lacks some."""
    return told.is_float and told.dtype != "float16"


is_integer, is_bool = of(*INTEGERS), of(BOOL)


def is_signed(told: Tensor) -> bool:
    """Take floats and signed integers."""
    return told.is_float or told.dtype in SIGNED


def narrowed(asking: Asking, shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """A shape that broadcasts to this one: some dims are 1, some of the first ones are left out."""
    draws = asking.draws
    if draws.chance(0.5):
        return shape
    kept = shape[draws.below(len(shape) + 1) :] if draws.chance(0.4) else shape
    return tuple(1 if draws.chance(0.3) else dim for dim in kept)


def pair(asking: Asking, shape: tuple[Dim, ...]) -> tuple[tuple[Dim, ...], tuple[Dim, ...]]:
    """Return two shapes that broadcast to this one, one of them now and then the shape itself."""
    other = narrowed(asking, shape)
    if asking.draws.chance(0.2) and len(other) == len(shape):  # each has some of the dims
        mine = tuple(
            1 if (theirs != 1 and asking.draws.chance(0.3)) else dim
            for dim, theirs in zip(shape, other, strict=True)
        )
        return mine, other
    return (shape, other) if asking.draws.chance(0.6) else (other, shape)


def _of_two(asking: Asking, target: Tensor, dtype: str, left: Within = ANY, right: Within = ANY) -> Call:
    """A call of two operands that broadcast to the target's shape."""
    first, second = pair(asking, target.shape)
    return Call((Want(Tensor(dtype, first), left), Want(Tensor(dtype, second), right)), target)


def _unary(
    name: str, within: Within = ANY, *, recognise: Recogniser = is_float, likely: Likely = Likely.FLOAT
) -> Operator:
    return Operator(
        f"relax.{name}", recognise, lambda asking, target: Call((Want(target, within),), target), likely
    )


def _told(name: str, kind: str, told: dict[str, float]) -> Operator:
    def solve(asking: Asking, target: Tensor) -> Call:
        return Call((Want(target),), target, (kind, told))

    return Operator(f"relax.{name}", is_float, solve)


def _binary(
    name: str,
    right: Within = ANY,
    *,
    recognise: Recogniser = is_number,
    likely: Likely = Likely.NUMBER,
    left: Within = ANY,
) -> Operator:
    def solve(asking: Asking, target: Tensor) -> Call:
        return _of_two(asking, target, target.dtype, left, right)

    return Operator(f"relax.{name}", recognise, solve, likely, weight=1.5)


def _comparison(name: str) -> Operator:
    def solve(asking: Asking, target: Tensor) -> Call:
        dtype = asking.float() if asking.draws.chance(0.6) else asking.integer()
        return _of_two(asking, target, dtype)

    return Operator(f"relax.{name}", is_bool, solve, Likely.BOOL)


def _test(name: str) -> Operator:
    def solve(asking: Asking, target: Tensor) -> Call:
        return Call((Want(target.of(asking.float())),), target)

    return Operator(f"relax.{name}", is_bool, solve, Likely.BOOL, weight=0.4)


def _shift(name: str) -> Operator:
    def solve(asking: Asking, target: Tensor) -> Call:
        bits = int(target.dtype.lstrip("uint")) - 1
        if name == "left_shift":
            return _of_two(asking, target, target.dtype, Within(0, 8), Within(0, min(3, bits)))
        return _of_two(asking, target, target.dtype, ANY, Within(0, bits))

    return Operator(f"relax.{name}", is_integer, solve, Likely.INTEGER)


def _astype(asking: Asking, target: Tensor) -> Call:
    floats, integers = asking.float(), asking.integer()
    source = asking.draws.pick([floats, integers, BOOL, target.dtype])
    limit = {"int8": 100.0, "uint8": 200.0}.get(target.dtype, 1000.0)
    within = ANY
    if target.dtype in INTEGERS:
        within = Within(0.0 if target.dtype.startswith("u") else -limit, limit)
    return Call((Want(target.of(source), within),), target, ("AstypeAttrs", {"dtype": target.dtype}))


def _clip(asking: Asking, target: Tensor) -> Call:
    low = asking.draws.between(0 if target.dtype.startswith("u") else -3, 1)
    high = asking.draws.between(2, 6)
    return Call((Want(target), number(low), number(high)), target)


def _where(asking: Asking, target: Tensor) -> Call:
    first, second = pair(asking, target.shape)
    condition = narrowed(asking, target.shape)
    wants = Tensor(BOOL, condition), target.shaped(*first), target.shaped(*second)
    return Call(tuple(map(Want, wants)), target)


def _prelu(asking: Asking, target: Tensor) -> Call | None:
    axis = asking.draws.below(target.rank)
    if not isinstance(target.shape[axis], int) and not asking.draws.chance(0.02):
        return None  # TVM 0.27 cannot lower a slope for each of a symbolic number of channels
    alpha = target.shaped(target.shape[axis])
    return Call((Want(target), Want(alpha, _SMALL)), target, ("PReluAttrs", {"axis": axis}))


_PLAIN = "cos erf sigmoid sin tanh nn.gelu nn.gelu_tanh nn.relu nn.selu nn.silu ceil floor round trunc"

OPERATORS = (
    *(_unary(name) for name in _PLAIN.split()),
    *(_unary(name, _UNIT) for name in ("atanh", "tan")),
    *(_unary(name, _UNIT, recognise=is_single) for name in ("acos", "asin")),
    _unary("atan", recognise=is_single),
    _unary("exp", _SMALL),
    *(_unary(name, _SMALL, recognise=is_single) for name in ("cosh", "sinh")),
    *(_unary(name, _POSITIVE) for name in ("log", "rsqrt")),
    _unary("sqrt", _NOT_NEGATIVE),
    _unary("acosh", Within(1.05, 100.0), recognise=is_single),
    _unary("asinh", Within(-100.0, 100.0), recognise=is_single),
    *(_unary(name, recognise=is_signed, likely=Likely.NUMBER) for name in ("abs", "negative", "sign")),
    _unary("square", recognise=is_number, likely=Likely.NUMBER),
    _unary("bitwise_not", recognise=is_integer, likely=Likely.INTEGER),
    _unary("logical_not", recognise=is_bool, likely=Likely.BOOL),
    *(_test(name) for name in ("isfinite", "isinf", "isnan")),
    *(_binary(name) for name in ("add", "subtract", "multiply", "maximum", "minimum")),
    *(_binary(name, _NONZERO) for name in ("divide", "floor_divide", "floor_mod", "mod")),
    _binary("power", Within(-2.0, 3.0), recognise=is_float, likely=Likely.FLOAT, left=Within(0.1, 8.0)),
    _binary("atan2", _NONZERO, recognise=is_single, likely=Likely.FLOAT),
    _binary("log_add_exp", recognise=is_float, likely=Likely.FLOAT),
    *(
        _binary(name, recognise=is_integer, likely=Likely.INTEGER)
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor")
    ),
    *(_shift(name) for name in ("left_shift", "right_shift")),
    *(
        _binary(name, recognise=is_bool, likely=Likely.BOOL)
        for name in ("logical_and", "logical_or", "logical_xor")
    ),
    *(_comparison(name) for name in ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")),
    _told("nn.leakyrelu", "LeakyReluAttrs", {"alpha": 0.125}),
    _told("nn.softplus", "SoftplusAttrs", {"beta": 1.0, "threshold": 20.0}),
    Operator("relax.nn.prelu", all_of(is_float, ranked(1)), _prelu, ranks=(1, 4)),
    Operator("relax.astype", anything, _astype, Likely.ANYTHING, weight=2.0),
    Operator("relax.clip", is_number, _clip, Likely.NUMBER),
    Operator("relax.where", anything, _where, Likely.ANYTHING, weight=1.5),
)
