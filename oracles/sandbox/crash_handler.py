"""The C crash handler, built on first use where there is a compiler."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from oracles.native.compiled import compiled

SOURCE = Path(__file__).with_name("crash_handler.c")


@cache
def crash_handler() -> tuple[Path | None, str]:
    """The built library, or None and why there is none."""
    library, reason = compiled(SOURCE)
    return library, f"{reason}: crashes are told by Python's faulthandler alone" if reason else ""
