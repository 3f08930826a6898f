"""A signature: the printable name of a bug, and its digest; `oracles.naming.components` says what is in it.

Kept apart because listing a thousand of them needs neither onnx nor numpy.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

VERSION = 1
Component = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Signature:
    """The printable components of a bug's name, and their digest; comparable within one `version`."""

    version: int
    components: tuple[Component, ...]
    digest: str

    @classmethod
    def of(cls, *components: Component) -> Signature:
        """Make a signature of named components; empty ones are left out."""
        kept = tuple((name, text) for name, text in components if text)
        joined = "\x1f".join([str(VERSION), *(f"{name}\x1e{text}" for name, text in kept)])
        return cls(VERSION, kept, hashlib.sha256(joined.encode()).hexdigest()[:12])

    def __str__(self) -> str:
        return " | ".join(f"{name}: {text}" for name, text in self.components)
