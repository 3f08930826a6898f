"""Sequences of TVM's passes: their names, the orders that hold, the expressions that make them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from oracles.abilities import Sequences
from oracles.language import language_of
from oracles.worker.tvm import passes as tvm_passes
from oracles.worker.tvm.options import OPTIONS, config_of, is_option

LOOP_PASSES = ("tirx.", "s_tir.")
"""How the names of passes over PrimFuncs begin, and of the options of their context."""

SEQUENCEABLE = tuple(name for name in tvm_passes.PASSES if name not in tvm_passes.UNDRAWN)


def code_of_least() -> tuple[str, ...]:
    """Return the expressions that make the passes of the pipeline `least`."""
    return tuple(f"tvm.{code}" for code in tvm_passes.LEAST)


def facts_of(format: str, program: bytes) -> frozenset[str]:
    """What holds of a program at the start: it has operators, where its language says nothing else."""
    facts = language_of(format).facts
    return tvm_passes.START if facts is None else facts(program)


def sequences_on_loops(facts: frozenset[str]) -> Sequences:
    """Return the sequences of passes for modules of PrimFuncs of which these facts hold."""
    all_of_them = sequences()
    names = tuple(name for name in all_of_them.names if name.startswith(LOOP_PASSES))
    fitting = partial(tvm_passes.repaired, facts=facts)
    return replace(all_of_them, names=names, seldom=tvm_passes.IDLE_ON_LOOPS, repaired=fitting)


def misplaced(names: Iterable[str], facts: frozenset[str] = tvm_passes.START) -> str:
    """Say why these passes cannot stand in this order; without a Relax function only passes of loops can."""
    names = tuple(names)
    others = [name for name in names if not name.startswith(LOOP_PASSES)]
    options = [name for name in names if is_option(name)]
    if options and "operators" in facts:
        return f"{options[0]} is an option for modules of PrimFuncs alone"
    if others and "operators" not in facts:
        return f"{others[0]} works on Relax functions, and there is none"
    return tvm_passes.misplaced(names, facts)


def code_of(names: Iterable[str]) -> tuple[str, ...]:
    """Return the expressions that make these passes; options among them are none."""
    return tuple(tvm_passes.PASSES[name].code for name in names if not is_option(name))


def options_of(names: Iterable[str]) -> dict[str, Any]:
    """Return the configuration of the pass context that the options among these make."""
    return config_of(names)


def sequences() -> Sequences:
    """Return what sequences of passes are made of, and which orders there are."""
    return Sequences(
        SEQUENCEABLE,
        (*tvm_passes.ASKED_ABOUT, *sorted(tvm_passes.UNDRAWN)),
        tvm_passes.SELDOM,
        facts_of,
        misplaced,
        tvm_passes.repaired,
        sequences_on_loops,
        OPTIONS,
    )
