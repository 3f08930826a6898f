"""What moves, repeats or makes elements and computes none."""

from typing import Any, Mapping, Sequence  # noqa: UP035 (Python 3.8)

import numpy as np

from oracles.worker.relax_reference.rule import NotKnown, Rules, axes_of, axis_of, element, plain

Args = Sequence[Any]
Attrs = Mapping[str, Any]


def reshape(x: Any, shape: Any) -> Any:
    """A 0 copies the dim that stands there."""
    return x.reshape([x.shape[at] if size == 0 and x.size else size for at, size in enumerate(shape)])


def _permute(args: Args, attrs: Attrs) -> Any:
    (x,), axes = args, attrs["axes"]
    return np.transpose(x, None if axes is None else axes_of(axes, x.ndim))


def _expand(args: Args, attrs: Attrs) -> Any:
    return np.expand_dims(args[0], axes_of(attrs["axis"], args[0].ndim + len(attrs["axis"])))


def _squeeze(args: Args, attrs: Attrs) -> Any:
    return np.squeeze(args[0], None if attrs["axis"] is None else axes_of(attrs["axis"], args[0].ndim))


def _concat(args: Args, attrs: Attrs) -> Any:
    parts = list(args[0])
    if attrs["axis"] is None:
        return np.concatenate([each.reshape(-1) for each in parts])
    return np.concatenate(parts, attrs["axis"])


def _split(args: Args, attrs: Attrs) -> Any:
    told = attrs["indices_or_sections"]
    return tuple(
        np.split(args[0], told if isinstance(told, int) else [int(each) for each in told], attrs["axis"])
    )


def _tile(args: Args, attrs: Attrs) -> Any:
    return np.tile(args[0], attrs["repeats"])


def _repeat(args: Args, attrs: Attrs) -> Any:
    return np.repeat(args[0], attrs["repeats"], attrs["axis"])


def _reverse_sequence(args: Args, attrs: Attrs) -> Any:
    x, lengths = args
    seq, batch = axis_of(attrs["seq_axis"], x.ndim), axis_of(attrs["batch_axis"], x.ndim)
    found = np.moveaxis(x, (batch, seq), (0, 1)).copy()
    for row, length in enumerate(lengths):
        found[row, :length] = found[row, :length][::-1]
    return np.moveaxis(found, (0, 1), (batch, seq))


def _strided_slice(args: Args, attrs: Attrs) -> Any:
    x, axes, begin, end = args[:4]
    strides = args[4] if len(args) > 4 else (1,) * len(axes)
    cut = [slice(None)] * x.ndim
    for axis, first, last, step in zip(axes, begin, end, strides):  # noqa: B905 (Python 3.8)
        if step < 0:
            raise NotKnown("a slice backwards")
        cut[axis_of(int(axis), x.ndim)] = slice(int(first), int(last), int(step))
    return x[tuple(cut)]


def dynamic_strided_slice(x: Any, begin: Any, end: Any, strides: Any) -> Any:
    """Slice all axes by bounds that are tensors."""
    return _strided_slice((x, range(x.ndim), begin, end, strides), {})


def _slice_scatter(args: Args, attrs: Attrs) -> Any:
    x, source, start, end, step = args
    found = x.copy()
    cut = [slice(None)] * x.ndim
    cut[axis_of(attrs["axis"], x.ndim)] = slice(int(start), int(end), int(step))
    found[tuple(cut)] = source
    return found


def _pad(args: Args, attrs: Attrs) -> Any:
    widths = list(zip(attrs["pad_width"][::2], attrs["pad_width"][1::2]))  # noqa: B905 (Python 3.8)
    mode = attrs["pad_mode"]
    if mode == "constant":
        return np.pad(args[0], widths, constant_values=np.asarray(attrs["pad_value"]).astype(args[0].dtype))
    if mode not in ("reflect", "replicate", "circular"):
        raise NotKnown(f"padding of mode {mode}")
    names: Any = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    return np.pad(args[0], widths, mode=names[mode])


def _pixel_shuffle(args: Args, attrs: Attrs) -> Any:
    (x,), factor = args, attrs["upscale_factor"]
    *lead, channels, height, width = x.shape
    split = x.reshape(*lead, channels // factor**2, factor, factor, height, width)
    count = len(lead)
    order = [*range(count), count, count + 3, count + 1, count + 4, count + 2]
    return split.transpose(order).reshape(*lead, channels // factor**2, height * factor, width * factor)


def collapse_sum(x: Any, shape: Sequence[int]) -> Any:
    """The sum that undoes a broadcast from the shape."""
    lead = x.ndim - len(shape)
    x = x.sum(axis=tuple(range(lead)))
    ones = tuple(at for at, size in enumerate(shape) if size == 1 and x.shape[at] != 1)
    return x.sum(axis=ones, keepdims=True) if ones else x


def _meshgrid(args: Args, attrs: Attrs) -> Any:
    return tuple(np.meshgrid(*args[0], indexing=attrs["indexing"] or "ij"))


def filled(value: int) -> Any:
    """Make the rule of an operator that fills a shape with one value."""
    return lambda args, attrs: np.full(tuple(args[0]), value, element(attrs["dtype"]))


def like(value: int) -> Any:
    """Make the rule of an operator that fills the shape of a tensor with one value."""
    return lambda args, attrs: np.full(
        args[0].shape, value, element(attrs["dtype"]) if attrs["dtype"] else args[0].dtype
    )


def _full(args: Args, attrs: Attrs) -> Any:
    return np.full(tuple(args[0]), args[1], element(attrs["dtype"]) if attrs["dtype"] else args[1].dtype)


def _full_like(args: Args, attrs: Attrs) -> Any:
    return np.full(args[0].shape, args[1], element(attrs["dtype"]) if attrs["dtype"] else args[0].dtype)


def _arange(args: Args, attrs: Attrs) -> Any:
    return np.arange(args[0], args[1], args[2]).astype(element(attrs["dtype"]))


def _eye(args: Args, attrs: Attrs) -> Any:
    return np.eye(int(args[0]), int(args[1]), int(args[2]), element(attrs["dtype"]))


def _eye_like(args: Args, attrs: Attrs) -> Any:
    kind = element(attrs["dtype"]) if attrs["dtype"] else args[0].dtype
    rows, columns = args[0].shape
    return np.eye(rows, columns, int(args[1]), kind)


def _hamming_window(args: Args, attrs: Attrs) -> Any:
    size, is_periodic, alpha, beta = args
    count = size if is_periodic else size - 1
    if count == 0:
        return np.ones(int(size))
    return alpha - beta * np.cos(2 * np.pi * np.arange(size) / count)


def _one_hot(args: Args, attrs: Attrs) -> Any:
    indices, on, off = args
    kind = np.float64 if isinstance(on, float) else np.int64
    is_hot = np.asarray(indices[..., None] == np.arange(attrs["depth"]))
    found = np.asarray(np.where(is_hot, on, off)).astype(kind)
    return np.moveaxis(found, -1, attrs["axis"])


def _rank(x: Any) -> Any:
    return np.asarray(x.ndim, np.int32)


def same(x: Any) -> Any:
    """The operand: a change of layout or device changes no value."""
    return x


RULES: Rules = {
    "relax.arange": _arange,
    "relax.broadcast_to": plain(lambda x, shape: np.broadcast_to(x, tuple(shape))),
    "relax.collapse_sum_like": plain(lambda x, target: collapse_sum(x, target.shape)),
    "relax.collapse_sum_to": plain(lambda x, shape: collapse_sum(x, tuple(shape))),
    "relax.concat": _concat,
    "relax.dynamic_strided_slice": plain(dynamic_strided_slice),
    "relax.expand_dims": _expand,
    "relax.eye": _eye,
    "relax.eye_like": _eye_like,
    "relax.flatten": plain(lambda x: x.reshape(-1)),
    "relax.flip": lambda args, attrs: np.flip(args[0], attrs["axis"]),
    "relax.full": _full,
    "relax.full_like": _full_like,
    "relax.grad.end_checkpoint": plain(same),
    "relax.grad.no_grad": plain(same),
    "relax.grad.start_checkpoint": plain(same),
    "relax.hamming_window": _hamming_window,
    "relax.inspect.tensor_ndim": plain(_rank),
    "relax.inspect.tensor_shape_i": plain(lambda x, axis: np.asarray(x.shape[int(axis)], np.int64)),
    "relax.memory.ensure_zero_offset": plain(same),
    "relax.builtin.stop_lift_params": plain(same),
    "relax.meshgrid": _meshgrid,
    "relax.nn.batch_flatten": plain(lambda x: x.reshape(x.shape[0], -1)),
    "relax.nn.pad": _pad,
    "relax.nn.pixel_shuffle": _pixel_shuffle,
    "relax.one_hot": _one_hot,
    "relax.ones": filled(1),
    "relax.ones_like": like(1),
    "relax.permute_dims": _permute,
    "relax.repeat": _repeat,
    "relax.reshape": plain(reshape),
    "relax.reverse_sequence": _reverse_sequence,
    "relax.shape_of": plain(lambda x: tuple(x.shape)),
    "relax.shape_to_tensor": plain(lambda shape: np.asarray(shape, np.int64)),
    "relax.size": plain(lambda x: np.asarray(x.size, np.int64)),
    "relax.slice_scatter": _slice_scatter,
    "relax.split": _split,
    "relax.squeeze": _squeeze,
    "relax.stack": lambda args, attrs: np.stack(list(args[0]), attrs["axis"] or 0),
    "relax.strided_slice": _strided_slice,
    "relax.tensor_to_shape": plain(lambda x: tuple(int(each) for each in x)),
    "relax.tile": _tile,
    "relax.tril": plain(lambda x, k: np.tril(x, int(k))),
    "relax.triu": plain(lambda x, k: np.triu(x, int(k))),
    "relax.zeros": filled(0),
    "relax.zeros_like": like(0),
}
