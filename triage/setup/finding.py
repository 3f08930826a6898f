"""A finding about this machine, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One part: whether it works, what there is to say of it, and whether crux is broken without it.

    `advice` is what to do where it does not work; empty where nothing is to be done.
    """

    part: str
    works: bool
    text: str
    core: bool
    advice: str = ""
