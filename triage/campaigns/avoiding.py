"""Leaving out of a campaign what could only show a known issue again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import onnx

from corpus.case import Case
from corpus.onnx.types import dtype_name
from generators.fuzz import AVOIDED, Judgement
from oracles.numerics.value_types import Types, tensor_types
from oracles.run import Phase
from oracles.verdict import Outcome, Symptom, Verdict
from triage.bugs.known import KnownIssue
from triage.language import model_of

Chain = tuple[re.Pattern[str], ...]


def chains(issues: Iterable[KnownIssue], backend: str, release: str) -> Mapping[str, Chain]:
    """Map each issue of a backend that lives on that release to the operators that it wants avoided."""
    return {
        issue.id: tuple(map(re.compile, issue.avoid))
        for issue in issues
        if issue.avoid and issue.is_of(backend) and issue.is_alive_on(release)
    }


def avoiding(judgement: Judgement, avoided: Mapping[str, Chain]) -> Judgement:
    """Return the judgement, but a program that holds one of the chains is *unsupported*, and not run."""
    if not avoided:
        return judgement

    def verdict(case: Case, thorough: bool) -> Verdict:
        name = found_in(case, avoided)
        if not name:
            return judgement(case, thorough)
        symptom = Symptom(Outcome.UNSUPPORTED, Phase.IMPORT, AVOIDED, name)
        return Verdict(Outcome.UNSUPPORTED, Phase.IMPORT, f"avoided: known issue {name}", symptom)

    return verdict


def found_in(case: Case, avoided: Mapping[str, Chain]) -> str:
    """Return the first issue whose chain of nodes is in the program's main graph; empty where none is."""
    model = model_of(case)
    types = tensor_types(model)
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    for issue, chain in avoided.items():
        if any(_leads(node, chain, types, readers) for node in model.graph.node):
            return issue
    return ""


def _leads(
    node: onnx.NodeProto, chain: Chain, types: Types, readers: Mapping[str, list[onnx.NodeProto]]
) -> bool:
    """Return whether the chain begins at a node and goes on along its readers."""
    first, *rest = chain
    if not first.fullmatch(_face(node, types)):
        return False
    return not rest or any(_leads(each, tuple(rest), types, readers) for each in _next(node, readers))


def _next(node: onnx.NodeProto, readers: Mapping[str, list[onnx.NodeProto]]) -> Iterator[onnx.NodeProto]:
    for name in node.output:
        yield from readers.get(name, ())


def _face(node: onnx.NodeProto, types: Types) -> str:
    """`operator:dtype`, of its first output, as in the signatures of wrong results."""
    declared = types.get(node.output[0]) if node.output else None
    return f"{node.op_type}:{dtype_name(declared.elem_type) if declared is not None else ''}"
