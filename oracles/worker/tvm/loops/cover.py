"""What passes met: for each that changed a function, the kinds of nodes before and after it.

That is the coverage that a stock wheel can tell (Tzer, section 3.1, counts edges of an instrumented build).
"""

from __future__ import annotations

import re
from typing import Any, Iterable  # noqa: UP035 (Python 3.8)

import tvm
import tvm_ffi
from tvm import ir, tirx

UNNAMED = re.compile(r"_?\w*_?pipeline|sequential|tirx\.Filter|tirx\.BindTarget")
"""What runs other passes, or tells functions apart."""

LOOPS = ("serial", "parallel", "vectorized", "unrolled", "thread")


@tvm.ir.instrument.pass_instrument
class Cover:
    """Notes pieces such as `tirx.UnrollLoop<For unrolled`, of what was before, and `>` of what is after."""

    def __init__(self, pieces: set[str]) -> None:
        self.pieces = pieces
        self.open: list[dict[str, Any]] = []
        self.known: dict[int, frozenset[str]] = {}

    def run_before_pass(self, module: Any, info: Any) -> None:
        """Remember what the pass is given."""
        self.open.append(functions_of(module))

    def run_after_pass(self, module: Any, info: Any) -> None:
        """Note what it changed."""
        before, name = self.open.pop(), str(info.name)
        if not UNNAMED.fullmatch(name):
            self.pieces.update(pieces_of(name, before, functions_of(module), self.known))


def functions_of(module: Any) -> dict[str, Any]:
    """Return the PrimFuncs of a module by name."""
    return {var.name_hint: each for var, each in module.functions.items() if isinstance(each, tirx.PrimFunc)}


def pieces_of(
    name: str, before: dict[str, Any], after: dict[str, Any], known: dict[int, frozenset[str]]
) -> Iterable[str]:
    """Yield the coverage of a pass from its change; `known` keeps the kinds of a function by its hash."""
    for key, function in after.items():
        old = before.get(key)
        if old is None or old.same_as(function):
            continue
        digests = tvm_ffi.structural_hash(old), tvm_ffi.structural_hash(function)
        if digests[0] == digests[1]:
            continue
        for sign, digest, each in (("<", digests[0], old), (">", digests[1], function)):
            if digest not in known:
                known[digest] = kinds_in(each)
            yield from (f"{name}{sign}{kind}" for kind in known[digest])


def kinds_in(function: Any) -> frozenset[str]:
    """The kinds of nodes in a function: loops by their kind, calls by what they call, casts by the type."""
    found: set[str] = set()

    def visit(node: Any) -> None:
        kind = type(node)
        if kind is tirx.For:
            found.add(f"For {LOOPS[int(node.kind)]}")
        elif kind is ir.Call:
            found.add(f"Call {getattr(node.op, 'name', 'function')}")
        elif kind is tirx.Cast:
            found.add(f"Cast {node.ty.dtype}")
        else:
            found.add(kind.__name__)

    tvm_ffi.structural_walk(function.body, [(ir.Expr, visit), (tirx.Stmt, visit)])
    return frozenset(found)
