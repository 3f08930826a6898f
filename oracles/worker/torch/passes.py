"""Where torch's own bisector can switch parts of inductor off: watched, and switched off by name.

`torch._inductor.compiler_bisector` is asked before each pass over a graph, each decomposition and each
lowering of a node whether to leave that one out. Its answer is replaced by ours.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from contextlib import contextmanager
from typing import Any, Callable, Iterator  # noqa: UP035 (Python 3.8)

from torch._inductor import config
from torch._inductor.compiler_bisector import CompilerBisector

APPLIES = "crux: applies"
"""How a line of the log begins; the name of what is applied ends it."""

SWITCHES: dict[str, dict[str, Any]] = {
    "config.emulate_precision_casts": {"emulate_precision_casts": True},
    "config.layout_optimization": {"layout_optimization": False},
    "config.comprehensive_padding": {"comprehensive_padding": False},
    "config.max_fusion_size": {"max_fusion_size": 1},
}
"""What belongs to no subsystem that counts: settings, and what each is when its part is off."""


@contextmanager
def watched(settings: dict[str, Any]) -> Iterator[None]:
    """Leave out what is disabled; with `log` say on stderr what is applied, by its number and name."""
    disabled = frozenset(settings.get("disabled_passes") or ())
    if not disabled and not settings.get("log"):
        yield
        return
    patches: dict[str, Any] = {}
    for name in sorted(disabled.intersection(SWITCHES)):
        patches.update(SWITCHES[name])
    plain = CompilerBisector.__dict__["disable_subsystem"]
    CompilerBisector.disable_subsystem = classmethod(_decider(disabled, bool(settings.get("log"))))
    try:
        with config.patch(patches):
            yield
    finally:
        CompilerBisector.disable_subsystem = plain


def _decider(disabled: frozenset[str], log: bool) -> Callable[..., bool]:
    """Stands in for the bisector: True for what is to be left out. The same name again gets a number."""
    counts: Counter[str] = Counter()

    def is_disabled(cls: Any, backend: str, subsystem: str, debug_info: Any = None) -> bool:
        name = f"{subsystem}.{_word(debug_info)}"
        counts[name] += 1
        if counts[name] > 1:
            name = f"{name}#{counts[name]}"
        if name not in disabled and log:
            sys.stderr.write(f"{APPLIES} {name}\n")
            sys.stderr.flush()
        return name in disabled

    return is_disabled


def _word(debug_info: Any) -> str:
    """The name in torch's note of an application (of a pass, a node, an operator) as one word."""
    text = str(debug_info()) if debug_info else "all"
    match = OPERATOR.fullmatch(text)
    return ".".join(match.groups()) if match else text.replace(" ", "")


OPERATOR = re.compile(r"<OpOverload\(op='(.*)', overload='(.*)'\)>")
