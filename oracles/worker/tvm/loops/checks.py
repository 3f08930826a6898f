"""Passes over PrimFuncs watched closely: none may change what it is given, or break it, or fail on its own.

They are oracles of Tzer (section 3.4 and the root causes of 5.5): a module is immutable to a pass,
what a pass leaves is well-formed, and what it has done once it can do again.
"""

from __future__ import annotations

import re
from typing import Any

import tvm_ffi
from tvm import s_tir, tirx

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
    """Return the last line of TVM's complaint about an ill-formed PrimFunc; empty if it is well-formed."""
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
