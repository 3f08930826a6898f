"""Programs to start from that were not grown here: PrimFuncs as TVM lowers the operators of models.

`lowered.jsonl` holds operators of small torch modules (attention, norms, convolution, pools, rotary embedding
and others), exported and legalised alone and fused, and operators of ONNX models that our generator makes: a
module of one PrimFunc a line. A folder of `.tir.json` files may stand for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from corpus.errors import UserError
from corpus.tir.document import from_bytes
from corpus.tir.program import parse
from corpus.tir.tree import Module
from generators.tir.values import usable

SHIPPED = Path(__file__).with_name("lowered.jsonl")


@lru_cache(maxsize=4)
def lowered(source: Path | None = None) -> tuple[Module, ...]:
    """Return the modules that are shipped, or those of a folder's `.tir.json` files, in the order of names.

    Raises UserError for a folder without any, and for a file that holds no program.
    """
    if source is None:
        return _usable(from_bytes(line) for line in SHIPPED.read_bytes().splitlines())
    files = [source] if source.is_file() else sorted(source.rglob("*.tir.json"))
    found = _usable(parse(each.read_bytes(), str(each)) for each in files)
    if not found:
        raise UserError(f"{source}: holds no .tir.json file of one function over plain buffers")
    return found


def _usable(modules: Iterable[Module]) -> tuple[Module, ...]:
    return tuple(each for each in modules if can_start(each))


def can_start(module: Module) -> bool:
    """Say whether a module is of one function that has a buffer which statements can be grown for."""
    return len(module.functions) == 1 and any(map(usable, module.main.buffers))
