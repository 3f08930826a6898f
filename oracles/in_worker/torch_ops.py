"""ONNX operators in terms of torch: a table of lowerings, by the operator's name.

A lowering looks at a node (`Op`), whose operands have their values already, and returns a function of its
tensors: whatever decides shapes (axes, sizes, pads) is a plain number by then, as it would be in a program
written for torch. What the table does not have is refused by `Unsupported`.
"""

from __future__ import annotations

import math
from typing import Any, Callable  # noqa: UP035 (Python 3.8)

import torch
import torch.nn.functional as F

Function = Any
"""Of tensors; what torch offers has no types here."""
Lowering = Callable[["Op"], Any]


class Unsupported(NotImplementedError):
    """There is no lowering for an operator, or not for this form or dtype of it."""


class Op:
    """A node at hand: attributes, its operands' values (None where absent), the opset, how many outputs."""

    def __init__(self, name: str, attributes: dict[str, Any], values: list[Any], opset: int, outputs: int):
        self.name = name
        self.attributes = attributes
        self.values = values
        self.opset = opset
        self.outputs = outputs

    def get(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    def has(self, index: int) -> bool:
        return index < len(self.values) and self.values[index] is not None

    def numbers(self, index: int, attribute: str = "") -> list[Any] | None:
        """An operand as plain numbers, or the attribute that older opsets have for it, or None."""
        if self.has(index):
            return list(self.values[index].reshape(-1).tolist())
        found = self.get(attribute)
        return list(found) if found is not None else None

    def must(self, condition: bool, form: str) -> None:
        if not condition:
            raise Unsupported(f"{self.name}: no lowering for {form}")


def plain(function: Function) -> Lowering:
    """The same function whatever the attributes are."""
    return lambda op: function


def folded(function: Function) -> Lowering:
    """A function of two tensors over any number of them."""

    def fold(first: Any, *others: Any) -> Any:
        for other in others:
            first = function(first, other)
        return first

    return plain(fold)


# Elementwise


def divide(op: Op) -> Function:
    return torch.div if op.values[0].is_floating_point() else truncating


def truncating(left: Any, right: Any) -> Any:
    return torch.div(left, right, rounding_mode="trunc")


def power(left: Any, right: Any) -> Any:
    return torch.pow(left, right).to(left.dtype)


def clip(op: Op) -> Function:
    if op.opset < 11:
        low, high = op.get("min"), op.get("max")
        return lambda x: torch.clamp(x, low, high)
    low, high = (op.values[index].item() if op.has(index) else None for index in (1, 2))
    if low is None and high is None:
        return lambda x, *rest: x
    return lambda x, *rest: torch.clamp(x, low, high)


def is_inf(op: Op) -> Function:
    negative, positive = op.get("detect_negative", 1), op.get("detect_positive", 1)
    if negative and positive:
        return torch.isinf
    if not (negative or positive):
        return lambda x: torch.zeros_like(x, dtype=torch.bool)
    return torch.isposinf if positive else torch.isneginf


def gelu(op: Op) -> Function:
    approximate = op.get("approximate", b"none").decode()
    return lambda x: F.gelu(x, approximate=approximate)


def softmax(function: Function) -> Lowering:
    def lower(op: Op) -> Function:
        if op.opset >= 13:
            axis = op.get("axis", -1)
            return lambda x: function(x, dim=axis)
        start = op.get("axis", 1) % max(op.values[0].dim(), 1)
        return lambda x: function(x.reshape(math.prod(x.shape[:start]), -1), dim=1).reshape(x.shape)

    return lower


def hard_sigmoid(op: Op) -> Function:
    alpha, beta = op.get("alpha", 0.2), op.get("beta", 0.5)
    return lambda x: torch.clamp(alpha * x + beta, 0, 1)


def bit_shift(op: Op) -> Function:
    return torch.bitwise_left_shift if op.get("direction") == b"LEFT" else torch.bitwise_right_shift


def prelu(x: Any, slope: Any) -> Any:
    return torch.where(x < 0, x * slope, x)


DTYPES = {
    1: torch.float32,
    2: torch.uint8,
    3: torch.int8,
    5: torch.int16,
    6: torch.int32,
    7: torch.int64,
    9: torch.bool,
    10: torch.float16,
    11: torch.float64,
    16: torch.bfloat16,
}
"""By ONNX's numbers: the dtypes that torch computes in."""


def cast(op: Op) -> Function:
    op.must(op.get("to") in DTYPES, f"dtype {op.get('to')}")
    dtype = DTYPES[op.get("to")]
    return lambda x: x.to(dtype)


def eye(op: Op) -> Function:
    rows, columns = op.values[0].shape
    dtype = DTYPES.get(op.get("dtype", 0), op.values[0].dtype)
    offset = op.get("k", 0)
    return lambda x: torch.diag_embed(
        torch.ones(max(rows, columns) + abs(offset), dtype=dtype), offset=offset
    )[:rows, :columns]


def depth_to_space(op: Op) -> Function:
    block, columns_first = op.get("blocksize"), op.get("mode", b"DCR") == b"CRD"

    def run(x: Any) -> Any:
        n, c, h, w = x.shape
        left = c // block**2
        sizes = (n, left, block, block, h, w) if columns_first else (n, block, block, left, h, w)
        order = (0, 1, 4, 2, 5, 3) if columns_first else (0, 3, 4, 1, 5, 2)
        return torch.reshape(torch.permute(torch.reshape(x, sizes), order), (n, left, h * block, w * block))

    return run


def space_to_depth(op: Op) -> Function:
    block = op.get("blocksize")

    def run(x: Any) -> Any:
        n, c, h, w = x.shape
        parts = torch.reshape(x, (n, c, h // block, block, w // block, block))
        order = (0, 3, 5, 1, 2, 4)
        return torch.reshape(torch.permute(parts, order), (n, c * block**2, h // block, w // block))

    return run


def shrink(op: Op) -> Function:
    bias, limit = op.get("bias", 0.0), op.get("lambd", 0.5)
    op.must(op.values[0].is_floating_point(), "integers")

    def run(x: Any) -> Any:
        return torch.where(x < -limit, x + bias, torch.where(x > limit, x - bias, torch.zeros_like(x)))

    return run


def selu(op: Op) -> Function:
    alpha, gamma = op.get("alpha", 1.67326319217681884765625), op.get("gamma", 1.05070102214813232421875)
    return lambda x: gamma * F.elu(x, alpha)


def hardmax(op: Op) -> Function:
    op.must(op.opset >= 13, "this opset")
    axis = op.get("axis", -1)

    def run(x: Any) -> Any:
        first = torch.argmax(x, dim=axis, keepdim=True)
        return torch.zeros_like(x).scatter(axis, first, torch.ones_like(first, dtype=x.dtype))

    return run


def one_hot(op: Op) -> Function:
    (depth,) = op.numbers(1) or [0]
    axis, rank = op.get("axis", -1), op.values[0].dim() + 1
    axis = axis % rank

    def run(indices: Any, size: Any, pair: Any) -> Any:
        places = torch.arange(int(depth)).reshape([-1 if i == axis else 1 for i in range(rank)])
        hit = torch.unsqueeze(wrapped(indices, int(depth)), axis) == places
        return torch.where(hit, pair[1], pair[0])

    return run


def compress(op: Op) -> Function:
    chosen = [i for i, keep in enumerate(op.numbers(1) or []) if keep]
    axis = op.get("axis")
    places = torch.tensor(chosen, dtype=torch.int64)
    if axis is None:
        return lambda x, keep: torch.index_select(torch.reshape(x, (-1,)), 0, places)
    return lambda x, keep: torch.index_select(x, axis, places)


def sequence_range(op: Op) -> Function:
    start, limit, delta = (value.item() for value in op.values)
    dtype, count = op.values[0].dtype, max(math.ceil((limit - start) / delta), 0)
    return lambda a, b, c: (a + torch.arange(count, dtype=dtype) * c).to(dtype)


def scatter_nd(op: Op) -> Function:
    op.must(op.get("reduction", b"none") == b"none", "a reduction")

    def run(x: Any, indices: Any, new: Any) -> Any:
        rest = x.shape[indices.shape[-1] :]
        return torch.index_put(x, listed(indices), torch.reshape(new, (math.prod(indices.shape[:-1]), *rest)))

    return run


def lp_norm(op: Op) -> Function:
    axis, p = op.get("axis", -1), op.get("p", 2)

    def run(x: Any) -> Any:
        size = torch.linalg.vector_norm(x, ord=p, dim=axis, keepdim=True)
        return torch.where(size == 0, torch.zeros_like(x), x / size)

    return run


# Reductions


def reduction(function: Function) -> Lowering:
    """`function(x, axes, keepdims)` over the axes that the node names, or all."""

    def lower(op: Op) -> Function:
        x = op.values[0]
        axes = op.numbers(1, "axes")
        keep = bool(op.get("keepdims", 1))
        if not axes and op.get("noop_with_empty_axes", 0):
            raise Unsupported(f"{op.name}: no lowering for noop_with_empty_axes")
        chosen = tuple(sorted(axis % x.dim() for axis in axes)) if axes else tuple(range(x.dim()))
        return lambda x, *rest: function(x, chosen, keep)

    return lower


def total(x: Any, axes: Any, keep: bool) -> Any:
    return torch.sum(x, dim=axes, keepdim=keep, dtype=x.dtype)


def mean(x: Any, axes: Any, keep: bool) -> Any:
    if x.is_floating_point():
        return torch.mean(x, dim=axes, keepdim=keep)
    return truncating(total(x, axes, keep), math.prod([x.shape[axis] for axis in axes]))


def product(x: Any, axes: Any, keep: bool) -> Any:
    for axis in reversed(axes):
        x = torch.prod(x, dim=axis, keepdim=keep, dtype=x.dtype)
    return x


def norm2(x: Any, axes: Any, keep: bool) -> Any:
    return torch.sqrt(total(x * x, axes, keep).to(torch.float64)).to(x.dtype)


def log_sum(x: Any, axes: Any, keep: bool) -> Any:
    return torch.log(total(x, axes, keep).to(torch.float64)).to(x.dtype)


def largest(function: Function) -> Lowering:
    def lower(op: Op) -> Function:
        axis, keep = op.get("axis", 0), bool(op.get("keepdims", 1))
        if not op.get("select_last_index", 0):
            return lambda x: function(x, dim=axis, keepdim=keep)
        return lambda x: x.shape[axis] - 1 - function(torch.flip(x, (axis,)), dim=axis, keepdim=keep)

    return lower


def cumulative(op: Op) -> Function:
    (axis,) = op.numbers(1) or [0]
    reverse, exclusive = op.get("reverse", 0), op.get("exclusive", 0)

    def run(x: Any, *rest: Any) -> Any:
        source = torch.flip(x, (axis,)) if reverse else x
        sums = torch.cumsum(source, axis, dtype=x.dtype)
        sums = sums - source if exclusive else sums
        return torch.flip(sums, (axis,)) if reverse else sums

    return run


# Layout


def reshape(op: Op) -> Function:
    sizes = op.numbers(1, "shape") or []
    if not op.get("allowzero", 0):
        sizes = [op.values[0].shape[i] if size == 0 else size for i, size in enumerate(sizes)]
    return lambda x, *rest: torch.reshape(x, sizes)


def transpose(op: Op) -> Function:
    order = op.get("perm") or tuple(reversed(range(op.values[0].dim())))
    return lambda x: torch.permute(x, tuple(order))


def squeeze(op: Op) -> Function:
    axes = op.numbers(1, "axes")
    return lambda x, *rest: torch.squeeze(x) if axes is None else torch.squeeze(x, tuple(axes))


def unsqueeze(op: Op) -> Function:
    axes = op.numbers(1, "axes") or []
    rank = op.values[0].dim() + len(axes)
    places = sorted(axis % rank for axis in axes)

    def run(x: Any, *rest: Any) -> Any:
        for place in places:
            x = torch.unsqueeze(x, place)
        return x

    return run


def flatten(op: Op) -> Function:
    x = op.values[0]
    axis = op.get("axis", 1)
    axis = axis + x.dim() if axis < 0 else axis
    sizes = (math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))
    return lambda x: torch.reshape(x, sizes)


def concat(op: Op) -> Function:
    axis = op.get("axis")
    return lambda *parts: torch.cat(parts, axis)


def split(op: Op) -> Function:
    axis = op.get("axis", 0)
    length = op.values[0].shape[axis]
    sizes = op.numbers(1, "split")
    if sizes is None:
        count = op.get("num_outputs", op.outputs)
        size = -(-length // count)
        sizes = [min(size, max(length - size * i, 0)) for i in range(count)]
    return lambda x, *rest: torch.split(x, sizes, axis)


def cut(op: Op) -> Function:
    """Slice; steps backwards, which torch's own slices do not take, by index."""
    x = op.values[0]
    starts, ends = op.numbers(1, "starts") or [], op.numbers(2, "ends") or []
    axes = op.numbers(3, "axes") or list(range(len(starts)))
    steps = op.numbers(4) or [1] * len(starts)
    places = []
    for axis, start, end, step in zip(axes, starts, ends, steps):  # noqa: B905 (Python 3.8)
        chosen = slice(start, end, step).indices(x.shape[axis])
        places.append((axis % x.dim(), chosen))

    def run(x: Any, *rest: Any) -> Any:
        for axis, (start, end, step) in places:
            if step > 0:
                x = x[(slice(None),) * axis + (slice(start, max(start, end), step),)]
            else:
                x = torch.index_select(x, axis, torch.arange(start, end, step) if end < start else NOWHERE)
        return x

    return run


NOWHERE = torch.zeros(0, dtype=torch.int64)


def wrapped(indices: Any, size: int) -> Any:
    indices = indices.to(torch.int64)
    return torch.where(indices < 0, indices + size, indices)


def gather(op: Op) -> Function:
    axis = op.get("axis", 0) % op.values[0].dim()

    def run(x: Any, indices: Any) -> Any:
        found = torch.index_select(x, axis, wrapped(indices, x.shape[axis]).reshape(-1))
        return torch.reshape(found, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))

    return run


def gather_elements(op: Op) -> Function:
    axis = op.get("axis", 0)
    return lambda x, indices: torch.gather(x, axis, wrapped(indices, x.shape[axis]))


def gather_nd(op: Op) -> Function:
    op.must(op.get("batch_dims", 0) == 0, "batch_dims")

    def run(x: Any, indices: Any) -> Any:
        depth = indices.shape[-1]
        found = x[listed(indices)]
        return torch.reshape(found, (*indices.shape[:-1], *x.shape[depth:]))

    return run


def listed(indices: Any) -> tuple[Any, ...]:
    """Indices by axis, each of one dim: torch reads a scalar as a number that decides the program."""
    depth = indices.shape[-1]
    count = math.prod(indices.shape[:-1])
    return tuple(torch.unbind(torch.reshape(indices.to(torch.int64), (count, depth)), -1))


REDUCTIONS = {b"add": "sum", b"mul": "prod", b"max": "amax", b"min": "amin"}


def scatter_elements(op: Op) -> Function:
    axis, kind = op.get("axis", 0), REDUCTIONS.get(op.get("reduction", b"none"))
    if kind is None:
        return lambda x, indices, new: torch.scatter(x, axis, wrapped(indices, x.shape[axis]), new)
    return lambda x, indices, new: torch.scatter_reduce(
        x, axis, wrapped(indices, x.shape[axis]), new, kind, include_self=True
    )


def expand(op: Op) -> Function:
    sizes = torch.broadcast_shapes(op.values[0].shape, op.numbers(1) or ())
    return lambda x, *rest: x.expand(sizes)


def tile(op: Op) -> Function:
    repeats = op.numbers(1) or []
    return lambda x, *rest: x.repeat(repeats)


def pad(op: Op) -> Function:
    x = op.values[0]
    pads = op.numbers(1, "pads") or []
    axes = [axis % x.dim() for axis in op.numbers(3) or range(x.dim())]
    mode = op.get("mode", b"constant").decode()
    fill = op.values[2].item() if op.has(2) else op.get("value", 0)
    both = {axis: (pads[i], pads[i + len(axes)]) for i, axis in enumerate(axes)}
    if mode == "constant":
        order = [size for axis in reversed(range(x.dim())) for size in both.get(axis, (0, 0))]
        return lambda x, *rest: F.pad(x, order, "constant", fill)
    op.must(min(pads, default=0) >= 0, f"negative pads in mode {mode}")
    places = {axis: padded(x.shape[axis], *both[axis], mode) for axis in both}

    def run(x: Any, *rest: Any) -> Any:
        for axis, indices in places.items():
            x = torch.index_select(x, axis, torch.tensor(indices, dtype=torch.int64))
        return x

    return run


def padded(size: int, before: int, after: int, mode: str) -> list[int]:
    """For each place along a padded axis the place that its element is taken from."""
    places = range(-before, size + after)
    if mode == "edge":
        return [min(max(place, 0), size - 1) for place in places]
    if mode == "wrap":
        return [place % size for place in places]
    period = max(2 * (size - 1), 1)
    return [min(place % period, period - place % period) if size > 1 else 0 for place in places]


def shape(op: Op) -> Function:
    chosen = list(op.values[0].shape)[op.get("start", 0) : op.get("end")]
    return lambda x: torch.tensor(chosen, dtype=torch.int64)


def filled(op: Op) -> Function:
    sizes, value = op.numbers(0) or [], op.get("value")
    dtype, number = (value.dtype, value.item()) if value is not None else (torch.float32, 0.0)
    return lambda *rest: torch.full(sizes, number, dtype=dtype)


def triangle(op: Op) -> Function:
    (offset,) = op.numbers(1) or [0]
    function = torch.triu if op.get("upper", 1) else torch.tril
    return lambda x, *rest: function(x, offset)


def constant(op: Op) -> Function:
    op.must(op.get("value") is not None, "this form of value")
    value = op.get("value")
    return lambda: value.clone()


# Linear algebra and networks


def gemm(op: Op) -> Function:
    alpha, beta = op.get("alpha", 1.0), op.get("beta", 1.0)

    def run(a: Any, b: Any, c: Any = None) -> Any:
        a, b = a.t() if op.get("transA", 0) else a, b.t() if op.get("transB", 0) else b
        y = torch.matmul(a, b)
        y = y if alpha == 1 else alpha * y
        return y if c is None else y + (c if beta == 1 else beta * c)

    return run


def einsum(op: Op) -> Function:
    """torch sums integers in 64 bits, ONNX in the type of the operands."""
    equation = op.get("equation").decode()
    return lambda *terms: torch.einsum(equation, *terms).to(terms[0].dtype)


def window(op: Op, kernel: Any) -> tuple[list[int], list[int], list[int]]:
    """Strides, dilations, and pads in F.pad's order."""
    rank = len(kernel)
    strides, dilations = (list(op.get(name) or [1] * rank) for name in ("strides", "dilations"))
    pads = list(op.get("pads") or [0] * (2 * rank))
    automatic = op.get("auto_pad", b"NOTSET")
    if automatic in (b"SAME_UPPER", b"SAME_LOWER"):
        for i, size in enumerate(op.values[0].shape[2:]):
            reach = (kernel[i] - 1) * dilations[i] + 1
            missing = max((-(-size // strides[i]) - 1) * strides[i] + reach - size, 0)
            small, large = missing // 2, missing - missing // 2
            pads[i], pads[i + rank] = (small, large) if automatic == b"SAME_UPPER" else (large, small)
    order = [size for i in reversed(range(rank)) for size in (pads[i], pads[i + rank])]
    return strides, dilations, order


def by_rank(op: Op, functions: tuple[Function, ...]) -> Function:
    rank = op.values[0].dim() - 2
    op.must(1 <= rank <= len(functions), f"{rank} spatial dims")
    return functions[rank - 1]


def convolution(op: Op) -> Function:
    function = by_rank(op, (F.conv1d, F.conv2d, F.conv3d))
    strides, dilations, order = window(op, op.values[1].shape[2:])
    groups = op.get("group", 1)
    return lambda x, w, b=None: function(F.pad(x, order), w, b, strides, 0, dilations, groups)


def max_pool(op: Op) -> Function:
    function = by_rank(op, (F.max_pool1d, F.max_pool2d, F.max_pool3d))
    op.must(not op.get("ceil_mode", 0) and op.outputs == 1, "ceil_mode or indices")
    op.must(op.values[0].is_floating_point(), f"dtype {op.values[0].dtype}")
    kernel = list(op.get("kernel_shape"))
    strides, dilations, order = window(op, kernel)
    return lambda x: function(F.pad(x, order, "constant", -math.inf), kernel, strides, 0, dilations)


def average_pool(op: Op) -> Function:
    function = by_rank(op, (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d))
    kernel = list(op.get("kernel_shape"))
    strides, dilations, order = window(op, kernel)
    op.must(not op.get("ceil_mode", 0) and set(dilations) <= {1}, "ceil_mode or dilations")
    if op.get("count_include_pad", 0) or not any(order):
        return lambda x: function(F.pad(x, order), kernel, strides)
    return lambda x: (
        function(F.pad(x, order), kernel, strides)
        / function(F.pad(torch.ones_like(x), order), kernel, strides)
    )


def spatial(x: Any) -> tuple[int, ...]:
    return tuple(range(2, x.dim()))


def batch_norm(op: Op) -> Function:
    op.must(not op.get("training_mode", 0) and op.outputs == 1, "training")
    eps = op.get("epsilon", 1e-5)
    return lambda x, w, b, mean, var: F.batch_norm(x, mean, var, w, b, False, 0.0, eps)


def layer_norm(op: Op) -> Function:
    op.must(op.outputs == 1, "its further outputs")
    sizes, eps = op.values[0].shape[op.get("axis", -1) :], op.get("epsilon", 1e-5)
    op.must(all(value is None or value.shape == sizes for value in op.values[1:]), "broadcast weights")
    return lambda x, w, b=None: F.layer_norm(x, sizes, w, b, eps)


def instance_norm(op: Op) -> Function:
    """torch refuses to normalise one element a channel, which is 0 after its mean is taken away."""
    shape = op.values[0].shape
    eps, one = op.get("epsilon", 1e-5), [shape[1], *[1] * (len(shape) - 2)]
    if math.prod(shape[2:]) > 1:
        return lambda x, w, b: F.instance_norm(x, None, None, w, b, True, 0.0, eps)
    return lambda x, w, b: (x - x) * w.view(one) + b.view(one)


def dropout(op: Op) -> Function:
    op.must(not (op.has(2) and op.values[2].item()), "training")
    if op.outputs == 1:
        return lambda x, *rest: x.clone()
    return lambda x, *rest: (x.clone(), torch.ones_like(x, dtype=torch.bool))


_SAME_NAME = """
    Abs Neg Exp Log Sqrt Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh Erf Sigmoid Floor Ceil
    Round Sign Relu Reciprocal IsNaN MatMul
"""

TABLE: dict[str, Lowering] = {
    **{name: plain(getattr(torch, name.lower())) for name in _SAME_NAME.split()},
    "Identity": plain(torch.clone),
    "Not": plain(torch.logical_not),
    "Softplus": plain(lambda x: torch.log1p(torch.exp(-torch.abs(x))) + torch.relu(x)),
    "Softsign": plain(F.softsign),
    "HardSwish": plain(F.hardswish),
    "Mish": plain(F.mish),
    "LeakyRelu": lambda op: lambda x: F.leaky_relu(x, op.get("alpha", 0.01)),
    "Elu": lambda op: lambda x: F.elu(x, op.get("alpha", 1.0)),
    "Celu": lambda op: lambda x: F.celu(x, op.get("alpha", 1.0)),
    "ThresholdedRelu": lambda op: lambda x: torch.where(x > op.get("alpha", 1.0), x, torch.zeros_like(x)),
    "HardSigmoid": hard_sigmoid,
    "Gelu": gelu,
    "Clip": clip,
    "IsInf": is_inf,
    "Softmax": softmax(torch.softmax),
    "LogSoftmax": softmax(torch.log_softmax),
    "Cast": cast,
    "CastLike": plain(lambda x, like: x.to(like.dtype)),
    "Add": plain(torch.add),
    "Sub": plain(torch.sub),
    "Mul": plain(torch.mul),
    "Div": divide,
    "Mod": lambda op: torch.fmod if op.get("fmod", 0) else torch.remainder,
    "Pow": plain(power),
    "PRelu": plain(prelu),
    "BitShift": bit_shift,
    "BitwiseAnd": plain(torch.bitwise_and),
    "BitwiseOr": plain(torch.bitwise_or),
    "BitwiseXor": plain(torch.bitwise_xor),
    "BitwiseNot": plain(torch.bitwise_not),
    "And": plain(torch.logical_and),
    "Or": plain(torch.logical_or),
    "Xor": plain(torch.logical_xor),
    "Equal": plain(torch.eq),
    "Less": plain(torch.lt),
    "Greater": plain(torch.gt),
    "LessOrEqual": plain(torch.le),
    "GreaterOrEqual": plain(torch.ge),
    "Where": plain(torch.where),
    "Max": folded(torch.maximum),
    "Min": folded(torch.minimum),
    "Sum": folded(torch.add),
    "Mean": plain(lambda *terms: sum(terms[1:], terms[0]) / len(terms)),
    "ReduceSum": reduction(total),
    "ReduceMean": reduction(mean),
    "ReduceProd": reduction(product),
    "ReduceMax": reduction(lambda x, axes, keep: torch.amax(x, axes, keep)),
    "ReduceMin": reduction(lambda x, axes, keep: torch.amin(x, axes, keep)),
    "ReduceL1": reduction(lambda x, axes, keep: total(torch.abs(x), axes, keep)),
    "ReduceL2": reduction(norm2),
    "ReduceSumSquare": reduction(lambda x, axes, keep: total(x * x, axes, keep)),
    "ReduceLogSum": reduction(log_sum),
    "ReduceLogSumExp": reduction(lambda x, axes, keep: torch.logsumexp(x, axes, keep)),
    "ArgMax": largest(torch.argmax),
    "ArgMin": largest(torch.argmin),
    "CumSum": cumulative,
    "Reshape": reshape,
    "Transpose": transpose,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Flatten": flatten,
    "Concat": concat,
    "Split": split,
    "Slice": cut,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "ScatterElements": scatter_elements,
    "Expand": expand,
    "Tile": tile,
    "Pad": pad,
    "Shape": shape,
    "Size": plain(lambda x: torch.tensor(x.numel(), dtype=torch.int64)),
    "ConstantOfShape": filled,
    "Trilu": triangle,
    "Constant": constant,
    "Gemm": gemm,
    "Einsum": einsum,
    "Conv": convolution,
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "GlobalAveragePool": plain(lambda x: torch.mean(x, spatial(x), True)),
    "GlobalMaxPool": plain(lambda x: torch.amax(x, spatial(x), True)),
    "BatchNormalization": batch_norm,
    "LayerNormalization": layer_norm,
    "InstanceNormalization": instance_norm,
    "Dropout": dropout,
    "EyeLike": eye,
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
    "Shrink": shrink,
    "Selu": selu,
    "Hardmax": hardmax,
    "OneHot": one_hot,
    "Compress": compress,
    "Range": sequence_range,
    "ScatterND": scatter_nd,
    "LpNormalization": lp_norm,
}
