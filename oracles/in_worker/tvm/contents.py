"""What a module is made of, in words of its text: which of them a pass takes away, and which it puts in."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

WORDS = re.compile(r"\b[RT]\.([a-z][\w.]*)\(|^\s*(for|if|while)\b", re.M)
NO_WORDS = """
    dataflow output function prim_func func_attr match_buffer sblock_attr reads writes dtype str null_value
    target axis.remap axis.spatial axis.reduce
"""
OF_TEXT = frozenset(NO_WORDS.split())
"""Words of the text itself, and what can be read off the rest."""
A_NUMBER = re.compile(r"(u?int|float|bfloat)\d+|bool")
MOST = 24
"""A pass that replaces more words than this rewrites the module as a whole."""


def contents(module: Any) -> Counter[str]:
    """Count what is called and the kinds of statements, of Relax functions and PrimFuncs alike."""
    found: Counter[str] = Counter()
    for match in WORDS.finditer(module.script(show_meta=False)):
        word = match.group(1) or match.group(2)
        if word not in OF_TEXT and not A_NUMBER.fullmatch(word):
            found[word] += 1
    return found


def replaced(before: Counter[str], after: Counter[str]) -> str:
    """Such as `-add +multiply`, each word once, since loops nest by rank; empty where all is replaced."""
    words = [f"-{word}" for word in sorted(before - after)] + [f"+{word}" for word in sorted(after - before)]
    return " ".join(words) if len(words) <= MOST else ""
