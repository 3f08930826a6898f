"""Rewrites of modules that a wrong pass would spoil, as chains of operations.

python stablehlo_chain.py A,B,C MODULE    exits 0 where a value flows through these in turn
"""

import re
import sys
from pathlib import Path

PLANTED = {
    "transformer": ("dot_general,divide,reduce", "exponential,reduce,divide", "rsqrt,multiply,dot_general"),
    "recurrent": ("while,reduce,divide", "multiply,multiply,add"),
    "convolved": ("convolution,reduce,divide", "add,reduce_window,reduce", "rsqrt,multiply,add"),
}
"""By network the chains that a wrong pass is taken to spoil."""

THROUGH = frozenset({"broadcast_in_dim", "reshape", "convert", "call", "slice", "transpose"})
"""What may stand between two operations of a chain."""
LINE = re.compile(r"^\s*(%\w+)(?::\d+)? = \"?(?:stablehlo\.|func\.)?(\w+)\"?(.*)$")


def has_chain(text: str, chain: list[str]) -> bool:
    """Whether a value flows through operations of these names in turn."""
    reached: list[set[str]] = [set() for _ in chain]
    for line in text.splitlines():
        match = LINE.match(line)
        if not match:
            continue
        name, op, rest = match.groups()
        reads = set(re.findall(r"%\w+", rest))
        for place, wanted in enumerate(chain):
            follows = place == 0 or bool(reads & reached[place - 1])
            if (op == wanted and follows) or (op in THROUGH and reads & reached[place]):
                reached[place].add(name)
        if name in reached[-1]:
            return True
    return False


if __name__ == "__main__":
    sys.exit(not has_chain(Path(sys.argv[2]).read_text(), sys.argv[1].split(",")))
