"""What "smaller" means: one total order over subjects."""

from collections.abc import Iterable

import numpy as np

from corpus.values import Tensor
from reducer.subject.base import Size, Subject, real_parts


def size(subject: Subject) -> Size:
    """The subject's place in the total order, smallest first.

    A person reads nodes, so fewer nodes come first, those of bodies and functions included; of two with as
    many nodes the one with fewer bodies, weights in bodies and functions to look into; then the one with
    plainer operators. Then what the nodes still carry: elements that flow in, tensors in and out, axes,
    element types other than the plain ones, attributes, how plain the values are, the case's own passes,
    names that are not ours, how new the operator sets are, and at last bytes. A tie is not smaller. Of
    programs of loops a statement counts as a node.
    """
    return subject.size


PLAIN = frozenset({"float32", "int32", "bool"})
"""Element types that need no explanation."""

MANY = 4096
"""Nobody reads the values of a tensor with more elements."""


def strange_types(arrays: Iterable[Tensor]) -> int:
    """Count the tensors whose element type is not plain."""
    return sum(str(array.dtype) not in PLAIN for array in arrays)


def elements(value: object) -> int:
    """The elements of a value; a sequence counts one more for each member."""
    if isinstance(value, list):
        return sum(elements(member) for member in value) + len(value)
    return int(getattr(value, "size", 0))


def complexity(array: Tensor) -> int:
    """Estimate how hard the values are to read: 0 costs nothing, 1 a little, a large integer more.

    NaN and infinity count as a small integer, a text by its first four letters.
    """
    if not array.size:
        return 0
    if array.size > MANY:
        return 4 * int(array.size)
    if array.dtype.kind in "USO":
        return sum(min(len(text), 4) for text in array.flat) + len(set(array.flat))
    wide = real_parts(array).astype(np.float64)
    is_whole = wide == np.round(wide)
    is_small = (np.abs(wide) < 10) & is_whole | ~np.isfinite(wide)
    is_zero = (wide == 0) & ~np.signbit(wide)
    costs = np.where(is_zero, 0, np.where(wide == 1, 1, np.where(is_small, 2, np.where(is_whole, 3, 4))))
    return int(costs.sum()) + _count_distinct(wide)


def _count_distinct(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> int:
    """Count distinct values as `len(np.unique(values))` does, without the slow import of `numpy.ma`."""
    rest = np.sort(values[~np.isnan(values)])
    return int((rest[1:] != rest[:-1]).sum()) + bool(rest.size) + (rest.size < values.size)
