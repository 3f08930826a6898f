"""Programs that are valid by construction: operator specs, graph growth, values."""

from __future__ import annotations

import onnx

from corpus.case import Case
from generators.grow import grow


def make_model(seed: int, nodes: int) -> onnx.ModelProto:
    """The ONNX model of this seed: the same bytes on any machine."""
    return grow(seed, nodes).model


def make_case(seed: int, nodes: int) -> Case:
    """The model of this seed with values for its inputs."""
    program = grow(seed, nodes)
    text = program.model.SerializeToString(deterministic=True)
    return Case("onnx", text, dict(program.inputs), origin=f"seed:{seed}")
