"""Which of TVM's passes run, which change the module, which are left out; sequences of them run by name."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import Any, Iterator  # noqa: UP035 (Python 3.8)

import tvm
import tvm_ffi

from oracles.in_worker.tvm_passes import PASSES

BEGINS, CHANGED, SAME = "crux: pass begins", "crux: pass changed", "crux: pass left"
"""How a line of the log begins; the name of the pass ends it."""


@tvm.ir.instrument.pass_instrument
class Watch:
    """Leaves out the passes that are disabled; with `log` says on stderr of each whether it changed anything.

    It sees nested passes too, those of the code generator included.
    """

    def __init__(self, disabled: Any, log: bool) -> None:
        self.disabled = frozenset(disabled)
        self.log = log
        self.open: list[int] = []

    def should_run(self, module: Any, info: Any) -> bool:
        return str(info.name) not in self.disabled

    def run_before_pass(self, module: Any, info: Any) -> None:
        if self.log:
            self.open.append(tvm_ffi.structural_hash(module))
            _say(f"{BEGINS} {info.name}")

    def run_after_pass(self, module: Any, info: Any) -> None:
        if self.log:
            has_changed = self.open.pop() != tvm_ffi.structural_hash(module)
            _say(f"{CHANGED if has_changed else SAME} {info.name}")


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


@contextmanager
def watched(settings: dict[str, Any]) -> Iterator[None]:
    """Every pass context has a watch, where there is anything to watch for.

    Contexts that TVM's own code opens would hide one of ours; so it is put into each as it is made.
    """
    disabled, log = settings.get("disabled_passes") or (), bool(settings.get("log"))
    if not disabled and not log:
        yield
        return
    context = tvm.transform.PassContext
    plain = context.__init__

    def watching(self: Any, *arguments: Any, **options: Any) -> None:
        options["instruments"] = [*(options.get("instruments") or ()), Watch(disabled, log)]
        plain(self, *arguments, **options)

    context.__init__ = watching
    try:
        with context():
            yield
    finally:
        context.__init__ = plain


def apply_passes(module: Any, settings: dict[str, Any]) -> Any:
    """The module after the case's own sequence of passes, by their names in the table."""
    disabled, log = settings.get("disabled_passes") or (), settings.get("log")
    for name in settings.get("passes") or ():
        if name in disabled:
            continue
        before = tvm_ffi.structural_hash(module) if log else 0
        if log:
            _say(f"{BEGINS} {name}")
        module = PASSES[name].build()(module)
        if log:
            _say(f"{SAME if tvm_ffi.structural_hash(module) == before else CHANGED} {name}")
    return module
