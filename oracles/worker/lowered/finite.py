"""Inputs under which a program stays finite, by gradients: NNSmith's search (section 3.3).

The nodes run one by one up to the first with a NaN or an infinity; how far its operands are from what it
bears is the loss, lowered in steps whose lengths each element finds for itself (Rprop). Where a derivative is
zero, or nearly so, a proxy stands in for it.
"""

import json
from typing import Any

import torch

from oracles.worker.lowered.module import attributes_of, lowering_of, of_proto, version_of
from oracles.worker.onnx import Op, Unsupported, fed_names
from oracles.worker.torch.data import from_torch, to_torch

STEEP, FLAT = 1.0, 0.05
"""Added to the derivative of steps, and of functions that are flat somewhere."""

PROXIES = dict.fromkeys(("Floor", "Ceil", "Round", "Sign"), STEEP)
PROXIES.update(dict.fromkeys(("Relu", "Clip", "HardSigmoid", "HardSwish", "ThresholdedRelu", "Shrink"), FLAT))
PROXIES.update(dict.fromkeys(("Sigmoid", "Tanh", "Erf", "Elu", "Selu", "Celu", "Softsign", "Softplus"), FLAT))

MARGIN = 0.02
"""How far inside of its bounds a value is wanted, so that another backend's rounding does not matter."""

FASTER, SLOWER = 1.2, 0.5
"""What the stride of an element grows by while its slope keeps its sign, and shrinks by when that turns."""

SHORTEST, LONGEST = 1e-6, 50.0

LARGE = 10.0
"""What is too large for the operands of a node that overflows."""


def search(model: Any, inputs: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """The floating inputs of the best step: finite all the way if possible, else as far as they came.

    `guards` maps operators to (operand, low, high, least magnitude), `steps` bounds the iterations, `rate` is
    the first step, in thousandths.
    """
    found = Search(model, inputs, json.loads(settings["guards"]))
    found.descend(int(settings["steps"]), int(settings["rate"]) / 1000)
    return {name: from_torch(value) for name, value in found.best.items()}


class Stride:
    """How far each element of a leaf goes in the next step: by the sign of its slope alone (Rprop)."""

    def __init__(self, leaf: Any, rate: float) -> None:
        self.leaf = leaf
        self.lengths = torch.full_like(leaf, rate, requires_grad=False)
        self.signs = torch.zeros_like(leaf, requires_grad=False)

    def step(self) -> None:
        """Go down the slope."""
        signs = self._slope().sign()
        turned = signs * self.signs
        factors = torch.ones_like(turned)
        factors[turned > 0], factors[turned < 0] = FASTER, SLOWER
        self.lengths = (self.lengths * factors).clamp(SHORTEST, LONGEST)
        self.signs = torch.where(turned < 0, torch.zeros_like(signs), signs)
        with torch.no_grad():
            self.leaf -= self.signs * self.lengths

    def _slope(self) -> Any:
        if self.leaf.grad is None:
            return torch.zeros_like(self.leaf, requires_grad=False)
        return torch.nan_to_num(self.leaf.grad, 0.0, 1.0, -1.0)


class Search:
    """A program, the values that may move, and the best of them so far."""

    def __init__(self, model: Any, inputs: dict[str, Any], guards: dict[str, list[list[Any]]]) -> None:
        self.nodes = list(model.graph.node)
        self.opset = version_of(model)
        self.guards = guards
        self.values = {tensor.name: of_proto(tensor) for tensor in model.graph.initializer}
        self.values.update({name: to_torch(inputs[name]) for name in fed_names(model.graph)})
        self.leaves = {
            name: self.values[name].requires_grad_()
            for name in fed_names(model.graph)
            if self.values[name].is_floating_point()
        }
        self.strides: list[Stride] = []
        self.best: dict[str, Any] = {}
        self._reached = (-1, 0.0)

    def descend(self, steps: int, rate: float) -> None:
        """Step until every node is finite, no loss is left, or the steps are used up."""
        last = -1
        for _ in range(steps):
            at, loss = self._first_loss()
            self._keep(at, loss)
            if loss is None or not loss.requires_grad:
                return
            for leaf in self.leaves.values():
                leaf.grad = None
            loss.backward()
            if at != last:  # another node, another slope
                self.strides, last = [Stride(leaf, rate) for leaf in self.leaves.values()], at
            for stride in self.strides:
                stride.step()
        self._keep(*self._first_loss())

    def _keep(self, at: int, loss: Any) -> None:
        reached = (at, 0.0 if loss is None else -float(loss))
        if not self.best or reached > self._reached:
            self._reached = reached
            self.best = {name: leaf.detach().clone() for name, leaf in self.leaves.items()}

    def _first_loss(self) -> tuple[int, Any]:
        """The first node that is not finite, and its loss; None where there is none that is known of."""
        values = dict(self.values)
        for at, node in enumerate(self.nodes):
            operands = [values[name] if name else None for name in node.input]
            try:
                made = self._run(node, operands)
            except Unsupported:
                return at, None
            if not all(map(is_finite, made)) and all(map(is_finite, operands)):
                loss = self._loss(node, operands)
                if loss.requires_grad:  # else no input has a say in it
                    return at, loss
            values.update(zip(node.output, made))  # noqa: B905 (Python 3.8)
        return len(self.nodes), None

    def _run(self, node: Any, operands: list[Any]) -> list[Any]:
        known = [value if value is None else value.detach() for value in operands]
        op = Op(node.op_type, attributes_of(node), known, self.opset, len(node.output))
        function = lowering_of(node)(op)
        found = function(*operands)
        if node.op_type in PROXIES:
            found = found + PROXIES[node.op_type] * (operands[0] - known[0])
        return list(found) if isinstance(found, (tuple, list)) else [found]

    def _loss(self, node: Any, operands: list[Any]) -> Any:
        """The distance of the operands from the guards; without a guard, their size."""
        total = torch.zeros(())
        for place, low, high, away in self.guards.get(node.op_type, ()):
            if place < len(operands) and is_movable(operands[place]):
                total = total + violation(operands[place].float(), low, high, away)
        if float(total) > 0:
            return total
        movable = [value.float().abs() for value in operands if is_movable(value)]
        return sum((torch.relu(value - LARGE).mean() + 0.01 * value.mean() for value in movable), total)


def violation(value: Any, low: float | None, high: float | None, away: float) -> Any:
    """The mean distance to the bounds (None: there is none) and from zero, its square where it is small."""
    found = torch.zeros_like(value)
    if low is not None:
        found = found + torch.relu(low + MARGIN - value)
    if high is not None:
        found = found + torch.relu(value - high + MARGIN)
    if away:
        side = torch.where(value.detach() < 0, -1.0, 1.0)
        found = found + torch.relu(away + MARGIN - value * side)
    return torch.where(found < 1, found * found / 2, found - 0.5).mean()


def is_movable(value: Any) -> bool:
    """Say whether the search may move a value: it holds floats."""
    return value is not None and value.is_floating_point() and value.numel() > 0


def is_finite(value: Any) -> bool:
    """Say whether a value holds neither NaN nor infinity."""
    return not is_movable(value) or bool(torch.isfinite(value).all())
