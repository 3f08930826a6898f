"""Programs that are valid by construction: operator specs, graph growth, values."""

import onnx

from corpus.case import Case
from generators.growth.grow import grow
from generators.mixture import Generated, Options, generate

__all__ = ["Generated", "Options", "generate", "make_case", "make_model"]


def make_model(seed: int, nodes: int) -> onnx.ModelProto:
    """The ONNX model of this seed: the same bytes on any machine."""
    return grow(seed, nodes).model


def make_case(seed: int, nodes: int) -> Case:
    """The model of this seed with values for its inputs."""
    return grow(seed, nodes).as_case(seed)
