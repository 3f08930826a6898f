"""Relax modules of TVM: their bindings as data; TVMScript and TVM's JSON are read in a worker."""

from __future__ import annotations

from pathlib import Path

from corpus.format import mentions
from corpus.graphs.callees import calls_outside
from corpus.graphs.format import graph_format


def is_foreign(path: Path) -> bool:
    """Whether a file is TVMScript, or a module in TVM's JSON."""
    if path.suffix == ".json":
        return not path.name.endswith(".relax.json") and path.name != "case.json"
    return path.suffix == ".py" and mentions(path, r"^\s*(from|import)\s+tvm\b")


FORMAT = graph_format(
    "relax",
    "tvm",
    foreign=(".py", ".json"),
    is_foreign=is_foreign,
    calls_outside=calls_outside,
    unit="bindings",
)
