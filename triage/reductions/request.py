"""What is asked of one reduction: how long it may take, and by which commands it judges."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    """The options of `crux reduce` besides the case and the common ones."""

    minutes: float | None = None
    max_checks: int | None = None
    check: str | None = None
    check_exit: int = 0
    also: str | None = None
    private: bool = False
    thorough: bool = False
