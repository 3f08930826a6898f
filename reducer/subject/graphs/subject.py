"""A graph of another format than ONNX that is being reduced, with the edits that moves are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import onnx

from corpus.case import Case
from corpus.graphs.program import GraphProgram
from corpus.values import Tensor
from reducer.search import Items
from reducer.subject.base import Size
from reducer.subject.graphs.edits import assemble_bindings, change_flow, keep_bindings, resize
from reducer.subject.graphs.order import measured
from reducer.subject.graphs.view import Describe, GraphView
from reducer.subject.tensors import Resize


@dataclass(frozen=True)
class GraphSubject(GraphView):
    """The smallest failing program so far, as moves change it."""

    @classmethod
    def of(cls, case: Case, program: GraphProgram, describe: Describe) -> GraphSubject:
        """Return the subject of a case with its program parsed."""
        return cls(program, inputs=case.inputs, passes=case.passes, describe=describe)

    def measured(self) -> Size:
        """Return the place in the total order."""
        return measured(self)

    def keep_nodes(self, keep: Items, *, link: bool = False) -> Self | None:
        """The program of the bindings `keep` (by index)."""
        return keep_bindings(self, keep, link)

    def assemble(self, nodes: Sequence[onnx.NodeProto], outputs: Sequence[str]) -> Self | None:
        """Return a program of the bindings of these nodes, with these outputs."""
        return assemble_bindings(self, [self.bindings[node.name] for node in nodes], outputs)

    def with_tensors(
        self, changed: Mapping[str, Tensor], also: Callable[[onnx.ModelProto], None] | None = None
    ) -> Self | None:
        """Return the program with these values for some of its inputs and constants; `also` is not for it."""
        return change_flow(self, changed)

    def resized(self, changed: Mapping[str, Tensor], choice: Resize) -> Self | None:
        """The program with tensors cut to windows, the integers that equal an old dim carried along."""
        return resize(self, changed, choice.size_of if choice.only is None else lambda dim: dim)
