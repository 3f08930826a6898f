"""What a block says that it reads and writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from corpus.tir.tree import Body, Store
from corpus.tir.values import Buffer, Const, Load, Range, Region
from corpus.tir.walk import walk

Regions = tuple[Region, ...]


def whole(buffer: Buffer) -> Region:
    """Return the region that is all of a buffer."""
    return Region(buffer.name, tuple(Range(Const(0), dim) for dim in buffer.shape))


def accessed(body: Body, known: Mapping[str, Buffer]) -> tuple[Regions, Regions]:
    """Return the buffers among the known ones that a body reads and those that it writes, each as a whole."""
    reads = (item.buffer for item in walk(body) if isinstance(item, Load))
    writes = (item.buffer for item in walk(body) if isinstance(item, Store))
    return _wholes(reads, known), _wholes(writes, known)


def _wholes(names: Iterable[str], known: Mapping[str, Buffer]) -> Regions:
    return tuple(whole(known[name]) for name in dict.fromkeys(names) if name in known)
