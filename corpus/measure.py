"""How large a program is, in the units that reductions are reported in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measure:
    """`nodes` and `ops` are those of the main graph and its nested bodies, function bodies apart.

    `ops` is in walking order, one entry a node; an operator outside the standard domain is `domain:Op`.
    `bytes` is the program without external data, `initializer_bytes` all weights, external ones included.
    """

    nodes: int
    function_nodes: int
    bytes: int
    initializer_bytes: int
    inputs: int
    outputs: int
    ops: tuple[str, ...]
