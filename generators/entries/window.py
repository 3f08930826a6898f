"""The ways back through windows that go over an image, and through its padding."""

from __future__ import annotations

from generators.entries.shared import another_dim, fits, is_filled, recogniser, with_supplied
from generators.language.operator import Inverse, Operator
from generators.language.program import MAX_RANK, Attribute, Call, Operand
from generators.language.scope import Scope
from generators.language.types import Shape, TensorType

Attributes = dict[str, Attribute]


def is_image(shape: Shape) -> bool:
    """Return a batch, which may be empty, of channels over one to three spatial axes."""
    return 3 <= len(shape) <= MAX_RANK and is_filled(shape[1:])


def _window(scope: Scope, spatial: Shape) -> tuple[Shape, Shape, Attributes]:
    """Return a window, the spatial dims from which it leads to the wanted ones, and its strides and pads."""
    draws = scope.draws
    kernel = tuple(scope.amount((1, 2, 3), 8) for _ in spatial)
    strides = tuple(scope.amount((1, 1, 2), 8) for _ in spatial)
    source = tuple((dim - 1) * s + k for dim, s, k in zip(spatial, strides, kernel, strict=True))
    attributes: Attributes = {"strides": strides} if max(strides) > 1 else {}
    pads = tuple(draws.between(0, min(k - 1, dim - 1)) for k, dim in zip(kernel, source, strict=True))
    if max(pads) and draws.chance(0.6):
        attributes["pads"] = (*pads, *(0 for _ in pads))
        source = tuple(dim - pad for dim, pad in zip(source, pads, strict=True))
    return kernel, source, attributes


def _channels(scope: Scope, features: int) -> tuple[int, int]:
    """Groups, and channels in each group."""
    groups = scope.draws.pick([1, 1, *(n for n in range(2, features + 1) if features % n == 0)])
    return groups, scope.draws.pick((1, 2, 3))


def _bias(scope: Scope, wanted: TensorType) -> tuple[Operand, ...]:
    return (scope.supply(wanted.dtype, wanted.shape[1:2]),) if scope.draws.chance(0.5) else ()


def solve_conv(scope: Scope, wanted: TensorType) -> Call:
    """Return a convolution without a bias."""
    batch, features, *spatial = wanted.shape
    kernel, source, attributes = _window(scope, tuple(spatial))
    groups, channels = _channels(scope, features)
    image, weight = (batch, groups * channels, *source), (features, channels, *kernel)
    if not fits(image, weight):
        groups, attributes = 1, {}
        image, weight = (batch, 1, *spatial), (features, 1, *(1 for _ in spatial))
    if groups > 1:
        attributes["group"] = groups
    return Call((scope.supply(wanted.dtype, image), scope.supply(wanted.dtype, weight)), attributes)


def _solve_conv(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    call = solve_conv(scope, wanted)
    return call._replace(operands=(*call.operands, *_bias(scope, wanted)))


def _solve_transposed(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    batch, features, *spatial = wanted.shape
    kernel = tuple(scope.amount(range(1, min(3, dim) + 1), dim) for dim in spatial)
    source = tuple(dim - k + 1 for dim, k in zip(spatial, kernel, strict=True))
    groups, channels = _channels(scope, features)
    image, weight = (batch, groups * channels, *source), (groups * channels, features // groups, *kernel)
    if not fits(image, weight):
        groups = 1
        image, weight = (batch, 1, *spatial), (1, features, *(1 for _ in spatial))
    operands = (scope.supply(wanted.dtype, image), scope.supply(wanted.dtype, weight), *_bias(scope, wanted))
    return Call(operands, {"group": groups} if groups > 1 else {})


def _solve_pool(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    kernel, source, attributes = _window(scope, wanted.shape[2:])
    image = (*wanted.shape[:2], *source)
    if not fits(image):
        kernel, image, attributes = tuple(1 for _ in kernel), wanted.shape, {}
    call = with_supplied(scope, wanted, image)
    return call._replace(attributes={**attributes, "kernel_shape": kernel})


def _solve_global(operator: Operator, scope: Scope, wanted: TensorType) -> Call | None:
    dims = wanted.shape[:2]
    for _ in wanted.shape[2:]:
        dims = (*dims, another_dim(scope, dims))
    return operator.sample(scope, scope.supply(wanted.dtype, dims))


def _is_pooled(shape: Shape) -> bool:
    return is_image(shape) and set(shape[2:]) == {1}


def _solve_pad(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    shape = wanted.shape
    before = [scope.amount(range(min(2, dim - 1) + 1), dim - 1) if dim else 0 for dim in shape]
    after = [
        scope.amount(range(min(2, dim - pad) + 1), dim - pad) if dim else 0
        for dim, pad in zip(shape, before, strict=True)
    ]
    source = tuple(dim - a - b for dim, a, b in zip(shape, before, after, strict=True))
    return with_supplied(scope, wanted, source, scope.fix_ints((*before, *after)))


CONV = Inverse(recogniser(is_image), _solve_conv)
TRANSPOSED = Inverse(recogniser(is_image), _solve_transposed)
POOL = Inverse(recogniser(is_image), _solve_pool)
GLOBAL = Inverse(recogniser(_is_pooled), _solve_global)
PAD = Inverse(recogniser(lambda shape: len(shape) >= 1), _solve_pad)
