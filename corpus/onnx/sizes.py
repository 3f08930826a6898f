"""Sizes for a model's free dims on which its nodes agree: with weights, with fixed dims, with each other.

onnx's own inference carries the dims of the inputs through the graph under names; where a node needs two dims
to be equal, their names become one class. A class is the size that a weight or a fixed dim gives it, else a
small number that no other class has, so that a dim in the wrong place shows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from onnx import ModelProto, NodeProto, TypeProto, helper

from corpus.onnx.graph import consumers, initializer_names
from corpus.onnx.types import declared_shape, graph_types, infer, input_type, untyped_copy
from corpus.values import Shape, computed_dim

Dim = int | str
Shapes = Mapping[str, Shape | None]

_ROUNDS = 6
_SIDE = 32
_SMALL = (2, 3, 5, 4, 7, 6, 11, 8, 9, 13, 10, 12)
_MOST = 1 << 16
_LONGEST = 200

_LIKE_ADD_TEXT = """
    Add And BiasGelu BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal FastGelu Greater GreaterOrEqual
    Less LessOrEqual Max Mean Min Mod Mul Or PRelu Pow Sub Sum Where Xor
"""
_LIKE_ADD = frozenset(_LIKE_ADD_TEXT.split())
_WINDOWS = re.compile(r"Conv|Pool|Resize|Upsample")
_SAME_RANK_TEXT = """
    Abs Cast Clip Dropout Elu Erf Exp Gelu HardSigmoid Identity LeakyRelu Log LogSoftmax Neg Not Relu
    Round Selu Sigmoid Sign Softmax Softplus Sqrt Tanh
"""
_SAME_RANK = frozenset(_SAME_RANK_TEXT.split())

OPERANDS: Mapping[str, tuple[str, ...]] = {
    "Attention": ("b s i", "i .", ".", "*", ". b n l h"),
    "BatchNormalization": (". c *", "c", "c", "c", "c"),
    "BeamSearch": ("b s", "1", "1", "1", "1", "1", "1"),
    "DequantizeLinear": ("*",),
    "EmbedLayerNormalization": ("b s", "b s", ". d", ". d", ". d", "d", "d", "b s", "b s"),
    "GRU": ("s b i", "r . i", "r . h", "r .", "b", "r b h"),
    "GreedySearch": ("b s", "1", "1", "1"),
    "GridSample": ("b . . .", "b . . 2"),
    "GroupNormalization": ("b c *",),
    "GroupQueryAttention": ("b s .", "b s k", "b s k", "b g p e", "b g p e", "b", "1"),
    "InstanceNormalization": (". c *", "c", "c"),
    "LSTM": ("s b i", "r . i", "r . h", "r .", "b", "r b h", "r b h"),
    "LayerNormalization": ("* d", "d", "d"),
    "MultiHeadAttention": ("b s d", "b l d", "b l v"),
    "NonMaxSuppression": ("b x 4", "b c x", "1", "1", "1"),
    "RNN": ("s b i", "r . i", "r . h", "r .", "b", "r b h"),
    "RMSNormalization": ("* d", "d"),
    "RoiAlign": (". . . .", "r 4", "r"),
    "RotaryEmbedding": ("b * d", "*"),
    "Sampling": ("b s", "1", "1", "1"),
    "SimplifiedLayerNormalization": ("* d", "d"),
    "SkipLayerNormalization": ("b s d", "b s d", "d", "d", "d"),
    "SkipSimplifiedLayerNormalization": ("b s d", "b s d", "d", "d"),
}
"""The dims of operators' operands: equal letters are equal sizes, a dot is any size, a star any dims."""


@dataclass(frozen=True)
class Plan:
    """What is settled of a model's inputs before they are made.

    `sizes` are those of dims by name (a dim without one is `input#axis`), `ranks` of inputs that declare
    none, `bounds` the least and the greatest of an input's numbers.
    """

    sizes: Mapping[str, int] = field(default_factory=dict)
    ranks: Mapping[str, int] = field(default_factory=dict)
    bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def with_size(self, dim: str, size: int) -> Plan:
        """The plan with another size of a dim."""
        return replace(self, sizes={**self.sizes, dim: size})


@dataclass(frozen=True)
class Solved:
    """The static shape of each input, and the class of each of its free dims."""

    shapes: Mapping[str, tuple[int, ...]]
    dims: Mapping[str, tuple[Dim, ...]]


class _Classes:
    """Dims that are equal: numbers and names, with one of them to stand for all."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._parents: dict[str, Dim] = dict(sizes)
        self.changed = False

    def of(self, dim: Dim) -> Dim:
        while isinstance(dim, str) and dim in self._parents:
            dim = self._parents[dim]
        return dim

    def join(self, left: Dim | None, right: Dim | None) -> None:
        """Make two dims one; two different numbers stay what they are, for the run to refuse."""
        if left is None or right is None:
            return
        left, right = self.of(left), self.of(right)
        if left == right or (isinstance(left, int) and isinstance(right, int)):
            return
        if isinstance(left, int):
            left, right = right, left
        assert isinstance(left, str)
        self._parents[left] = right
        self.changed = True


def solve(model: ModelProto, plan: Plan) -> Solved:
    """Find the shapes of the required inputs that are tensors, or sequences of such."""
    defaults = initializer_names(model.graph)
    declared = {
        value.name: found.shape
        for value in model.graph.input
        if value.name not in defaults and (found := input_type(value.type)) is not None
    }
    ranks = {name: _rank(model, name, plan) for name, shape in declared.items() if shape is None}
    dims = {name: _named(name, shape, ranks) for name, shape in declared.items()}
    classes = _Classes(plan.sizes)
    for _ in range(_ROUNDS):
        known = {name: tuple(map(classes.of, own)) for name, own in dims.items()}
        shapes = _inferred(model, known)
        classes.changed = False
        for node in model.graph.node:
            for left, right in _equal(node, [shapes.get(name) for name in node.input]):
                classes.join(left, right)
        if not classes.changed:
            break
    known = {name: tuple(map(classes.of, own)) for name, own in dims.items()}
    sizes = _chosen(model, known)
    shapes_of = {
        name: tuple(dim if isinstance(dim, int) else sizes[dim] for dim in own) for name, own in known.items()
    }
    return Solved(shapes_of, dims)


def _named(name: str, shape: Shape | None, ranks: Mapping[str, int]) -> tuple[Dim, ...]:
    dims: Shape = (None,) * ranks[name] if shape is None else shape
    return tuple(f"{name}#{axis}" if dim is None else dim for axis, dim in enumerate(dims))


def _inferred(model: ModelProto, dims: Mapping[str, tuple[Dim, ...]]) -> dict[str, Shape | None]:
    light = untyped_copy(model)
    for value in light.graph.input:
        if value.name in dims and value.type.HasField("tensor_type"):
            code = value.type.tensor_type.elem_type
            value.type.CopyFrom(helper.make_tensor_type_proto(code, dims[value.name]))
    return {name: _shape(declared) for name, declared in graph_types(infer(light).graph).items()}


def _shape(declared: TypeProto) -> Shape | None:
    return declared_shape(declared.tensor_type) if declared.HasField("tensor_type") else None


# What a node asks of the dims of its operands

_Pairs = Iterator[tuple[Dim | None, Dim | None]]


def _equal(node: NodeProto, shapes: list[Shape | None]) -> _Pairs:
    """Yield dims that have to be equal."""
    known = [shape for shape in shapes if shape is not None]
    if node.op_type in _LIKE_ADD:
        yield from _broadcast(known)
    elif node.op_type in OPERANDS:
        yield from _by_letters(OPERANDS[node.op_type], shapes)
    elif node.op_type == "Concat" and known:
        axis = _attribute(node, "axis", 0)
        for shape in known[1:]:
            for at, pair in enumerate(zip(known[0], shape, strict=False)):
                if at != axis % max(len(known[0]), 1):
                    yield pair
    elif len(shapes) > 1 and shapes[0] is not None and shapes[1] is not None:
        yield from _product(node, shapes[0], shapes[1])


def _broadcast(shapes: list[Shape]) -> _Pairs:
    for axis in range(1, 1 + max(map(len, shapes), default=0)):
        dims = [shape[-axis] for shape in shapes if len(shape) >= axis and shape[-axis] not in (None, 1)]
        yield from pairwise(dims)


def _by_letters(patterns: tuple[str, ...], shapes: list[Shape | None]) -> _Pairs:
    sizes: dict[str, Dim] = {}
    for pattern, shape in zip(patterns, shapes, strict=False):
        for letter, dim in _matched(pattern.split(), shape or ()):
            if letter.isdigit():
                yield int(letter), dim
            elif dim is not None:
                yield sizes.setdefault(letter, dim), dim


def _matched(letters: list[str], shape: Shape) -> Iterator[tuple[str, Dim | None]]:
    if "*" in letters:
        at = letters.index("*")
        after = len(letters) - at - 1
        if len(shape) < len(letters) - 1:
            return
        shape = (*shape[:at], *shape[len(shape) - after :])
        letters = letters[:at] + letters[at + 1 :]
    if len(letters) == len(shape):
        yield from ((letter, dim) for letter, dim in zip(letters, shape, strict=True) if letter != ".")


def _product(node: NodeProto, left: Shape, right: Shape) -> _Pairs:
    kind = node.op_type
    if kind in ("MatMul", "MatMulInteger", "FusedMatMul", "QLinearMatMul") and left and right:
        if not any(_attribute(node, name, 0) for name in ("transA", "transB")):
            yield left[-1], right[max(len(right) - 2, 0)]
        yield from _broadcast([left[:-2], right[:-2]])
    elif kind in ("Gemm", "FusedGemm") and len(left) == len(right) == 2:
        yield left[1 - _attribute(node, "transA", 0)], right[_attribute(node, "transB", 0)]
    elif kind in ("Conv", "FusedConv", "ConvInteger", "NhwcConv") and len(left) > 1 and len(right) > 1:
        depth = right[1]
        yield left[1], depth * _attribute(node, "group", 1) if isinstance(depth, int) else None
    elif kind == "ConvTranspose" and len(left) > 1 and right:
        yield left[1], right[0]
    elif kind == "Scan" and not _attribute(node, "num_scan_inputs", 1):
        return


def _attribute(node: NodeProto, name: str, usual: int) -> int:
    return next((item.i for item in node.attribute if item.name == name), usual)


# Ranks of inputs that declare none


def _rank(model: ModelProto, name: str, plan: Plan) -> int:
    if name in plan.ranks:
        return plan.ranks[name]
    types = {key: _shape(declared) for key, declared in graph_types(model.graph).items()}
    readers = consumers(model.graph)
    waiting, seen = [name], {name}
    least = 1
    while waiting:
        for node in readers.get(waiting.pop(), ()):
            least = max(least, _rank_for(node, [item in seen for item in node.input], types))
            new = [item for item in node.output if node.op_type in _SAME_RANK and item not in seen]
            seen.update(new)
            waiting += new
    return least


def _rank_for(node: NodeProto, asked: list[bool], types: Shapes) -> int:
    """The rank that a node needs of the operands that are asked for; 1 where any will do."""
    lengths = [len(shape) for item in node.input if (shape := types.get(item)) is not None]
    patterns = OPERANDS.get(node.op_type, ())
    exact = [len(each.split()) for each, is_it in zip(patterns, asked, strict=False) if is_it]
    if exact:
        return max(exact)
    if "Conv" in node.op_type or node.op_type in _LIKE_ADD:
        return max(lengths, default=4 if "Conv" in node.op_type else 1)
    if node.op_type.startswith(("MatMul", "Gemm")):
        return 2
    if "Pool" in node.op_type or node.op_type in ("Resize", "DepthToSpace", "SpaceToDepth"):
        return 4
    least = max(lengths, default=1) if node.op_type == "Concat" else 1
    for item in node.attribute:
        if item.name == "perm":
            return len(item.ints)
        if item.name in ("axis", "axes"):
            axes = [item.i] if item.name == "axis" else list(item.ints)
            least = max([least, *(axis + 1 if axis >= 0 else -axis for axis in axes)])
    return least


# Sizes of what nothing fixes


def _chosen(model: ModelProto, dims: Mapping[str, tuple[Dim, ...]]) -> dict[Dim, int]:
    """Give each free dim a size: the sides of images room to be halved, all others a number of their own."""
    has_windows = any(_WINDOWS.search(node.op_type) for node in model.graph.node)
    sides = {dim for own in dims.values() if has_windows and len(own) > 3 for dim in own[2:]}
    free = list(dict.fromkeys(dim for own in dims.values() for dim in own if isinstance(dim, str)))
    sizes: dict[Dim, int] = {}
    small = iter(_SMALL)
    plain = [dim for dim in free if not _is_total(dim)]
    for dim in plain:
        sizes[dim] = _SIDE if dim in sides else next(small, _SMALL[-1] + len(sizes))
    for dim in free:
        if dim not in sizes:
            sizes[dim] = formula_size(dim, lambda name: sizes.get(name, 0)) or _total(sizes)
    return sizes


def _is_total(dim: Dim) -> bool:
    """Whether a dim is named for what was there before and what is new together."""
    is_formula = isinstance(dim, str) and "#" not in dim and not dim.isidentifier()
    return is_formula or re.search(r"total|all_seq|mask_len", str(dim)) is not None


def _total(sizes: Mapping[Dim, int]) -> int:
    past = [size for dim, size in sizes.items() if re.search(r"past|cache|prev", str(dim))]
    new = [
        size
        for dim, size in sizes.items()
        if re.search(r"seq|len|tok", str(dim)) and not re.search(r"past|cache|prev|max", str(dim))
    ]
    return min(sum(past[:1]) + sum(new[:1]) or _SMALL[0], _MOST)


def formula_size(name: str, size_of: Callable[[str], int]) -> int | None:
    """The size of a dim that exporters name by a formula over others, as `past + 1`; None if it is none."""
    if name.isidentifier() or len(name) > _LONGEST:
        return None
    try:
        size = computed_dim(name, size_of)
    except ValueError:
        return None
    return size if 0 < size <= _MOST else None
