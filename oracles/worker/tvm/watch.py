"""Which of TVM's passes run, which change the module, which are left out; sequences of them run by name."""

from __future__ import annotations

import re
import sys
from collections import Counter
from contextlib import contextmanager
from typing import Any, Callable, Iterator, NamedTuple  # noqa: UP035 (Python 3.8)

import tvm
import tvm_ffi
from tvm import relax

from oracles.worker.tvm.inferred import contradiction
from oracles.worker.tvm.passes import pass_of
from oracles.worker.tvm.sequences import base_of, config_of, is_option

WORDS = re.compile(r"\b[RT]\.([a-z][\w.]*)\(|^\s*(for|if|while)\b", re.M)
NO_WORDS = """
    dataflow output function prim_func func_attr match_buffer sblock_attr reads writes dtype str null_value
    target axis.remap axis.spatial axis.reduce
"""
OF_TEXT = frozenset(NO_WORDS.split())
"""Words of the text itself, and what can be read off the rest."""
A_NUMBER = re.compile(r"(u?int|float|bfloat)\d+|bool")
MOST = 24
"""A pass that replaces more words than this rewrites the module as a whole."""


def contents(module: Any) -> Counter[str]:
    """Count what is called and the kinds of statements, of Relax functions and PrimFuncs alike."""
    found: Counter[str] = Counter()
    for match in WORDS.finditer(module.script(show_meta=False)):
        word = match.group(1) or match.group(2)
        if word not in OF_TEXT and not A_NUMBER.fullmatch(word):
            found[word] += 1
    return found


def replaced(before: Counter[str], after: Counter[str]) -> str:
    """Such as `-add +multiply`, each word once, since loops nest by rank; empty where all is replaced."""
    words = [f"-{word}" for word in sorted(before - after)] + [f"+{word}" for word in sorted(after - before)]
    return " ".join(words) if len(words) <= MOST else ""


BEGINS, CHANGED, SAME = "crux: pass begins", "crux: pass changed", "crux: pass left"
"""How a line of the log begins; the name of the pass ends it."""
REPLACED = "crux: pass replaced"
"""Before the name of a pass that changed the module, a colon and what it took away and put in."""


class IllFormed(Exception):
    """A pass has broken the module, by TVM's own check."""


class IllTyped(Exception):
    """A pass has left types that contradict what TVM infers, or those before it."""


class Seen(NamedTuple):
    """A module before a pass, and its hash."""

    hash: int
    module: Any

    @classmethod
    def of(cls, module: Any) -> Seen:
        """Look at a module."""
        return cls(tvm_ffi.structural_hash(module), module)

    def compare(self, module: Any, name: str) -> None:
        """Say what the pass of that name did to the module."""
        if tvm_ffi.structural_hash(module) == self.hash:
            _say(f"{SAME} {name}")
            return
        _say(f"{CHANGED} {name}")
        words = replaced(contents(self.module), contents(module))
        if words:
            _say(f"{REPLACED} {name}: {words}")


@tvm.ir.instrument.pass_instrument
class Watch:
    """Leaves out the passes that are disabled; with `log` says on stderr of each whether it changed anything.

    With `checks` it raises after the first pass that leaves an ill-formed module, with `types` after the
    first that leaves types which contradict. It sees nested passes too, those of the code generator included.
    """

    def __init__(self, disabled: Any, log: bool, checks: bool, types: bool) -> None:
        self.disabled = frozenset(disabled)
        self.log = log
        self.checks = checks
        self.types = types
        self.open: list[Seen] = []
        self.before: list[Any] = []

    def should_run(self, module: Any, info: Any) -> bool:
        """Leave out the passes that are disabled."""
        return str(info.name) not in self.disabled

    def run_before_pass(self, module: Any, info: Any) -> None:
        """Say that a pass begins."""
        if self.types:
            self.before.append(module)
        if self.log:
            self.open.append(Seen.of(module))
            _say(f"{BEGINS} {info.name}")

    def run_after_pass(self, module: Any, info: Any) -> None:
        """Say whether the pass changed the module. Raises IllFormed or IllTyped."""
        if self.checks and (why := complaint(module)):
            raise IllFormed(f"the module is ill-formed after {info.name}: {why}")
        if self.types and (why := contradiction(self.before.pop(), module)):
            raise IllTyped(f"types contradict after {info.name}: {why}")
        if self.log:
            self.open.pop().compare(module, str(info.name))


def complaint(module: Any) -> str:
    """The last line of TVM's complaint about an ill-formed module; empty if it is well-formed."""
    try:
        is_sound = relax.analysis.well_formed(module)  # older releases answer, newer ones raise
    except Exception as error:
        return str(error).strip().split("\n")[-1]
    return "it is" if is_sound is False else ""


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


@contextmanager
def watched(settings: dict[str, Any]) -> Iterator[None]:
    """Every pass context has a watch, where there is anything to watch for."""
    disabled, log = settings.get("disabled_passes") or (), bool(settings.get("log"))
    checks, types = bool(settings.get("well-formed")), bool(settings.get("types"))
    if not disabled and not log and not checks and not types:
        yield
        return
    with instrumented(lambda: Watch(disabled, log, checks, types)):
        yield


@contextmanager
def configured(settings: dict[str, Any]) -> Iterator[None]:
    """The pass context has the options that stand in the case's own sequence."""
    config = config_of(settings.get("passes") or ())
    if not config:
        yield
        return
    with tvm.transform.PassContext(config=config):
        yield


@contextmanager
def instrumented(make: Callable[[], Any]) -> Iterator[None]:
    """Every pass context has an instrument of its own, the one that is there at first included.

    Contexts that TVM's own code opens would hide one of ours; so it is put into each as it is made.
    """
    context = tvm.transform.PassContext
    plain = context.__init__

    def watching(self: Any, *arguments: Any, **options: Any) -> None:
        options["instruments"] = [*(options.get("instruments") or ()), make()]
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
        own = base_of(name)
        if own in disabled or is_option(name):
            continue
        before = Seen.of(module) if log else None
        if before:
            _say(f"{BEGINS} {own}")
        module = pass_of(name).build()(module)
        if before:
            before.compare(module, own)
    return module
