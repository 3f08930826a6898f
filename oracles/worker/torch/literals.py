"""Values as Python source: the literals of a printed module."""

from __future__ import annotations

import base64
import re
import textwrap
from typing import Any

import torch

MOST_VALUES = 512
"""Elements of one tensor written as numbers; a longer one is written as bytes."""

WIDTH = 88


def needed(calls: Any, results: list[str]) -> list[str]:
    """Return the assignments that the results depend on."""
    wanted, kept = set(results), []
    for target, text, read in reversed(calls):
        if wanted & set(re.findall(r"\w+", target)):
            wanted |= read
            kept.append(f"{target} = {text}")
    return kept[::-1]


def written(inputs: list[str], weights: dict[str, Any], calls: list[str], results: list[str]) -> str:
    """Return the text of the class."""
    body = "\n".join([*calls, *results])
    used = {name: tensor for name, tensor in weights.items() if re.search(rf"{name}\b", body)}
    lines = ["class Repro(torch.nn.Module):"]
    if used:
        lines += ["    def __init__(self):", "        super().__init__()"]
        for name, tensor in used.items():
            lines.append(f"        self.register_buffer({name[5:]!r}, {literal(tensor, 8)})")
        lines.append("")
    lines.append(f"    def forward({', '.join(['self', *inputs])}):")
    lines += [f"        {call}" for call in calls]
    inner = ", ".join(results)
    return "\n".join(
        [*lines, f"        return ({inner},)" if len(results) == 1 else f"        return {inner}"]
    )


def literal(tensor: Any, indent: int) -> str:
    """Return an expression that gives the tensor's bits again."""
    tensor = tensor.detach().contiguous()
    dtype, sizes = str(tensor.dtype), list(tensor.shape)
    if tensor.numel() == 0:
        return f"torch.zeros({sizes}, dtype={dtype})"
    flat = tensor.reshape(-1)
    bits = flat.view(torch.uint8).reshape(tensor.numel(), -1)
    if tensor.numel() > 8 and bool((bits == bits[0]).all()):
        return f"torch.full({sizes}, {number(flat[0])}, dtype={dtype})"
    if tensor.numel() > MOST_VALUES:
        return of_bytes(bits.numpy().tobytes(), dtype, sizes, indent)
    inner = " " * (indent + 4)
    lines = textwrap.wrap(nested(tensor), WIDTH - indent, break_long_words=False, break_on_hyphens=False)
    text = lines[0] if len(lines) == 1 else f"\n{inner}".join(["", *lines]) + f"\n{' ' * indent}"
    return f"torch.tensor({text}, dtype={dtype})"


def of_bytes(content: bytes, dtype: str, sizes: list[int], indent: int) -> str:
    """Write a tensor by the base64 of its bytes, in lines of WIDTH."""
    text = base64.b64encode(content).decode()
    inner = " " * (indent + 4)
    lines = [f'{inner}"{text[at : at + WIDTH - 8]}"' for at in range(0, len(text), WIDTH - 8)]
    joined = "\n".join(lines)
    return (
        f"torch.frombuffer(bytearray(base64.b64decode(\n{joined}\n{' ' * indent})), dtype={dtype})"
        f".reshape({sizes})"
    )


def nested(tensor: Any) -> str:
    """Write a tensor's numbers as nested lists."""
    return f"[{', '.join(map(nested, tensor))}]" if tensor.dim() else number(tensor)


def number(tensor: Any) -> str:
    """Return the shortest text of a number in its own type; `inf` and `nan` are names."""
    if tensor.dtype in (torch.float32, torch.float64, torch.float16):
        return str(tensor.numpy()[()])
    return repr(tensor.item())
