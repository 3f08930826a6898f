"""torch programs: an fx graph as data; scripts and `.pt2` files are captured in a worker."""

from pathlib import Path

from corpus.format import mentions
from corpus.graphs.format import graph_format


def is_foreign(path: Path) -> bool:
    """Whether a file is a script that imports torch, or an exported program."""
    return path.suffix == ".pt2" or (
        path.suffix == ".py" and not mentions(path, r"^\s*(from|import)\s+tvm\b")
    )


FORMAT = graph_format("torch", "inductor", foreign=(".py", ".pt2"), is_foreign=is_foreign)
"""Nothing is called outside: only operators of torch's own exist for such a program."""
