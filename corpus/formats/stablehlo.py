"""Modules of StableHLO: their operations as data; text is read by MLIR's own parser in a worker."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from corpus.graphs.format import graph_format

HARMLESS = ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "TopK", "mhlo.topk", "annotate")
"""What custom calls may name: other targets are code of whoever registered them."""


def calls_outside(document: bytes) -> str:
    """Name the target of a custom call that needs trust; empty if there is none."""
    try:
        return next(_complaints(json.loads(document)), "")
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError):
        return "it is damaged, and so may call anything"


def _complaints(item: Any) -> Iterator[str]:
    waiting = [item]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list):
            if len(item) == 4 and item[1] == "stablehlo.custom_call":
                named = item[3].get("call_target_name")
                target = str(named["mlir"] if named else "").strip('"')
                if not target.startswith(HARMLESS):
                    yield f"it calls {target[:80]!r}"
            waiting += item


def is_foreign(path: Path) -> bool:
    """Whether a file is a module as text."""
    return path.suffix in (".mlir", ".stablehlo")


FORMAT = graph_format(
    "stablehlo",
    "iree",
    foreign=(".mlir", ".stablehlo"),
    is_foreign=is_foreign,
    runs_code=False,
    calls_outside=calls_outside,
    unit="operations",
)
