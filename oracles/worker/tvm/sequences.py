"""What a sequence of TVM's passes may hold, by name: passes, steps of a schedule, options of the context.

`s_tir.schedule.split:block0:1:4` splits the second loop of a block by 4: a step holds a primitive of TVM's
`Schedule`, then what it is called with: blocks by name, loops by their place around a block, numbers.

`tirx.UnrollLoop.auto_max_step=16` is an option. It holds for the whole compilation, wherever it stands. Names
are those of the context's configuration; after the last dot comes a field where the option has fields.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, Iterator, Optional, Tuple  # noqa: UP035 (Python 3.8)

OPTIONS: Dict[str, Tuple[int, ...]] = {  # noqa: UP006 (Python 3.8)
    "tirx.UnrollLoop.auto_max_step": (0, 4, 16, 64),
    "tirx.UnrollLoop.auto_max_depth": (0, 1, 8),
    "tirx.UnrollLoop.auto_max_extent": (0, 2, 8),
    "tirx.UnrollLoop.explicit_unroll": (0, 1),
    "tirx.UnrollLoop.unroll_local_access": (1,),
    "tirx.RemoveNoOp.max_simplification_steps": (0,),
    "tirx.StmtSimplify.transitively_prove_inequalities": (1,),
    "tirx.StmtSimplify.convert_boolean_to_and_of_ors": (1,),
    "tirx.StmtSimplify.apply_constraints_to_boolean_branches": (1,),
    "s_tir.LoopPartition.partition_const_loop": (1,),
    "s_tir.LoopPartition.no_unroll_loop_with_extent_one": (1,),
    "s_tir.LoopPartition.unroll_loop_with_partition_hint_no_interval": (1,),
    "s_tir.HoistIfThenElse.support_block_scope_hoisting": (1,),
    "s_tir.HoistExpression.hoisted_conditionals": (0, 1, 7, 31),
    "s_tir.HoistExpression.hoisted_let_bindings": (0, 1, 7),
    "s_tir.InjectDoubleBuffer.split_loop": (1, 2),
    "tirx.disable_vectorize": (1,),
    "tirx.disable_storage_rewrite": (1,),
    "tirx.disable_cse_tir": (1,),
    "tirx.debug_keep_trivial_loop": (1,),
    "tirx.instrument_bound_checkers": (1,),
    "tirx.enable_buffer_level_predication": (1,),
    "tirx.noalias": (0,),
    "tirx.disable_assert": (1,),
    "tirx.merge_static_smem": (1,),
}
"""The values that each is drawn from; those that change results, or throw, by design are left out."""

_NUMBERS = ("auto_max", "max_simplification", "hoisted_", "split_loop")


def is_option(name: str) -> bool:
    """Whether a member of a sequence is an option and no pass."""
    return "=" in name


def complaint(name: str) -> str:
    """Say why there is no such option; empty if there is one."""
    key, _, value = name.partition("=")
    if key not in OPTIONS:
        return f"there is no option {key}"
    return "" if value.isdigit() and len(value) < 8 else f"option {key} takes a number, not {value!r}"


def config_of(names: Iterable[str]) -> dict[str, Any]:
    """The configuration of a pass context that the options among these make; the last of a name counts."""
    found: dict[str, Any] = {}
    for name in filter(is_option, names):
        key, _, value = name.partition("=")
        group, _, field = key.rpartition(".")
        number: int | bool = int(value) if field.startswith(_NUMBERS) else value != "0"
        if group in ("tirx", "s_tir"):
            found[key] = number
        else:
            found.setdefault(group, {})[field] = number
    return found


PREFIX = "s_tir.schedule."
_NAME = re.compile(r"s_tir\.schedule\.(\w+)((?::\w{1,40})+)")

Argument = Tuple[str, Callable[[Any], Any]]  # noqa: UP006
"""The text of an argument, and its value for a schedule `s`."""


def _block(words: Iterator[str]) -> Argument:
    name = next(words)
    if not name.isidentifier():
        raise ValueError(name)
    return repr(name), lambda s: name


def _number(words: Iterator[str]) -> Argument:
    number = int(next(words))
    return str(number), lambda s: number


def _loop(words: Iterator[str]) -> Argument:
    (text, block), (place, number) = _block(words), _number(words)
    return f"s.get_loops({text})[{place}]", lambda s: s.get_loops(block(s))[number(s)]


def _next_loop(words: Iterator[str]) -> Argument:
    """The loop inside the one that follows; its words are not used up."""
    (text, block), (_, number) = _block(words), _number(words)
    place = number(None) + 1
    return f"s.get_loops({text})[{place}]", lambda s: s.get_loops(block(s))[place]


def _factors(words: Iterator[str]) -> Argument:
    text, number = _number(words)
    return f"[None, {text}]", lambda s: [None, number(s)]


def _just(value: Any) -> Callable[[Iterator[str]], Argument]:
    return lambda words: (repr(value), lambda s: value)


def _turned(words: Iterator[str]) -> Argument:
    return "lambda *i: i[::-1]", lambda s: lambda *i: i[::-1]


def _swapped(words: Iterator[str]) -> Argument:
    return "lambda i, j: (j, i)", lambda s: lambda i, j: (j, i)


_GLOBAL, _FIRST, _READ, _WRITTEN = map(_just, ("global", 0, ("read", 0), ("write", 0)))
PRIMITIVES: dict[str, tuple[Callable[[Iterator[str]], Argument], ...]] = {
    "split": (_loop, _factors),
    "loop_partition": (_loop, _factors),
    "fuse": (_loop, _next_loop),
    "reorder": (_next_loop, _loop),
    "parallel": (_loop,),
    "vectorize": (_loop,),
    "unroll": (_loop,),
    "add_unit_loop": (_loop,),
    "cache_read": (_block, _number, _GLOBAL),
    "cache_write": (_block, _FIRST, _GLOBAL),
    "compute_at": (_block, _loop),
    "reverse_compute_at": (_block, _loop),
    "compute_inline": (_block,),
    "reverse_compute_inline": (_block,),
    "rfactor": (_loop, _number),
    "decompose_reduction": (_block, _loop),
    "decompose_padding": (_block, _loop),
    "blockize": (_loop,),
    "reindex": (_block, _READ),
    "transform_layout": (_block, _WRITTEN, _turned),
    "transform_block_layout": (_block, _swapped),
    "storage_align": (_block, _FIRST, _FIRST, _number, _number),
    "rolling_buffer": (_block, _FIRST),
}
"""What each primitive takes."""

_SHARED = {"fuse", "reorder"}
"""Those of two loops, the outer one named."""


def step_of(name: str) -> Optional[tuple[str, Callable[[Any], Any]]]:  # noqa: UP045
    """The text of a step's call on a schedule `s`, and the call; None for a name that is no step's."""
    found = _NAME.fullmatch(name)
    kinds = PRIMITIVES.get(found[1]) if found else None
    if found is None or kinds is None:
        return None
    words = found[2][1:].split(":")
    try:
        rest = iter(words)
        arguments = [kind(iter(words) if found[1] in _SHARED else rest) for kind in kinds]
    except (ValueError, StopIteration):
        return None
    if found[1] not in _SHARED and next(rest, None) is not None:
        return None
    primitive = found[1]
    text = f"s.{primitive}({', '.join(each for each, _ in arguments)})"
    return text, lambda s: getattr(s, primitive)(*(value(s) for _, value in arguments))


def code_of_step(name: str) -> str:
    """The expression that makes a pass of a step."""
    step = step_of(name)
    assert step is not None
    made = f"(lambda s: ({step[0]}, s.mod)[1])(tvm.s_tir.Schedule(module))"
    return f"tvm.transform.module_pass(lambda module, context: {made}, opt_level=0, name={name!r})"


def _parameters(module: Any) -> list[int]:
    import tvm_ffi

    types = (each.ty for _, function in module.functions.items() for each in function.params)
    return [tvm_ffi.structural_hash(each) for each in types]


def _is_schedulable(stmt: Any, extents: dict[str, int]) -> bool:
    """Whether all is done in blocks that run through their domains: schedules see and keep nothing else."""
    kind = type(stmt).__name__
    if kind == "For":
        return _is_schedulable(stmt.body, {**extents, stmt.loop_var.name: _size(stmt.extent)})
    if kind == "SeqStmt":
        return all(_is_schedulable(each, extents) for each in stmt.seq)
    if kind != "SBlockRealize":
        return False
    if not stmt.block.iter_vars:
        return _is_schedulable(stmt.block.body, extents)
    found = zip(stmt.iter_values, stmt.block.iter_vars, strict=True)
    return all(_runs_through(value, _size(var.dom.extent), extents) for value, var in found)


def _size(expr: Any) -> int:
    return int(getattr(expr, "value", -1))


def _runs_through(value: Any, extent: int, extents: dict[str, int]) -> bool:
    """Whether a literal is of one round, and a loop's variable of as many as the axis has."""
    if hasattr(value, "value"):
        return extent == 1
    return extents.get(getattr(value, "name", ""), extent) == extent


def built_step(name: str) -> Any:
    """A step as a pass, in the worker; what TVM refuses, or what changes parameters, leaves the module."""
    import tvm
    from tvm.s_tir.schedule.schedule import ScheduleError

    step = step_of(name)
    assert step is not None

    def change(module: Any, context: Any) -> Any:
        if not all(_is_schedulable(each.body, {}) for each in module.functions.values()):
            return module
        schedule = tvm.s_tir.Schedule(module)
        names = [var.name_hint for var in module.functions]
        if "main" not in names:  # where TVM looks by itself
            schedule.work_on(names[0])
        try:
            step[1](schedule)
        except (ScheduleError, IndexError, AssertionError):  # the last are of Python's arguments
            return module
        return schedule.mod if _parameters(schedule.mod) == _parameters(module) else module

    return tvm.transform.module_pass(change, opt_level=0, name=name)


_PLACES = {
    "": "tvm.relax.transform",
    "tirx": "tvm.tirx.transform",
    "s_tir": "tvm.s_tir.transform",
    "backend": "tvm.relax.backend",
}


@dataclass(frozen=True)
class Pass:
    """A pass: `needs` must hold before it, nothing of `bars` may; then `gives` holds, and `takes` no more.

    The name is that of a function in `tvm.relax.transform`, or begins with `tirx.`, `s_tir.` or `backend.`;
    a colon stands before the word for its `arguments`. One `by` a function of `prepared` is called so.
    """

    name: str
    needs: frozenset[str] = frozenset()
    bars: frozenset[str] = frozenset()
    gives: frozenset[str] = frozenset()
    takes: frozenset[str] = frozenset()
    arguments: tuple[Any, ...] = ()
    by: str = ""

    @property
    def path(self) -> str:
        """The full name of the pass's function, such as `tvm.relax.transform.FoldConstant`."""
        family, _, name = base_of(self.name).rpartition(".")
        return f"{_PLACES[family]}.{name}"

    @property
    def code(self) -> str:
        """The expression that makes it."""
        arguments = map(repr, self.arguments)
        if self.by:
            return f"lambda module: {self.by}({', '.join(('module', 'tvm', *arguments))})"
        return f"{self.path}({', '.join(arguments)})"

    def build(self) -> Any:
        """The pass itself; in the worker, within the scope of a target."""
        import tvm

        if self.by:
            from oracles.worker.tvm import prepared

            make = getattr(prepared, self.by)
            return lambda module: make(module, tvm, *self.arguments) if "main" in module else module
        return operator.attrgetter(self.path[len("tvm.") :])(tvm)(*self.arguments)


@dataclass(frozen=True)
class Step(Pass):
    """A step of a schedule, on blocks that nothing has lowered."""

    needs: frozenset[str] = frozenset(("primfuncs",))
    bars: frozenset[str] = frozenset(("initialised", "opaque", "loops", "flat"))

    @property
    def code(self) -> str:
        """The expression that makes a pass of it."""
        return code_of_step(self.name)

    def build(self) -> Any:
        """The pass itself, in the worker."""
        return built_step(self.name)


def base_of(name: str) -> str:
    """The name of a pass without the word for its arguments, as TVM's log has it."""
    return name.partition(":")[0]
