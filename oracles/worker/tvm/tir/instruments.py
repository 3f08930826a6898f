"""Passes over PrimFuncs under watch: what each may not do, and which kinds of nodes it met.

The checks are oracles of Tzer (section 3.4 and the root causes of 5.5): a module is immutable to a pass,
what a pass leaves is well-formed, and what it has done once it can do again. The coverage is what a stock
wheel can tell (Tzer, section 3.1, counts edges of an instrumented build).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import (
    Any,
)

import tvm
import tvm_ffi
from tvm import ir, s_tir, tirx

from oracles.worker.tvm.options import is_option
from oracles.worker.tvm.passes import PASSES
from oracles.worker.tvm.watch import IllFormed


class InputChanged(Exception):
    """A pass has changed the module that it was given."""


class NotAgain(Exception):
    """A pass fails on what it has made itself."""


def checked_passes(module: Any, settings: dict[str, Any]) -> Any:
    """The module after the case's own sequence; raises at the first pass that does one of the three."""
    was_sound = not flaw(module)
    for name in settings.get("passes") or ():
        if is_option(name) or name in (settings.get("disabled_passes") or ()):
            continue
        before = tvm_ffi.structural_hash(module)
        after = PASSES[name].build()(module)
        if tvm_ffi.structural_hash(module) != before:
            raise InputChanged(f"{name} changes the module that it is given")
        if was_sound and (why := flaw(after)):
            raise IllFormed(f"the module is ill-formed after {name}: {why}")
        _must_run_again(name, after, was_sound)
        module = after
    return module


def _must_run_again(name: str, module: Any, was_sound: bool) -> None:
    """A pass whose own result does not bar it runs on that as well, and leaves it well-formed."""
    wanted = PASSES[name]
    if wanted.gives & wanted.bars or wanted.takes & wanted.needs:
        return
    try:
        twice = PASSES[name].build()(module)
    except Exception as error:
        raise NotAgain(f"{name} fails on what it has made: {str(error).strip()[-300:]}") from error
    if was_sound and (why := flaw(twice)):
        raise IllFormed(f"the module is ill-formed after {name} a second time: {why}")


def flaw(module: Any) -> str:
    """The last line of TVM's complaint about an ill-formed PrimFunc; empty if it is well-formed."""
    for function in module.functions.values():
        if not isinstance(function, tirx.PrimFunc):
            continue
        try:
            s_tir.analysis.verify_well_formed(function, True)
        except Exception as error:
            why = str(error).strip().split("\n")[-1]
            if not ALLOWED.search(str(error)):
                return why
    return ""


ALLOWED = re.compile(r"\.node\.?\s*$|multiple definitions of variable")
"""What TVM's check refuses and its passes take: a variable outside of its scope as an attribute's node, which
is a key and not read, and one that is defined twice, which `ConvertSSA` mends where it matters.
"""


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
    """The PrimFuncs of a module by name."""
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
