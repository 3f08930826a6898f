"""Rewrites that are wrong, planted in a small compiler (`tests.bench.planted`).

They look for a node and the node that makes one of its operands, as a compiler's patterns do. No rule of
clustering was chosen on them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

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


def double_for_square(graph: Graph, node: Any) -> bool:
    """x ** 2 is taken for x * 2."""
    exponent = graph.constant(node.input[1])
    is_square = exponent is not None and exponent.size == 1 and exponent.item() == 2
    return is_square and graph.replace(node, "Mul", [node.input[0], node.input[1]])


def drop_floor_of_quotient(graph: Graph, node: Any) -> bool:
    """A quotient is taken for a whole number, as it is of integers."""
    quotient = graph.maker(node, "Div")
    return quotient is not None and graph.replace(node, "Identity", [quotient.output[0]])


def round_down(graph: Graph, node: Any) -> bool:
    """To round is taken for the floor."""
    return graph.replace(node, "Floor", node.input)


def join_what_was_split(graph: Graph, node: Any) -> bool:
    """Parts joined again are taken for the whole, in whatever order."""
    parts = graph.maker(node, "Split")
    joins = parts is not None and sorted(parts.output) == sorted(node.input)
    return joins and graph.replace(node, "Identity", [parts.input[0]])


def drop_added_axis(graph: Graph, node: Any) -> bool:
    """An axis that is added and one that goes are taken for the same."""
    added = graph.maker(node, "Unsqueeze")
    return added is not None and graph.replace(node, "Identity", [added.input[0]])


def mean_by_sum(graph: Graph, node: Any) -> bool:
    """A mean is half of a sum, however many there are."""
    if graph.maker(node, "Mul") is None:
        return False
    made = f"{node.output[0]}_sum"
    place = list(graph.graph.node).index(node)
    graph.graph.node.insert(place, helper.make_node("ReduceSum", list(node.input), [made], **others(node)))
    return graph.replace(graph.graph.node[place + 1], "Add", [made, made])


def keep_reduced_axes(graph: Graph, node: Any) -> bool:
    """The axes of a maximum stay, asked for or not."""
    goes = not attribute(node, "keepdims", 1)
    return goes and graph.replace(node, "ReduceMax", node.input, **others(node, "keepdims"), keepdims=1)


def take_largest(graph: Graph, node: Any) -> bool:
    """Of the smallest elements the largest are taken."""
    if attribute(node, "largest", 1):
        return False
    node.CopyFrom(
        helper.make_node("TopK", list(node.input), list(node.output), **others(node, "largest"), largest=1)
    )
    return True


def multiply_before_transposing(graph: Graph, node: Any) -> bool:
    """The product of two transposed matrices is the transposed product, in the wrong order."""
    one, two = graph.maker(node, "Transpose"), graph.maker(node, "Transpose", 1)
    if one is None or two is None:
        return False
    made = f"{node.output[0]}_product"
    place = list(graph.graph.node).index(node)
    graph.graph.node.insert(place, helper.make_node("MatMul", [one.input[0], two.input[0]], [made]))
    return graph.replace(graph.graph.node[place + 1], "Transpose", [made], perm=[1, 0])


def pad_at_the_other_end(graph: Graph, node: Any) -> bool:
    """Padding that is folded into a convolution changes its end."""
    pad = graph.maker(node, "Pad")
    amounts = graph.constant(pad.input[1]) if pad is not None else None
    if pad is None or amounts is None:
        return False
    half = len(amounts) // 2
    pads = [int(each) for each in (*amounts[half + 2 :], *amounts[2:half])]
    return graph.replace(node, "Conv", [pad.input[0], *node.input[1:]], **others(node, "pads"), pads=pads)


def leave_padding_out(graph: Graph, node: Any) -> bool:
    """The mean of a window is that of the image alone, asked for or not."""
    counts = bool(attribute(node, "count_include_pad", 0))
    return counts and graph.replace(node, "AveragePool", node.input, **others(node, "count_include_pad"))


def take_inner_bounds(graph: Graph, node: Any) -> bool:
    """Of two clips the inner one is kept."""
    inner = graph.maker(node, "Clip")
    return inner is not None and graph.replace(node, "Identity", [inner.output[0]])


def negate_wrongly(graph: Graph, node: Any) -> bool:
    """Neither is taken for not both."""
    both = graph.maker(node, "And")
    if both is None:
        return False
    either = f"{node.output[0]}_or"
    place = list(graph.graph.node).index(node)
    graph.graph.node.insert(place, helper.make_node("Or", list(both.input), [either]))
    return graph.replace(graph.graph.node[place + 1], "Not", [either])


def gather_along_first(graph: Graph, node: Any) -> bool:
    """Elements are gathered along the first axis, whichever is asked for."""
    other = attribute(node, "axis", 0) != 0
    return other and graph.replace(node, "GatherElements", node.input, axis=0)


def forget_diagonal(graph: Graph, node: Any) -> bool:
    """The triangle begins at the main diagonal, whichever is asked for."""
    asked = len(node.input) > 1
    return asked and graph.replace(node, "Trilu", node.input[:1], **others(node))


def overwrite_for_add(graph: Graph, node: Any) -> bool:
    """What is scattered overwrites where it should add."""
    adds = attribute(node, "reduction", b"none") != b"none"
    return adds and graph.replace(node, "ScatterElements", node.input, **others(node, "reduction"))


def add_two_of_three(graph: Graph, node: Any) -> bool:
    """A sum has two operands, however many there are."""
    more = len(node.input) > 2
    return more and graph.replace(node, "Add", node.input[:2])


def take_xor_for_or(graph: Graph, node: Any) -> bool:
    """What is in both is in the union too, which is forgotten."""
    return graph.replace(node, "BitwiseXor", node.input)


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
    Fault("Pow", double_for_square, "Simplify"),
    Fault("Floor", drop_floor_of_quotient, "Simplify"),
    Fault("Round", round_down, "Simplify"),
    Fault("Clip", take_inner_bounds, "Simplify"),
    Fault("Not", negate_wrongly, "Simplify"),
    Fault("Sum", add_two_of_three, "Simplify"),
    Fault("BitwiseOr", take_xor_for_or, "Simplify"),
    Fault("Concat", join_what_was_split, "Layout"),
    Fault("Squeeze", drop_added_axis, "Layout"),
    Fault("ReduceMax", keep_reduced_axes, "Layout"),
    Fault("TopK", take_largest, "Layout"),
    Fault("MatMul", multiply_before_transposing, "Layout"),
    Fault("GatherElements", gather_along_first, "Layout"),
    Fault("Trilu", forget_diagonal, "Layout"),
    Fault("ScatterElements", overwrite_for_add, "Layout"),
    Fault("ReduceMean", mean_by_sum, "Fuse"),
    Fault("Conv", pad_at_the_other_end, "Fuse"),
    Fault("AveragePool", leave_padding_out, "Fuse"),
)
