"""PrimFuncs out of documented tests that programs of loops can start from: each structure once."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corpus.outputs import put
from corpus.tir.program import canonical, parse
from generators.tir.programs import can_start
from triage.cases.documented_tests import Document

FOLDER = "loops"
"""Where they are, below the folder of the patterns."""


@dataclass
class LoopSeeds:
    """PrimFuncs as they are found; two that differ in names alone are one."""

    found: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)

    def keep(self, documents: Iterable[Document], out: Path) -> None:
        """Write those documents that are new, and can be started from, below a folder."""
        for document in documents:
            self.counts["loops"] += 1
            module = parse(document.case.program, document.case.origin)
            digest = hashlib.sha256(canonical(module)).hexdigest()[:16]
            if digest in self.found:
                self.counts["loops left out: seen before"] += 1
            elif not can_start(module):
                self.counts["loops left out: no buffer of static dims and a plain type"] += 1
            else:
                self.found.add(digest)
                put(out / FOLDER / f"{digest}.tir.json", document.case.program)

    def facts(self) -> dict[str, Any]:
        """Count what was seen and kept."""
        return {**self.counts, "loops_kept": len(self.found)} if self.counts else {}
