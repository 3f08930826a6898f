"""Products and windows: matmul, einsum, attention, convolutions, pools."""

import math
from itertools import product
from typing import Any, Sequence  # noqa: UP035 (Python 3.8)

import numpy as np

from oracles.worker.relax_reference.reductions import softmax
from oracles.worker.relax_reference.rule import Args, Attrs, NotKnown, Rules, element, plain


def _matmul(args: Args, attrs: Attrs) -> Any:
    x, y = args
    kind = element(attrs["out_dtype"]) if attrs["out_dtype"] else x.dtype
    return np.matmul(x.astype(kind), y.astype(kind))


def attention(args: Args, attrs: Attrs) -> Any:
    """Compute attention; the operands have dims (batch, sequence, heads, size)."""
    query, key, value = (np.moveaxis(each, 2, 1) for each in args[:3])
    scale = 1.0 / math.sqrt(query.shape[-1]) if attrs["scale"] is None else attrs["scale"]
    scores = np.matmul(query, np.swapaxes(key, -1, -2)) * scale
    if len(args) > 3:
        scores = scores + args[3]
    if attrs["window_size"] is not None:
        raise NotKnown("attention within a window")
    rows, columns = scores.shape[-2:]
    if attrs["causal_mask"] is not None:
        shift = columns - rows if attrs["causal_mask"] == "BottomRight" else 0
        scores = np.where(np.tri(rows, columns, shift, bool), scores, -np.inf)
    return np.moveaxis(np.matmul(softmax([scores], {"axis": -1}), value), 1, 2)


def to_layout(x: Any, given: str, wanted: str) -> Any:
    """The tensor with its axes in another order; only layouts of one letter an axis."""
    if sorted(given) != sorted(wanted) or not given.isalpha() or not given.isupper():
        raise NotKnown(f"a layout {given}")
    return np.transpose(x, [given.index(letter) for letter in wanted])


PLAIN = {1: "W", 2: "HW", 3: "DHW"}


def sides_of(padding: Sequence[int], rank: int) -> list[int]:
    """All begins and then all ends, of one number for all, one an axis, or both already."""
    if len(padding) == 2 * rank:
        return list(padding)
    return list(padding) * (2 * rank if len(padding) == 1 else 2)


def padded(x: Any, padding: Sequence[int], value: float) -> Any:
    """Space of the last axes; one number an axis, or all begins and then all ends."""
    rank = x.ndim - 2
    sides = sides_of(padding, rank)
    widths = [(0, 0), (0, 0), *((sides[at], sides[at + rank]) for at in range(rank))]
    return np.pad(x, widths, constant_values=value) if any(sides) else x


def windows(x: Any, sizes: Sequence[int], strides: Sequence[int], dilation: Sequence[int]) -> Any:
    """Every window over the axes of space: batch, channel, where it lies, and the places within it."""
    reach = [(size - 1) * gap + 1 for size, gap in zip(sizes, dilation)]  # noqa: B905 (Python 3.8)
    if any(wide > size for wide, size in zip(reach, x.shape[2:])):  # noqa: B905 (Python 3.8)
        raise NotKnown("a window that is wider than the tensor")
    found: Any = np.lib.stride_tricks.sliding_window_view(x, reach, tuple(range(2, x.ndim)))
    return found[(..., *(slice(None, None, step) for step in (*strides, *dilation)))]


def _convolution(args: Args, attrs: Attrs) -> Any:
    x, weight = args
    rank = x.ndim - 2
    space = PLAIN[rank]
    kind = element(attrs["out_dtype"]) if attrs["out_dtype"] else x.dtype
    x = to_layout(x, attrs["data_layout"], f"NC{space}").astype(kind)
    weight = to_layout(weight, attrs["kernel_layout"], f"OI{space}").astype(kind)
    x = padded(x, attrs["padding"], 0)
    groups, made = attrs["groups"], weight.shape[0]
    found = windows(x, weight.shape[2:], attrs["strides"], attrs["dilation"])
    split = found.reshape(x.shape[0], groups, -1, *found.shape[2:])
    grouped = weight.reshape(groups, made // groups, *weight.shape[1:])
    places, within = "abc"[:rank], "xyz"[:rank]
    result = np.einsum(f"ngi{places}{within},goi{within}->ngo{places}", split, grouped)
    result = result.reshape(x.shape[0], made, *found.shape[2 : 2 + rank])
    return to_layout(result, f"NC{space}", attrs["out_layout"] or attrs["data_layout"])


def transposed(args: Args, attrs: Attrs) -> Any:
    """Each element spreads its kernel over the result."""
    x, weight = args
    rank = x.ndim - 2
    space = PLAIN[rank]
    x = to_layout(x, attrs["data_layout"], f"NC{space}")
    weight = to_layout(weight, attrs["kernel_layout"], f"IO{space}")
    strides, dilation, groups = attrs["strides"], attrs["dilation"], attrs["groups"]
    sides = sides_of(attrs["padding"], rank)
    sizes, counts = weight.shape[2:], x.shape[2:]
    whole = [
        (count - 1) * step + (size - 1) * gap + 1 + more
        for count, step, size, gap, more in zip(counts, strides, sizes, dilation, attrs["output_padding"])  # noqa: B905
    ]
    batch, made = x.shape[0], weight.shape[1] * groups
    found = np.zeros((batch, made, *whole), x.dtype)
    split = x.reshape(batch, groups, -1, *counts)
    grouped = weight.reshape(groups, -1, *weight.shape[1:])
    for at in product(*map(range, sizes)):
        cut = tuple(
            slice(place * gap, place * gap + (count - 1) * step + 1, step)
            for place, gap, step, count in zip(at, dilation, strides, counts)  # noqa: B905
        )
        part = np.einsum("ngi...,gio->ngo...", split, grouped[(slice(None),) * 3 + at])
        found[(slice(None), slice(None), *cut)] += part.reshape(batch, made, *counts)
    kept = tuple(slice(sides[at], whole[at] - sides[at + rank]) for at in range(rank))
    found = found[(slice(None), slice(None), *kept)]
    return to_layout(found, f"NC{space}", attrs["out_layout"] or attrs["data_layout"])


def _pooled(x: Any, attrs: Attrs, fill: float) -> Any:
    """Every window of a pool; with `ceil_mode` the last ones reach beyond the padding."""
    rank = x.ndim - 2
    sides = sides_of(attrs["padding"], rank)
    told = attrs["pool_size"], attrs["strides"], attrs["dilation"]
    for at, (size, step, gap) in enumerate(zip(*told)):  # noqa: B905 (Python 3.8)
        room = x.shape[2 + at] + sides[at] + sides[at + rank] - (size - 1) * gap - 1
        sides[at + rank] += -room % step if attrs["ceil_mode"] else 0
    return windows(padded(x, sides, fill), *told)


def _max_pool(args: Args, attrs: Attrs) -> Any:
    x = to_layout(args[0], attrs["layout"], f"NC{PLAIN[args[0].ndim - 2]}")
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    found = _pooled(x, attrs, lowest).max(axis=tuple(range(x.ndim, 2 * x.ndim - 2)))
    return to_layout(found, f"NC{PLAIN[x.ndim - 2]}", attrs["out_layout"] or attrs["layout"])


def avg_pool(args: Args, attrs: Attrs) -> Any:
    """Return Relax's average poolings of these operands."""
    x = to_layout(args[0], attrs["layout"], f"NC{PLAIN[args[0].ndim - 2]}")
    if attrs["ceil_mode"] and attrs["count_include_pad"]:
        raise NotKnown("an average of windows that reach beyond the padding")
    within = tuple(range(x.ndim, 2 * x.ndim - 2))
    count: Any = math.prod(attrs["pool_size"])
    if not attrs["count_include_pad"]:
        count = np.maximum(_pooled(np.ones_like(x), attrs, 0).sum(axis=within), 1)
    found = _pooled(x, attrs, 0).sum(axis=within) / count
    return to_layout(found, f"NC{PLAIN[x.ndim - 2]}", attrs["out_layout"] or attrs["layout"])


def adaptive(args: Args, attrs: Attrs) -> Any:
    """Windows from floor(i * in / out) to ceil((i + 1) * in / out)."""
    space = PLAIN[args[0].ndim - 2]
    x = to_layout(args[0], attrs["layout"], f"NC{space}")
    wanted = attrs["output_size"] or x.shape[2:]
    for axis, count in enumerate(wanted, 2):
        size = x.shape[axis]
        parts = [
            np.take(x, range(at * size // count, -(-(at + 1) * size // count)), axis).mean(
                axis=axis, keepdims=True
            )
            for at in range(count)
        ]
        x = np.concatenate(parts, axis)
    return to_layout(x, f"NC{space}", attrs["out_layout"] or attrs["layout"])


RULES: Rules = {
    "relax.einsum": lambda args, attrs: np.einsum(attrs["subscripts"], *args[0]),
    "relax.matmul": _matmul,
    "relax.nn.attention": attention,
    "relax.nn.attention_bias": attention,
    "relax.outer": plain(np.outer),
}
for _rank in (1, 2, 3):
    RULES[f"relax.nn.adaptive_avg_pool{_rank}d"] = adaptive
    RULES[f"relax.nn.avg_pool{_rank}d"] = avg_pool
    RULES[f"relax.nn.conv{_rank}d"] = _convolution
    RULES[f"relax.nn.conv{_rank}d_transpose"] = transposed
    RULES[f"relax.nn.max_pool{_rank}d"] = _max_pool
