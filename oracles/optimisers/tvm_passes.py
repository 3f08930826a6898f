"""TVM's passes in a run's log: which changed the program, and how one is left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Set

from oracles.abilities import Passes, Telling
from oracles.in_worker.tvm.passes import AT_WILL, LLVM, OPTIONAL
from oracles.run import Config, Run

DISABLED_BY = '`tvm.transform.PassContext(disabled_pass=["{}"])`'

BEGINS, CHANGED = "crux: pass begins ", "crux: pass changed "
REPLACED = "crux: pass replaced "
UNNAMED = re.compile(r"_?\w*_?pipeline|sequential|tirx\.Filter|tirx\.BindTarget")
"""What runs other passes, or tells functions apart."""


def fired(run: Run) -> tuple[str, ...]:
    """Return the passes that changed the module, the code generator's included, and where the run died."""
    begun = [line.removeprefix(BEGINS) for line in run.log if line.startswith(BEGINS)]
    changed = [line.removeprefix(CHANGED) for line in run.log if line.startswith(CHANGED)]
    died_in = begun[-1:] if run.phase in ("optimise", "codegen") and not run.is_ok else []
    return tuple(dict.fromkeys(name for name in [*changed, *died_in] if not UNNAMED.fullmatch(name)))


def suspects(run: Run) -> tuple[str, ...]:
    """List the passes that fired and that a build can do without, and LLVM's."""
    known = frozenset(optimizers(run))
    return tuple(name for name in (*fired(run), LLVM) if name in known)


def told_with(name: str) -> tuple[str, ...]:
    """Return no pass: the watch tells of each pass by itself."""
    return ()


def has_fired(run: Run, name: str) -> bool:
    """Return whether a pass changed the program."""
    return name in fired(run)


def optimizers(run: Run) -> tuple[str, ...]:
    """List the passes that ran and can be left out, and LLVM's optimisations if they are on."""
    ran = [line.removeprefix(BEGINS) for line in run.log if line.startswith(BEGINS)]
    names = [name for name in ran if name in OPTIONAL or name in AT_WILL]
    level = [LLVM] if run.config.get("opt-level") else []
    return tuple(dict.fromkeys([*names, *level]))


def replaced(run: Run, name: str) -> str:
    """What a pass took away and put in, each time that it changed the program."""
    head = f"{REPLACED}{name}: "
    return " ".join(line.removeprefix(head) for line in run.log if line.startswith(head))


def likely(names: Iterable[str], operators: Set[str]) -> tuple[str, ...]:
    """Return all of them: no pass starts at one operator."""
    return tuple(names)


def without(config: Config, disabled: Iterable[str]) -> Config:
    """The configuration with these passes disabled, in the case's own sequence and in every pipeline."""
    return config.adding("disabled_passes", disabled)


DISABLING = Passes(
    DISABLED_BY,
    fired,
    suspects,
    optimizers,
    likely,
    without,
    replaced=replaced,
    telling=Telling(may_have_fired=fired, told_with=told_with, has_fired=has_fired),
)
