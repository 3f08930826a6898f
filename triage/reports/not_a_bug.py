"""A page for the owner of an invalid model: which node breaks which rule, and what to change."""

from __future__ import annotations

import re
from pathlib import Path

import onnx

from corpus.case import Case
from corpus.onnx.check import checker_complaint
from corpus.onnx.infer import inferred_types
from corpus.onnx.text import type_text
from corpus.outputs import put
from oracles.verdict import Verdict
from triage.console.output import quoted
from triage.views.privacy import scrub
from triage.views.rendering import as_code, as_comment, as_fence

NAME = "not-a-bug.md"
NAMED = re.compile(r"node name: ([^)\n]+)\)|Node \(([^)\n]+)\)")
MOST_SAID = 600


def write_page(case: Case, verdict: Verdict, word: str, package: str, folder: Path) -> Path:
    """Write the page for the model that the user named by `word`; its path."""
    complaint = (checker_complaint(case.parsed) if case.format == "onnx" else None) or verdict.title
    node = _node(case, f"{complaint} {verdict.title}")
    command = f"crux check {quoted(word)}"
    lines = [
        f"# Not a bug of {package}: {as_code(word)} is no valid model",
        "ONNX's checker and the un-optimised backend both reject it, so no compiler can be blamed.",
        "## The rule that it breaks",
        as_fence(as_comment(scrub(complaint))[:MOST_SAID], "text"),
        *(("## The node", _described(case, node)) if node is not None else ()),
        "## What to change",
        _advice(node),
        f"Afterwards: {as_code(command)}. If {package} should run the model as it is, "
        f"{as_code(f'{command} --accept-invalid')} judges it anyway.",
    ]
    path = folder / NAME
    put(path, "\n\n".join(lines) + "\n")
    return path


def _node(case: Case, text: str) -> onnx.NodeProto | None:
    """Return the node that a complaint names."""
    found = NAMED.search(text)
    if found is None or case.format != "onnx":
        return None
    name = found.group(1) or found.group(2)
    return next((node for node in case.parsed.graph.node if node.name == name), None)


def _described(case: Case, node: onnx.NodeProto) -> str:
    """Return the node, with the type of each input as far as it can be told."""
    model = case.parsed
    types = {name: type_text(declared) for name, declared in inferred_types(model).items()}
    types |= {each.name: f"{list(each.dims)} (a weight)" for each in model.graph.initializer}
    lines = [f"{node.op_type} {node.name!r} -> {', '.join(node.output)}"]
    lines += [f"    {name}: {types.get(name, 'of unknown type')}" for name in node.input if name]
    return as_fence("\n".join(lines), "text")


def _advice(node: onnx.NodeProto | None) -> str:
    if node is None:
        return "Export the model again with a newer exporter, or mend what the rule names."
    return (
        f"Give {as_code(node.op_type)} inputs of the types and dims that it asks for, "
        "or change its attributes; its description in ONNX's list of operators says which."
    )
