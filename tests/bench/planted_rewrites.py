"""Rewrites that are wrong, planted in a small compiler (`tests.bench.planted`).

They look for a node and the node that makes one of its operands, as a compiler's patterns do.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper


class Graph:
    """A graph that is being rewritten in place."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.makers = {name: node for node in graph.node for name in node.output}
        self.weights = {tensor.name: tensor for tensor in graph.initializer}

    def maker(self, node: Any, operator: str, operand: int = 0) -> Any:
        """The node of this operator that makes an operand of `node`, or None."""
        made = self.makers.get(node.input[operand]) if operand < len(node.input) else None
        return made if made is not None and made.op_type == operator else None

    def constant(self, name: str) -> Any:
        """The value of a weight or of a Constant node, or None."""
        if name in self.weights:
            return numpy_helper.to_array(self.weights[name])
        made = self.makers.get(name)
        return attribute(made, "value") if made is not None and made.op_type == "Constant" else None

    def replace(self, node: Any, operator: str, operands: Iterable[str], **attributes: Any) -> bool:
        """Let the node be another one; what is not used any more may stay."""
        new = helper.make_node(operator, list(operands), list(node.output), **attributes)
        node.CopyFrom(new)
        return True

    def weight(self, values: Any) -> str:
        """The name of a new weight."""
        name = f"planted_{len(self.graph.initializer)}"
        self.graph.initializer.append(numpy_helper.from_array(values, name))
        return name


def attribute(node: Any, name: str, default: Any = None) -> Any:
    for each in node.attribute:
        if each.name == name:
            value = helper.get_attribute_value(each)
            return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value
    return default


def others(node: Any, *without: str) -> dict[str, Any]:
    return {
        each.name: helper.get_attribute_value(each) for each in node.attribute if each.name not in without
    }


def drop_relu_before_clip(graph: Graph, node: Any) -> bool:
    """Right where the lower bound is not negative, which is not asked."""
    relu = graph.maker(node, "Relu")
    return relu is not None and graph.replace(node, "Clip", [relu.input[0], *node.input[1:]])


def drop_abs_of_neg(graph: Graph, node: Any) -> bool:
    """|-x| is taken for x."""
    neg = graph.maker(node, "Neg")
    return neg is not None and graph.replace(node, "Identity", [neg.input[0]])


def drop_root_of_square(graph: Graph, node: Any) -> bool:
    """The root of x·x is taken for x."""
    square = graph.maker(node, "Mul")
    is_square = square is not None and square.input[0] == square.input[1]
    return is_square and graph.replace(node, "Identity", [square.input[0]])


def invert_less(graph: Graph, node: Any) -> bool:
    """Not less is taken for greater: equal ones are lost."""
    less = graph.maker(node, "Less")
    return less is not None and graph.replace(node, "Greater", less.input)


def drop_product_of_quotient(graph: Graph, node: Any) -> bool:
    """(x / c) · c is taken for x, for integers too."""
    quotient = graph.maker(node, "Div")
    same = quotient is not None and quotient.input[1] == node.input[1]
    return same and graph.replace(node, "Identity", [quotient.input[0]])


def take_minimum_for_maximum(graph: Graph, node: Any) -> bool:
    """Max(a, Min(a, b)) is taken for b."""
    least = graph.maker(node, "Min", 1)
    absorbs = least is not None and len(node.input) == 2 and node.input[0] == least.input[0]
    return absorbs and graph.replace(node, "Identity", [least.input[1]])


def drop_chain_of_casts(graph: Graph, node: Any) -> bool:
    """A cast back is taken for nothing, whatever the type in between could not hold."""
    first = graph.maker(node, "Cast")
    return first is not None and graph.replace(
        node, "Cast", [first.input[0]], to=attribute(node, "to"), **others(node, "to")
    )


def forget_negated_condition(graph: Graph, node: Any) -> bool:
    """The branches of a Where stay as they are when the negation of its condition goes."""
    negated = graph.maker(node, "Not")
    return negated is not None and graph.replace(node, "Where", [negated.input[0], *node.input[1:]])


def merge_transposes(graph: Graph, node: Any) -> bool:
    """Two permutations are composed in the wrong order."""
    inner = graph.maker(node, "Transpose")
    if inner is None or attribute(inner, "perm") is None or attribute(node, "perm") is None:
        return False
    first, second = attribute(inner, "perm"), attribute(node, "perm")
    return graph.replace(node, "Transpose", [inner.input[0]], perm=[second[each] for each in first])


def slice_first_of_concat(graph: Graph, node: Any) -> bool:
    """A slice of a concatenation is taken from the first part, wherever it begins."""
    whole = graph.maker(node, "Concat")
    return whole is not None and graph.replace(node, "Slice", [whole.input[1], *node.input[1:]])


def sum_through_transpose(graph: Graph, node: Any) -> bool:
    """The axes of a sum stay as they are when the transposition before it goes."""
    moved = graph.maker(node, "Transpose")
    return moved is not None and graph.replace(
        node, "ReduceSum", [moved.input[0], *node.input[1:]], **others(node)
    )


def gather_within_bounds(graph: Graph, node: Any) -> bool:
    """Negative indices are taken for 0."""
    indices = graph.constant(node.input[1])
    if indices is None or not (indices < 0).any():
        return False
    kept = graph.weight(np.maximum(indices, 0))
    return graph.replace(node, "Gather", [node.input[0], kept], **others(node))


def flatten_at_one(graph: Graph, node: Any) -> bool:
    """Whatever the axis, it is taken for 1: a wrong shape."""
    axis = attribute(node, "axis", 1)
    return axis != 1 and graph.replace(node, "Flatten", node.input, axis=1)


def reverse_nothing(graph: Graph, node: Any) -> bool:
    """A reverse running sum is taken for a plain one."""
    wrong = bool(attribute(node, "reverse", 0))
    return wrong and graph.replace(node, "CumSum", node.input, **others(node, "reverse"))


def fold_pad_into_pool(graph: Graph, node: Any) -> bool:
    """Padding with zeros is taken for padding that the maximum ignores."""
    pad = graph.maker(node, "Pad")
    amounts = graph.constant(pad.input[1]) if pad is not None else None
    if pad is None or amounts is None or any(attribute(node, "pads", [0])):
        return False
    half = len(amounts) // 2
    pads = [int(each) for each in (*amounts[2:half], *amounts[half + 2 :])]
    return graph.replace(node, "MaxPool", [pad.input[0]], **others(node, "pads"), pads=pads)


def forget_scale_of_gemm(graph: Graph, node: Any) -> bool:
    """A Gemm's alpha is lost when Relu is fused with it."""
    product = graph.maker(node, "Gemm")
    if product is None or attribute(product, "alpha", 1.0) == 1.0:
        return False
    product.CopyFrom(
        helper.make_node("Gemm", list(product.input), list(product.output), **others(product, "alpha"))
    )
    return True


def forget_slope(graph: Graph, node: Any) -> bool:
    """LeakyRelu after an Add has the slope that is the default."""
    if graph.maker(node, "Add") is None or attribute(node, "alpha", 0.01) == 0.01:
        return False
    return graph.replace(node, "LeakyRelu", node.input)


def normalise_last_axis(graph: Graph, node: Any) -> bool:
    """A Softmax of a product is along the last axis."""
    if graph.maker(node, "Mul") is None or attribute(node, "axis", -1) == -1:
        return False
    return graph.replace(node, "Softmax", node.input, axis=-1)


def forget_epsilon(graph: Graph, node: Any) -> bool:
    """LayerNormalization after an Add has the epsilon that is the default."""
    if graph.maker(node, "Add") is None or attribute(node, "epsilon", 1e-5) == 1e-5:
        return False
    return graph.replace(node, "LayerNormalization", node.input, **others(node, "epsilon"))


def drop_quantisation(graph: Graph, node: Any) -> bool:
    """A pair of quantisation and dequantisation is taken for nothing."""
    pair = graph.maker(node, "QuantizeLinear")
    return pair is not None and graph.replace(node, "Identity", [pair.input[0]])


def multiply_by_logarithms(graph: Graph, node: Any) -> bool:
    """A product is the exponential of a sum of logarithms: NaN for negative ones."""
    made = f"{node.output[0]}_log"
    keep = others(node)
    place = list(graph.graph.node).index(node)
    graph.graph.node.insert(place, helper.make_node("Log", [node.input[0]], [made]))
    graph.graph.node.insert(
        place + 1, helper.make_node("ReduceSum", [made, *node.input[1:]], [made + "_sum"], **keep)
    )
    return graph.replace(graph.graph.node[place + 2], "Exp", [made + "_sum"])


def take_sign_of_divisor(graph: Graph, node: Any) -> bool:
    """The C remainder is taken for the one of Python."""
    return bool(attribute(node, "fmod", 0)) and graph.replace(node, "Mod", node.input, fmod=0)


def drop_shifts(graph: Graph, node: Any) -> bool:
    """A shift back is taken for nothing, whatever was shifted out."""
    there = graph.maker(node, "BitShift")
    return there is not None and graph.replace(node, "Identity", [there.input[0]])


def take_first_of_ties(graph: Graph, node: Any) -> bool:
    """Of several greatest elements the last one is wanted and the first one taken."""
    last = bool(attribute(node, "select_last_index", 0))
    return last and graph.replace(node, "ArgMax", node.input, **others(node, "select_last_index"))


@dataclass(frozen=True)
class Fault:
    """A rewrite that is wrong: the operator at which it looks, and the pass that it is part of."""

    operator: str
    rewrite: Callable[[Graph, Any], bool]
    within: str

    @property
    def name(self) -> str:
        return self.rewrite.__name__


FAULTS = (
    Fault("Clip", drop_relu_before_clip, "Simplify"),
    Fault("Abs", drop_abs_of_neg, "Simplify"),
    Fault("Sqrt", drop_root_of_square, "Simplify"),
    Fault("Not", invert_less, "Simplify"),
    Fault("Mul", drop_product_of_quotient, "Simplify"),
    Fault("Max", take_minimum_for_maximum, "Simplify"),
    Fault("Cast", drop_chain_of_casts, "Simplify"),
    Fault("Where", forget_negated_condition, "Simplify"),
    Fault("BitShift", drop_shifts, "Simplify"),
    Fault("Mod", take_sign_of_divisor, "Simplify"),
    Fault("Transpose", merge_transposes, "Layout"),
    Fault("Slice", slice_first_of_concat, "Layout"),
    Fault("ReduceSum", sum_through_transpose, "Layout"),
    Fault("Gather", gather_within_bounds, "Layout"),
    Fault("Flatten", flatten_at_one, "Layout"),
    Fault("CumSum", reverse_nothing, "Layout"),
    Fault("ArgMax", take_first_of_ties, "Layout"),
    Fault("MaxPool", fold_pad_into_pool, "Fuse"),
    Fault("Relu", forget_scale_of_gemm, "Fuse"),
    Fault("LeakyRelu", forget_slope, "Fuse"),
    Fault("Softmax", normalise_last_axis, "Fuse"),
    Fault("LayerNormalization", forget_epsilon, "Fuse"),
    Fault("DequantizeLinear", drop_quantisation, "Fuse"),
    Fault("ReduceProd", multiply_by_logarithms, "Fuse"),
)
