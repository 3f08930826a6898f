"""The scripts in the text of an issue: fenced and indented blocks, consoles, shells that feed Python.

A traceback, a list of versions or what a console printed is no code. Blocks that lean on the names of an
earlier one are one script with it. Names that everybody imports in the same way may lack their import.
"""

import ast
import builtins
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape

FENCE = re.compile(
    r"^(?P<indent>[ \t>]*)(?P<mark>`{3,}|~{3,})[ \t]*(?P<language>[\w+.#-]*)[^\n`]*\n(?P<body>.*?)"
    r"(?:^[ \t>]*(?P=mark)[`~]*[ \t]*$|\Z)",
    re.S | re.M,
)
TAGGED = re.compile(r"<(pre|code)\b[^>]*>(?P<body>.*?)</\1>", re.S | re.I)
INDENTED = re.compile(r"(?:\A|\n[ \t]*\n)(?P<body>(?:(?: {4}|\t)[^\n]*\n|[ \t]*\n)+)")
PROMPT = re.compile(r"^\s*(?:>>>|In \[\d*\]:) ?(.*)")
MORE = re.compile(r"^\s*\.\.\.(?:: | |$)(.*)")
HEREDOC = re.compile(r"<<-?\s*(['\"]?)(?P<mark>\w+)\1[^\n]*\n(?P<body>.*?)^\s*(?P=mark)\s*$", re.S | re.M)
ONE_LINER = re.compile(r"python[\d.]*\s+-c\s+(['\"])(?P<body>.*?)\1\s*(?:$|[;&|])", re.S | re.M)
MAGIC = re.compile(r"^[ \t]*(?:[!%$]|pip3? install |python[\d.]* -m )[^\n]*$", re.M)
OTHER = re.compile(
    r"te?xt|log|json|ya?ml|toml|diff|cpp|c\+\+|c|cuda|mlir|llvm|ir|xml|html|ini|csv|rust", re.I
)
"""Languages of blocks that are no Python, whatever they look like."""

IMPORTS = """
import copy, functools, io, itertools, json, math, os, random, subprocess, sys, tempfile, time, unittest
import numpy, onnx, onnxruntime, pytest, torch, tvm
import numpy as np, onnxruntime as ort, onnxruntime as rt, torch.nn.functional as F
import onnx.helper as oh, onnx.numpy_helper as onh
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple
from numpy.testing import assert_allclose
from onnx import TensorProto, helper, numpy_helper
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor, make_tensor_value_info
from onnxruntime import InferenceSession, SessionOptions
from torch import nn
from torch.testing import assert_close
from tvm import relax, tirx
from tvm.relax.frontend.onnx import from_onnx
from tvm.script import ir as I, relax as R, tirx as T
"""
"""The imports that everybody writes in the same way."""


def _by_name() -> Iterator[tuple[str, str]]:
    """Yield each name with the line that imports it alone."""
    for node in ast.parse(IMPORTS).body:
        assert isinstance(node, ast.Import | ast.ImportFrom)
        for each in node.names:
            alone = replace_names(node, [each])
            yield each.asname or each.name, ast.unparse(alone)


def replace_names(node: ast.Import | ast.ImportFrom, names: list[ast.alias]) -> ast.stmt:
    """An import of these names alone."""
    if isinstance(node, ast.Import):
        return ast.Import(names)
    return ast.ImportFrom(node.module, names, node.level)


USUAL = dict(_by_name())


@dataclass
class Script:
    """A script taken out of a text, and remarks on what was changed to run it."""

    text: str
    notes: list[str] = field(default_factory=list)


def scripts_in(text: str) -> list[Script]:
    """The scripts of an issue's text, those that name a framework first."""
    text = text.replace("\r\n", "\n")
    for way in (_fenced, _tagged, _bare, _indented, _consoles):
        blocks = [code for block in way(text) for code in [_code_of(block)] if code]
        if any(names_framework(each) or len(blocks) == 1 for each in blocks):
            scripts = [with_usual_imports(each) for each in _joined(blocks)]
            return sorted(scripts, key=lambda each: not names_framework(each.text))
        text = re.sub(r"^ {0,3}> ?(?!>)", "", FENCE.sub("", text), flags=re.M)
    return []


def names_framework(code: str) -> bool:
    """Whether code uses a compiler's framework."""
    return re.search(r"\b(torch|onnx|onnxruntime|ort|tvm|relax|InferenceSession)\b", code) is not None


# Blocks


def _fenced(text: str) -> Iterator[str]:
    for found in FENCE.finditer(text):
        if not OTHER.fullmatch(found["language"]):
            quote = found["indent"].strip()
            body = re.sub(r"^[ \t]*>[ \t]?", "", found["body"], flags=re.M) if quote else found["body"]
            yield from _of_shell(body)


def _tagged(text: str) -> Iterator[str]:
    yield from (unescape(re.sub(r"<[^>\n]+>", "", found["body"])) for found in TAGGED.finditer(text))


def _indented(text: str) -> Iterator[str]:
    yield from (found["body"] for found in INDENTED.finditer(text + "\n"))


def _consoles(text: str) -> Iterator[str]:
    if PROMPT.search(text) or re.search(r"^\s*>>> ", text, re.M):
        yield text


def _bare(text: str) -> Iterator[str]:
    """Code that stands in the text unmarked: from its first import to the last line up to which it parses."""
    found = re.search(r"^(import|from) \w+", text, re.M)
    if found:
        yield _parsing_head(MAGIC.sub("", text[found.start() :]))


def _parsing_head(block: str) -> str:
    """The block up to the last line to which it parses: prose may stand behind it."""
    lines = block.splitlines()
    ends = (end for end in range(len(lines), 0, -1) if lines[end - 1].strip())
    return next((head for head in ("\n".join(lines[:end]) for end in ends) if _parsed(head)), block)


def _of_shell(body: str) -> Iterator[str]:
    """What a shell feeds Python, or the block itself."""
    fed = [found["body"] for pattern in (HEREDOC, ONE_LINER) for found in pattern.finditer(body)]
    yield from fed if fed and not _parsed(body) else [body]


def _code_of(block: str) -> str:
    """The Python of a block; empty where it is something else."""
    block = textwrap.dedent(block.expandtabs(4)).strip("\n")
    if re.match(r"\s*Traceback \(most recent call last\)", block):
        return ""
    if not _parsed(block):
        is_console = re.search(r"^\s*(>>> |In \[\d*\]:)", block, re.M)
        block = _typed(block) if is_console else _parsing_head(MAGIC.sub("", block))
    tree = _parsed(block)
    if tree is None or not any(
        isinstance(each, ast.Call | ast.Import | ast.ImportFrom) for each in ast.walk(tree)
    ):
        return ""
    return block


def _typed(console: str) -> str:
    """What was typed at a console's prompts; what it printed is left out."""
    typed, is_open = [], False
    for line in console.splitlines():
        begun, more = PROMPT.match(line), MORE.match(line)
        if begun:
            typed.append(begun[1])
        elif more and is_open:
            typed.append(more[1])
        is_open = bool(begun or (more and is_open))
    return "\n".join(typed)


def _parsed(code: str) -> ast.Module | None:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


# Names


def _joined(blocks: list[str]) -> list[str]:
    """Blocks that use names or files of an earlier one become one script with it."""
    found: list[str] = []
    for block in dict.fromkeys(blocks):
        wanted = (missing_names(block) - USUAL.keys()) | files_in(block)
        at = next(
            (
                at
                for at in reversed(range(len(found)))
                if wanted & (bound_names(found[at]) | files_in(found[at]))
            ),
            None,
        )
        if at is None:
            found.append(block)
        else:
            found[at] += f"\n\n{block}"
    return found


def bound_names(code: str) -> set[str]:
    """The names that code binds anywhere."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
    return names


def files_in(code: str) -> set[str]:
    """The texts in code that name files."""
    texts = (node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant))
    return {text for text in texts if isinstance(text, str) and re.fullmatch(r"[\w./-]+\.[a-z]\w{1,6}", text)}


def missing_names(code: str) -> set[str]:
    """The names that code uses and nothing binds; none where it imports names by a star."""
    bound = bound_names(code)
    if "*" in bound:
        return set()
    used = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    return used - bound - set(dir(builtins)) - {"__file__", "__name__", "__doc__"}


def with_usual_imports(code: str) -> Script:
    """A script with the imports that it lacks, of names that everybody imports in the same way."""
    lines = sorted({USUAL[name] for name in missing_names(code) if name in USUAL})
    if not lines:
        return Script(code)
    future = re.match(r"(?:from __future__ [^\n]*\n)*", code)
    head = future[0] if future else ""
    return Script(f"{head}{chr(10).join(lines)}\n{code[len(head) :]}", [f"imports added: {'; '.join(lines)}"])


def without_import(code: str, module: str) -> str:
    """The code without the imports of a module that it makes no use of; empty where it does use it."""
    tree = ast.parse(code)
    dropped = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom) and _is_of(node, module)
    ]
    names = {(each.asname or each.name).partition(".")[0] for node in dropped for each in node.names}
    if not dropped or names & {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}:
        return ""
    lines = code.splitlines()
    for node in dropped:
        lines[node.lineno - 1] = " " * node.col_offset + "pass"
        lines[node.lineno : node.end_lineno] = [""] * ((node.end_lineno or node.lineno) - node.lineno)
    return "\n".join(lines)


def _is_of(node: ast.Import | ast.ImportFrom, module: str) -> bool:
    named = [node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names]
    return all(each.partition(".")[0] == module for each in named)


def on_cpu(code: str) -> str:
    """The code with everything on the CPU."""
    code = re.sub(r"\.cuda\((?:\d|device[^)]*)?\)", ".cpu()", code)
    code = re.sub(r"(['\"])cuda(?::\d+)?\1", r"\1cpu\1", code)
    return re.sub(r"torch\.cuda\.synchronize\(\w*\)", "None", code)
