"""Windows over one to three axes of space: convolutions, their transposes, pools."""

from generators.relax.operator import (
    ANY,
    BOOL,
    Asking,
    Call,
    Dim,
    Group,
    Json,
    Likely,
    Operator,
    Recogniser,
    Tensor,
    Want,
    Within,
    all_of,
    is_filled,
    is_float,
    is_static,
    of,
    ranked,
)

SPACE = {1: "W", 2: "HW", 3: "DHW"}
_SMALL = Within(-4.0, 4.0)


def fits(rank: int, least: int = 1) -> Recogniser:
    """Whether a type is that of floats over batch, channels and axes of space of known sizes."""

    def has_space(told: Tensor) -> bool:
        return all(isinstance(dim, int) and dim >= least for dim in told.shape[1:])

    return all_of(ranked(rank + 2, rank + 2), of("float32"), has_space)


def _split(layout: str, target: Tensor) -> tuple[Dim, int, list[int]]:
    """Batch, channels and space of a target in this layout."""
    channels = target.shape[layout.index("C")]
    space = [dim for letter, dim in zip(layout, target.shape, strict=True) if letter not in "NC"]
    assert isinstance(channels, int)
    return target.shape[0], channels, [int(dim) for dim in space]


def _laid(letters: str, space: list[int], **dims: Dim) -> Tensor:
    """A tensor of these dims, and those of space, in the order of the letters."""
    known = {**dims, **dict(zip(SPACE[len(space)], space, strict=True))}
    return Tensor("float32", tuple(known[letter] for letter in letters))


def _sides(padding: list[tuple[int, int]]) -> list[int]:
    """The widths before each axis, then those after it."""
    return [before for before, _ in padding] + [after for _, after in padding]


def _layouts(groups: int, layout: str, kernel: str) -> dict[str, Json]:
    return {
        "groups": groups,
        "data_layout": layout,
        "kernel_layout": kernel,
        "out_layout": layout,
        "out_dtype": None,
    }


def _layout(asking: Asking, rank: int) -> str:
    return f"NC{SPACE[rank]}" if asking.draws.chance(0.7) else f"N{SPACE[rank]}C"


def _groups(asking: Asking, channels: int) -> int:
    return asking.draws.pick([1, 1, 1, *(each for each in (2, channels) if channels % each == 0)])


MOST = {1: 16, 2: 8, 3: 4}
"""The largest window and step along each axis of space, by their number."""


def _padded(asking: Asking, most: int) -> int:
    """Draw a width of padding."""
    return asking.amount((0, 1), most) if most > 0 else 0


def _conv(rank: int) -> Operator:
    def solve(asking: Asking, target: Tensor) -> Call | None:
        draws, layout = asking.draws, _layout(asking, rank)
        batch, made, space = _split(layout, target)
        groups = _groups(asking, made)
        each = draws.between(1, 3)
        sizes, strides, dilation, padding, taken = [], [], [], [], []
        for count in space:
            size, step = asking.amount((1, 2, 3), MOST[rank]), asking.amount((1, 1, 2), MOST[rank])
            gap = asking.amount((1, 1, 1, 2), MOST[rank] // 2)
            length = (count - 1) * step + (size - 1) * gap + 1
            before = _padded(asking, min(length, size) - 1)
            after = _padded(asking, min(length - before, size) - 1)
            sizes.append(size)
            strides.append(step)
            dilation.append(gap)
            padding.append((before, after))
            taken.append(length - before - after + draws.below(step))
        kernel = draws.pick([f"OI{SPACE[rank]}", f"OI{SPACE[rank]}", f"{SPACE[rank]}IO", f"O{SPACE[rank]}I"])
        if groups > 1 and layout[1] != "C":
            kernel = f"{SPACE[rank]}OI" if groups == made else f"O{SPACE[rank]}I"
        told = {"strides": strides, "padding": _sides(padding), "dilation": dilation}
        source, weight = _laid(layout, taken, N=batch, C=each * groups), _laid(kernel, sizes, O=made, I=each)
        attributes = (f"Conv{rank}DAttrs", {**told, **_layouts(groups, layout, kernel)})
        return Call((Want(source), Want(weight, _SMALL)), target, attributes)

    return Operator(
        f"relax.nn.conv{rank}d", fits(rank), solve, ranks=(rank + 2,) * 2, weight=3.0 if rank == 2 else 1.5
    )


def _transposed(rank: int) -> Operator:
    def solve(asking: Asking, target: Tensor) -> Call | None:
        draws, layout = asking.draws, f"NC{SPACE[rank]}"
        batch, made, space = _split(layout, target)
        groups = _groups(asking, made)
        each = draws.between(1, 3)
        sizes, strides, more, taken, padding = [], [], [], [], []
        for count in space:
            step, size = asking.amount((1, 1, 2), MOST[rank]), asking.amount((1, 2, 3), MOST[rank])
            before, after = (draws.below(2) if size > 1 else 0 for _ in range(2))
            extra = draws.below(step)
            length, rest = divmod(count - size + before + after - extra, step)
            if rest or length < 0:
                return None
            sizes.append(size)
            strides.append(step)
            more.append(extra)
            taken.append(length + 1)
            padding.append((before, after))
        told = {
            "strides": strides,
            "padding": _sides(padding),
            "output_padding": more,
            "dilation": [1] * rank,
        }
        source = target.shaped(batch, each * groups, *taken)
        weight = target.shaped(each * groups, made // groups, *sizes)
        attributes = (f"Conv{rank}DTransposeAttrs", {**told, **_layouts(groups, layout, f"IO{SPACE[rank]}")})
        return Call((Want(source), Want(weight, _SMALL)), target, attributes)

    return Operator(f"relax.nn.conv{rank}d_transpose", fits(rank), solve, ranks=(rank + 2,) * 2)


def _pool(name: str, rank: int) -> Operator:
    def solve(asking: Asking, target: Tensor) -> Call | None:
        draws, layout = asking.draws, _layout(asking, rank)
        batch, channels, space = _split(layout, target)
        is_ceiling = draws.chance(0.25)
        sizes, strides, dilation, padding, taken = [], [], [], [], []
        for count in space:
            size, step = asking.amount((1, 2, 3), MOST[rank]), asking.amount((1, 1, 2, 3), MOST[rank])
            gap = draws.pick([1, 1, 2]) if name == "max" else 1
            reach = (size - 1) * gap + 1
            length = (count - 1) * step + reach
            before, after = (draws.between(0, min(1, size // 2)) for _ in range(2))
            inner = length - before - after
            if is_ceiling and count > 1:
                inner -= draws.below(step)
            if inner < max(1, reach - min(before, after) * 2) or (count - 1) * step >= inner + before:
                return None
            sizes.append(size)
            strides.append(step)
            dilation.append(gap)
            padding.append((before, after))
            taken.append(inner)
        told: dict[str, Json] = {
            "pool_size": sizes,
            "strides": strides,
            "dilation": dilation,
            "padding": _sides(padding),
            "ceil_mode": is_ceiling,
            "count_include_pad": name == "avg" and draws.chance(0.4),
            "layout": layout,
            "out_layout": layout,
        }
        source = _laid(layout, taken, N=batch, C=channels)
        return Call((Want(source),), target, (f"Pool{rank}DAttrs", told))

    return Operator(f"relax.nn.{name}_pool{rank}d", fits(rank), solve, ranks=(rank + 2,) * 2)


def _adaptive(rank: int) -> Operator:
    def solve(asking: Asking, target: Tensor) -> Call:
        layout = _layout(asking, rank)
        batch, channels, space = _split(layout, target)
        taken = [count + asking.amount((0, 1, 2, 3), 2 * MOST[rank]) for count in space]
        told = {"output_size": space, "layout": layout, "out_layout": layout}
        source = _laid(layout, taken, N=batch, C=channels)
        return Call((Want(source),), target, (f"AdaptivePool{rank}DAttrs", told))

    return Operator(f"relax.nn.adaptive_avg_pool{rank}d", fits(rank), solve, ranks=(rank + 2,) * 2)


def _backward(name: str) -> Operator:
    def solve(asking: Asking, target: Tensor) -> Call | None:
        draws = asking.draws
        sizes = [draws.between(1, min(3, int(dim))) for dim in target.shape[2:]]
        strides = [draws.pick([1, 2]) for _ in sizes]
        counts = [
            (int(dim) - size) // step + 1
            for dim, size, step in zip(target.shape[2:], sizes, strides, strict=True)
        ]
        told: dict[str, Json] = {
            "pool_size": sizes,
            "strides": strides,
            "dilation": [1, 1],
            "padding": [0, 0, 0, 0],
            "ceil_mode": False,
            "count_include_pad": False,
            "layout": "NCHW",
            "out_layout": "NCHW",
        }
        gradient = target.shaped(*target.shape[:2], *counts)
        return Call((Want(gradient), Want(target)), target, ("Pool2DAttrs", told))

    recognise = all_of(fits(2), is_static)
    return Operator(f"relax.grad.{name}_pool2d_backward", recognise, solve, ranks=(4, 4), weight=0.3)


def _is_number(told: Tensor) -> bool:
    return told.dtype != BOOL and not told.dtype.startswith("uint")


def _factor(target: Tensor, *dims: Dim) -> Want:
    """An operand of a product; of integers one of small values."""
    return Want(target.shaped(*dims), ANY if target.is_float else _SMALL)


def _matmul(asking: Asking, target: Tensor) -> Call:
    """Batches broadcast; of rank 1 an operand loses its dim."""
    draws, inner = asking.draws, asking.dim()
    if target.rank < 2 or draws.chance(0.1):
        wants = _factor(target, *target.shape, inner), _factor(target, inner)
        return Call(wants, target, ("MatmulAttrs", {"out_dtype": None}))
    *batch, rows, columns = target.shape
    left: list[Json] = [1 if draws.chance(0.2) else dim for dim in batch]
    right: list[Json] = [
        dim if mine == 1 and dim != 1 else (1 if draws.chance(0.2) else dim)
        for dim, mine in zip(batch, left, strict=True)
    ]
    if left == batch and draws.chance(0.4):
        right = []
    told: Json = target.dtype if draws.chance(0.2) else None
    args = _factor(target, *left, rows, inner), _factor(target, *right, inner, columns)
    return Call(args, target, ("MatmulAttrs", {"out_dtype": told}))


def _outer(asking: Asking, target: Tensor) -> Call:
    return Call(tuple(_factor(target, dim) for dim in target.shape), target)


def _einsum(asking: Asking, target: Tensor) -> Call:
    letters = "abcdef"[: target.rank]
    inner = asking.dim()
    cut = asking.draws.below(target.rank + 1)
    first, second = letters[:cut] + "z", "z" + letters[cut:]
    dims = dict(zip(letters, target.shape, strict=True)) | {"z": inner}
    told = {"subscripts": f"{first},{second}->{letters}"}
    wants = tuple(_factor(target, *(dims[each] for each in part)) for part in (first, second))
    return Call((Group(wants),), target, ("EinsumAttrs", told))


def _attention(bias: bool) -> Operator:
    def solve(asking: Asking, target: Tensor) -> Call:
        batch, rows, heads, size = target.shape
        columns, inner = asking.dim(), asking.dim()
        mask: Json = None if bias else asking.draws.pick([None, None, "TopLeft"])
        scale: Json = {"prim": ["float32", 0.5]} if asking.draws.chance(0.5) else None
        shapes = [(batch, rows, heads, inner), (batch, columns, heads, inner), (batch, columns, heads, size)]
        if bias:
            shapes.append((batch, heads, rows, columns))
        wants = tuple(Want(target.shaped(*each)) for each in shapes)
        told = {"scale": scale, "causal_mask": mask, "window_size": None}
        return Call(wants, target, ("AttentionAttrs", told))

    recognise = all_of(ranked(4, 4), of("float32"), is_filled)
    name = "relax.nn.attention_bias" if bias else "relax.nn.attention"
    return Operator(name, recognise, solve, ranks=(4, 4))


OPERATORS = (
    *(_conv(rank) for rank in SPACE),
    *(_transposed(rank) for rank in SPACE),
    *(_pool(name, rank) for name in ("max", "avg") for rank in SPACE),
    *(_adaptive(rank) for rank in SPACE),
    *(_backward(name) for name in ("max", "avg")),
    Operator("relax.matmul", _is_number, _matmul, Likely.NUMBER, ranks=(0, 4), weight=4.0),
    Operator("relax.outer", all_of(ranked(2, 2), _is_number), _outer, Likely.NUMBER, ranks=(2, 2)),
    Operator("relax.einsum", all_of(is_float, ranked(0, 5)), _einsum, ranks=(0, 3)),
    _attention(False),
    _attention(True),
)
