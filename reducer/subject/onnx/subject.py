"""An ONNX model that is being reduced, with the edits that moves are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import onnx

from corpus.onnx.check import checker_complaint
from corpus.onnx.graph import walk_model
from corpus.values import Tensor
from reducer.search import Items
from reducer.subject.base import Size
from reducer.subject.onnx.nodesets import assemble, keep_nodes
from reducer.subject.onnx.opsets import lowered
from reducer.subject.onnx.order import measured
from reducer.subject.onnx.resizing import resize
from reducer.subject.onnx.retype import change_tensors
from reducer.subject.onnx.view import OnnxView
from reducer.subject.windows import Resize


@dataclass(frozen=True)
class OnnxSubject(OnnxView):
    """The smallest failing model so far, as moves change it."""

    def measured(self) -> Size:
        """Return the place in the total order."""
        return measured(self)

    @property
    def is_valid(self) -> bool:
        """Whether onnx's checker accepts the model, where it accepted the original."""
        return not self.is_sound or checker_complaint(self.model) is None

    @property
    def operators(self) -> frozenset[str]:
        """The operators of its nodes, bodies and functions included."""
        return frozenset(node.op_type for node in walk_model(self.model))

    def plainest(self) -> Self:
        """Without unused operator sets, the others in the least versions; itself where it has them."""
        return lowered(self)

    def keep_nodes(self, keep: Items, *, link: bool = False) -> Self | None:
        """The model of the nodes `keep` (by index); None where the type of a cut tensor is unknown."""
        return keep_nodes(self, keep, link=link)

    def assemble(self, nodes: Sequence[onnx.NodeProto], outputs: Sequence[str]) -> Self | None:
        """Return a model of these nodes with these outputs that may read any tensor of this one."""
        return assemble(self, nodes, outputs)

    def with_tensors(
        self, changed: Mapping[str, Tensor], also: Callable[[onnx.ModelProto], None] | None = None
    ) -> Self | None:
        """Return the model with these values for some of its inputs and weights, and another edit."""
        return change_tensors(self, changed, also)

    def resized(self, changed: Mapping[str, Tensor], choice: Resize) -> Self | None:
        """Return the model with tensors cut to windows, sizes in constants and attributes carried along."""
        return resize(self, changed, choice)
