"""A program whose bodies end one node earlier: what a branch or a loop runs has a last node too."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import onnx

from corpus.onnx.check import checker_complaint
from corpus.onnx.graph import walk_graphs


@dataclass(frozen=True, slots=True)
class _End:
    """A node that makes what a body gives: places of body, output and node; an operand and the operator."""

    body: int
    output: int
    node: int
    operand: str
    operator: str


def ended_earlier(model: onnx.ModelProto, named: Collection[str]) -> Iterator[onnx.ModelProto]:
    """Yield the model without one node that makes what a body gives, an operand of it given instead.

    Nodes of the operators `named` go before others; a model that the checker refuses is left out.
    """
    for end in sorted(_ends(model), key=lambda end: end.operator not in named):
        made = onnx.ModelProto()
        made.CopyFrom(model)
        body = list(walk_graphs(made.graph))[end.body]
        body.output[end.output].name = end.operand
        del body.node[end.node]
        if checker_complaint(made) is None:
            yield made


def _ends(model: onnx.ModelProto) -> Iterator[_End]:
    """Yield the last nodes of bodies, each with the operands that nodes of the same body make."""
    for at, body in enumerate(walk_graphs(model.graph)):
        given = [item.name for item in body.output] if at else []
        made = {name for node in body.node for name in node.output if name}
        for index, node in enumerate(body.node):
            for output in (given.index(name) for name in node.output if name in given):
                for operand in dict.fromkeys(name for name in node.input if name in made - {*given}):
                    yield _End(at, output, index, operand, node.op_type)
