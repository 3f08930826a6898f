"""What a pass of TVM is: a function that makes one, or a step of a schedule; what must hold before it."""

import operator
from dataclasses import dataclass
from typing import Any

from oracles.worker.tvm.schedule import built_step, code_of_step

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
