"""Relations of windows over images, of recurrent layers and of products of matrices."""

from __future__ import annotations

from generators.language.profile import BINNED
from generators.language.program import MAX_RANK, Attribute, Call
from generators.language.types import I32, DType, Range
from generators.solved.keeping import joined_dims
from generators.solved.plan import Dims, Plan, Term, Use

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_EQUATIONS = (
    "ij,jk->ik",
    "ij,jk->ki",
    "ij,kj->ik",
    "ij,ij->i",
    "ij,ij->ij",
    "ij,ij->",
    "i,j->ij",
    "bij,bjk->bik",
)
_DILATED = {"AveragePool": 19, "LpPool": 18}
"""The first opset at which the windows of an operator may be spread."""
_ONTO = Range(-1, 1)


class Window:
    """A window along each spatial axis: its size and pads are the solver's, strides and rates are drawn."""

    def __init__(self, plan: Plan, spatial: Dims, is_dilated: bool = True) -> None:
        draws = plan.draws
        self.is_dilated = is_dilated
        self.kernel = [plan.amount(1) for _ in spatial]
        self.strides = [draws.amount((1, 1, 2, 3), 16, BINNED) for _ in spatial]
        self.rates = [draws.amount((1, 1, 1, 2), 8, BINNED) if is_dilated else 1 for _ in spatial]
        self.pads = [plan.amount() if draws.chance(0.5) else 0 for _ in range(2 * len(spatial))]
        self.dims = tuple(self._out(plan, axis, dim) for axis, dim in enumerate(spatial))

    def _out(self, plan: Plan, axis: int, dim: Term) -> Term:
        """Return how often the window fits; a pad is smaller than the window."""
        count, rank = plan.dim(), len(self.kernel)
        before, after = self.pads[axis], self.pads[axis + rank]
        room = dim + before + after - (self.kernel[axis] - 1) * self.rates[axis] - 1
        stride = self.strides[axis]
        plan.must(room >= 0, (count - 1) * stride <= room, room < count * stride)
        plan.must(before < self.kernel[axis], after < self.kernel[axis])
        return count

    def attributes(self, use: Use) -> dict[str, Attribute]:
        """What tells it to an operator."""
        told: dict[str, Attribute] = {
            "kernel_shape": use.sizes(self.kernel),
            "strides": tuple(self.strides),
            "pads": use.sizes(self.pads),
        }
        return {**told, "dilations": tuple(self.rates)} if self.is_dilated else told


def convolved(plan: Plan) -> None:
    """An image with a weight for each feature."""
    image = plan.focus(3, MAX_RANK)
    name = plan.one_of(image, "Conv", "ConvInteger")
    window, features = Window(plan, image.dims[2:]), plan.dim()
    channels = image.dims[1]
    weight = plan.input(image.dtype, (features, channels, *window.kernel))
    bias = [plan.input(image.dtype, (features,))] if name == "Conv" and plan.draws.chance(0.5) else []
    values = (image, weight, *bias)

    def make(use: Use) -> Call:
        return Call(tuple(map(use.get, range(len(values)))), window.attributes(use))

    dtype = image.dtype if name == "Conv" else I32
    plan.add(name, values, make, (dtype, (image.dims[0], features, *window.dims)))


def spread(plan: Plan) -> None:
    """A transposed convolution."""
    image = plan.focus(3, MAX_RANK)
    name = plan.one_of(image, "ConvTranspose")
    features = plan.dim()
    kernel = [plan.amount(1) for _ in image.dims[2:]]
    strides = tuple(plan.draws.amount((1, 1, 2), 8, BINNED) for _ in kernel)
    weight = plan.input(image.dtype, (image.dims[1], features, *kernel))
    sizes = zip(image.dims[2:], strides, kernel, strict=True)
    dims = [(dim - 1) * stride + size for dim, stride, size in sizes]
    told: dict[str, Attribute] = {"strides": strides}
    plan.add(
        name,
        (image, weight),
        lambda use: Call((use.get(0), use.get(1)), told),
        (image.dtype, (image.dims[0], features, *dims)),
    )


def pooled(plan: Plan) -> None:
    """The largest or the mean of each window."""
    image = plan.focus(3, MAX_RANK)
    name = plan.one_of(image, "AveragePool", "LpPool", "MaxPool")
    is_dilated = plan.opset >= _DILATED.get(name, 0)
    window = Window(plan, image.dims[2:], is_dilated)
    plan.add(
        name,
        (image,),
        lambda use: Call((use.focus(),), window.attributes(use)),
        (image.dtype, (*image.dims[:2], *window.dims)),
    )


def over_all(plan: Plan) -> None:
    """One window over the whole image."""
    image = plan.focus(3, MAX_RANK)
    name = plan.one_of(image, "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool")
    dims = (*image.dims[:2], *(1 for _ in image.dims[2:]))
    plan.add(name, (image,), lambda use: Call((use.focus(),)), (image.dtype, dims))


def multiplied(plan: Plan) -> None:
    """Matrices, with dims before that broadcast."""
    left = plan.focus(2)
    name = plan.one_of(left, "MatMul", "com.microsoft.FusedMatMul", "MatMulInteger")
    right = plan.other(left.dtype, 2 if plan.draws.chance(0.5) else left.rank)
    plan.equal(left.dims[-1:], right.dims[-2:-1])
    batch = joined_dims(plan, left.dims[:-2], right.dims[:-2])
    dtype = I32 if name == "MatMulInteger" else left.dtype
    plan.add(
        name,
        (left, right),
        lambda use: Call((use.get(0), use.get(1))),
        (dtype, (*batch, left.dims[-2], right.dims[-1])),
    )


def added(plan: Plan) -> None:
    """Gemm: matrices as they are or turned, and an addend that broadcasts."""
    draws, left = plan.draws, plan.focus(2, 2)
    name = plan.one_of(left, "Gemm", "com.microsoft.FusedGemm")
    right = plan.other(left.dtype, 2)
    turns = [draws.chance(0.3), draws.chance(0.3)]
    rows, inner = left.dims[::-1] if turns[0] else left.dims
    across, columns = right.dims[::-1] if turns[1] else right.dims
    plan.equal((inner,), (across,))
    addend = [plan.input(left.dtype, draws.pick(((columns,), (rows, columns), (1, columns), ())))]
    told: dict[str, Attribute] = {
        key: 1 for key, is_on in zip(("transA", "transB"), turns, strict=True) if is_on
    }
    if name.endswith("FusedGemm"):
        told["activation"] = "Relu"
    values = (left, right, *(addend if draws.chance(0.7) else []))
    plan.add(
        name,
        values,
        lambda use: Call(tuple(map(use.get, range(len(values)))), told),
        (left.dtype, (rows, columns)),
    )


def summed(plan: Plan) -> None:
    """Einsum of two operands."""
    equation = plan.draws.pick(_EQUATIONS)
    terms, _, result = equation.partition("->")
    first, second = terms.split(",")
    left = plan.focus(len(first), len(first))
    name = plan.one_of(left, "Einsum")
    sizes: dict[str, Term] = dict(zip(first, left.dims, strict=True))
    dims = tuple(
        sizes.setdefault(letter, plan.dim()) if letter not in sizes else sizes[letter] for letter in second
    )
    right = plan.input(left.dtype, dims)
    plan.add(
        name,
        (left, right),
        lambda use: Call((use.get(0), use.get(1)), {"equation": equation}),
        (left.dtype, tuple(sizes[letter] for letter in result)),
    )


def recurrent(plan: Plan) -> None:
    """A layer over a sequence, in one direction."""
    value = plan.focus(3, 3)
    name = plan.one_of(value, *_GATES)
    hidden, gates = plan.dim(), _GATES[name]
    steps, batch, width = value.dims
    weight = plan.input(value.dtype, (1, gates * hidden, width))
    again = plan.input(value.dtype, (1, gates * hidden, hidden))
    last = (1, batch, hidden)
    shapes: list[tuple[DType, Dims]] = [(value.dtype, (steps, 1, batch, hidden)), (value.dtype, last)]

    def make(use: Use) -> Call:
        return Call((use.get(0), use.get(1), use.get(2)), {"hidden_size": use.size(hidden)}, 2)

    plan.add(name, (value, weight, again), make, *shapes)


def sampled(plan: Plan) -> None:
    """An image looked at by a grid."""
    image = plan.focus(4, 4)
    name = plan.one_of(image, "GridSample")
    high, wide = plan.dim(), plan.dim()
    grid = plan.input(image.dtype, (image.dims[0], high, wide, 2))
    plan.add(
        name,
        (image, grid),
        lambda use: Call((use.get(0), use.get(1, _ONTO)), {}),
        (image.dtype, (*image.dims[:2], high, wide)),
    )


def determined(plan: Plan) -> None:
    """The determinant of small square matrices."""
    value = plan.focus(2)
    name = plan.one_of(value, "Det")
    plan.equal(value.dims[-1:], value.dims[-2:-1])
    plan.must(value.dims[-1] <= 3)
    plan.add(name, (value,), lambda use: Call((use.focus(),)), (value.dtype, value.dims[:-2]))


RELATIONS = {
    **dict.fromkeys((convolved, pooled, multiplied, added), 2.0),
    **dict.fromkeys((spread, over_all, summed), 1.0),
    **dict.fromkeys((recurrent, sampled, determined), 0.6),
}
"""By relation, how often it is drawn."""
