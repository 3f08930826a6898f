"""Nodes while jax traces them: where their operands come from, and what these are worth if a shape asks."""

from typing import Any, Callable  # noqa: UP035 (Python 3.8)

import numpy as np
from onnx import helper, numpy_helper

from oracles.worker.onnx import Op, Unsupported, evaluator_of

MOST_ELEMENTS = 1 << 36
"""No value has more elements: XLA itself ends the process at sizes beyond all machines."""

LowerNode = Callable[[Any, "list[Any]", "Scope"], Any]


class Scope:
    """A graph's nodes, with what is known of its inputs and weights before it runs."""

    def __init__(self, model: Any, known: dict[str, Any], lower: LowerNode) -> None:
        self.model = model
        self.graph = model.graph
        self.known = known
        self.lower = lower
        self.opset = max(
            (each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), default=1
        )
        self.makers = {name: node for node in model.graph.node for name in node.output if name}
        self.values: dict[str, Any] = {}

    def within(self, graph: Any) -> "Scope":
        """The scope of a body: it sees this one."""
        inner = Scope.__new__(Scope)
        inner.__dict__.update(self.__dict__)
        weights = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
        inner.graph, inner.values = graph, {**self.values, **weights}
        inner.makers = {**self.makers, **{name: node for node in graph.node for name in node.output if name}}
        inner.known = {**self.known, **weights}
        return inner

    def outputs(self, given: dict[str, Any]) -> "list[Any]":
        """Lower every node on these values; the values of the graph's outputs."""
        self.values.update(given)
        for node in self.graph.node:
            operands = [self.values[name] if name else None for name in node.input]
            found = self.lower(node, operands, self)
            several = found if isinstance(found, tuple) else (found,)
            if any(getattr(each, "size", 0) > MOST_ELEMENTS for each in several):
                raise MemoryError(f"{node.op_type}: no machine has room for its result")
            self.values.update({name: each for name, each in zip(node.output, several) if name})  # noqa: B905
        return [self.values[each.name] for each in self.graph.output]

    def known_value(self, name: str) -> Any:
        """The value of a tensor by ONNX's own evaluator; it lacks forms of operators: Unsupported there."""
        if isinstance(self.values.get(name), np.ndarray):  # of a size that is part of a type
            return self.values[name]
        if name not in self.known:
            nodes, leaves = self._needed(name)
            output = helper.make_empty_tensor_value_info(name)
            inputs = [helper.make_empty_tensor_value_info(each) for each in leaves]
            graph = helper.make_graph(nodes, "needed", inputs, [output])
            model = helper.make_model(graph, opset_imports=self.model.opset_import)
            given = {each: self.known.get(each, self.values.get(each)) for each in leaves}
            try:
                self.known[name] = evaluator_of(model).run(None, given)[0]
            except Exception as error:
                why = f"{nodes[-1].op_type}: no lowering for a size that ONNX's evaluator cannot compute"
                raise Unsupported(why) from error
        return self.known[name]

    def _needed(self, name: str) -> "tuple[list[Any], list[str]]":
        """The nodes before a tensor, in order, and the known values that they read."""
        chosen: list[Any] = []
        leaves: dict[str, None] = {}
        waiting = [(name, False)]
        while waiting:
            each, is_done = waiting.pop()
            if each in self.known or not each or isinstance(self.values.get(each), np.ndarray):
                leaves.update({each: None} if each else {})
                continue
            node = self.makers[each]
            if is_done:
                chosen.extend([] if any(node is other for other in chosen) else [node])
            else:
                waiting.append((each, True))
                waiting.extend((other, False) for other in node.input)
        return chosen, list(leaves)


class TracedOp(Op):
    """A node at hand whose operands are traced; what decides shapes is asked for by `known`."""

    def __init__(self, node: Any, attributes: dict[str, Any], values: "list[Any]", scope: Scope) -> None:
        super().__init__(node.op_type, attributes, values, scope.opset, len(node.output))
        self.node = node
        self.scope = scope

    def known(self, index: int) -> Any:
        """Give an operand's value as an array."""
        value = self.values[index]
        return value if isinstance(value, np.ndarray) else self.scope.known_value(self.node.input[index])

    def item(self, index: int, default: Any = None) -> Any:
        """Give an operand's only number, or the default where there is none."""
        return self.known(index).reshape(-1)[0].item() if self.has(index) else default
