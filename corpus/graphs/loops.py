"""PrimFuncs of a Relax program that are told as trees of loops: `{"tir": …}` among its opaque functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from corpus.tir.tree import Function

Json: TypeAlias = Any
LOOPS = "tir"


@dataclass(frozen=True)
class PrimFunc:
    """A PrimFunc as its tree; what the document says of it is written once."""

    function: Function

    @cached_property
    def told(self) -> Json:
        """The JSON object that spells it, as the worker takes it."""
        from corpus.tir.codec import Encoder

        return {LOOPS: Encoder().function(self.function)}


def is_loops(item: Json) -> bool:
    """Whether an opaque function is told as a tree."""
    return isinstance(item, dict) and len(item) == 1 and LOOPS in item


def primfunc_of(item: Json) -> PrimFunc:
    """The PrimFunc that such an object spells; ValueError, LookupError or TypeError where it spells none."""
    from corpus.tir.codec import Decoder  # a graph without loops needs no TIR

    return PrimFunc(Decoder().function(item[LOOPS]))


def parted(outside: Mapping[str, Json]) -> tuple[dict[str, Json], dict[str, PrimFunc]]:
    """The functions of a document that are no graphs: those in a form of TVM's, and those as trees."""
    opaque = {name: item for name, item in outside.items() if not is_loops(item)}
    return opaque, {name: primfunc_of(item) for name, item in outside.items() if is_loops(item)}
