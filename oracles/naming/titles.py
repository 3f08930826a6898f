"""What a bug is called in lists and as an issue: the operators of its smallest case, then what goes wrong."""

from __future__ import annotations

from collections.abc import Sequence

from oracles.in_worker.onnx.domain import DOMAIN

MOST_OPERATORS = 4


def with_operators(what: str, operators: Sequence[str]) -> str:
    """`Pad + MaxPool: …`: each operator once, of many the first ones; torch's own as torch calls them."""
    kinds = list(dict.fromkeys(operator.replace(f"{DOMAIN}:", "aten.") for operator in operators))
    shown = [*kinds[:MOST_OPERATORS], *(["…"] if len(kinds) > MOST_OPERATORS else [])]
    return f"{' + '.join(shown)}: {what}" if shown else what
