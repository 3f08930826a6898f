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
PROXIES.update(dict.fromkeys(("Relu", "Clip", "HardSigmoid", "HardSwish", "ThresholdedRelu"), FLAT))
PROXIES.update(dict.fromkeys(("Sigmoid", "Tanh", "Erf", "Elu", "Selu", "Celu", "Softsign", "Softplus"), FLAT))

MARGIN = 0.02
"""How far inside of its bounds a value is wanted, so that another backend's rounding does not matter."""

GRID = 256
"""Values are drawn as multiples of 1/256."""

BITS = (8, 12, 16, 20)
"""So many bits after the point, and as many of what is small, are left of a value that was found: the fewest
with which the program is as finite as without; short in print, and rarely another on another machine."""

FASTER, SLOWER = 1.2, 0.5
"""What the stride of an element grows by while its slope keeps its sign, and shrinks by when that turns."""

SHORTEST, LONGEST = 1e-6, 50.0

DRAWS = 256
"""So many inputs are drawn before gradients, fewer for long programs: `WORK` nodes in all."""

WORK = 20_000
SIZES = (0.5, 2.0, 8.0, 64.0)
"""How far from zero the values of a draw go."""

LARGE = 10.0
"""What is too large for the operands of a node that overflows."""


def search(model: Any, inputs: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """The floating inputs of the best step: finite all the way if possible, else as far as they came.

    `guards` maps operators to (operand, low, high, least magnitude), `steps` bounds the iterations, `rate` is
    the first step, in thousandths.
    """
    found = Search(model, inputs, json.loads(settings["guards"]))
    if settings.get("draws"):
        found.draw()
    found.descend(int(settings["steps"]), int(settings["rate"]) / 1000)
    return {name: from_torch(value) for name, value in found.rounded().items()}


def on_grid(value: Any, bits: int) -> Any:
    """Round to so many bits after the point; of a value below 1 so many are kept."""
    wide = value.detach().double()
    _, exponent = torch.frexp(wide)
    grid = torch.ldexp(torch.ones((), dtype=torch.float64), (bits - exponent).clamp(min=bits, max=60))
    return (torch.round(wide * grid) / grid).to(value.dtype)


class Stride:
    """How far each element of a leaf goes in the next step: by the sign of its slope alone (Rprop)."""

    def __init__(self, leaf: Any, rate: float) -> None:
        self.leaf = leaf
        self.lengths = torch.full_like(leaf, rate, requires_grad=False)
        self.signs = torch.zeros_like(leaf, requires_grad=False)
        self.before = leaf.detach().clone()

    def step(self) -> None:
        """Go down the slope."""
        signs = self._slope().sign()
        turned = signs * self.signs
        factors = torch.ones_like(turned)
        factors[turned > 0], factors[turned < 0] = FASTER, SLOWER
        self.lengths = (self.lengths * factors).clamp(SHORTEST, LONGEST)
        self.signs = torch.where(turned < 0, torch.zeros_like(signs), signs)
        self.before = self.leaf.detach().clone()
        with torch.no_grad():
            self.leaf -= self.signs * self.lengths

    def go_back(self) -> bool:
        """Take the last step of those elements back that broke an earlier node; whether there are any."""
        broke = (self._slope() != 0) & (self.leaf.detach() != self.before)
        with torch.no_grad():
            self.leaf.copy_(torch.where(broke, self.before, self.leaf))
        self.lengths = torch.where(broke, self.lengths * SLOWER, self.lengths)
        self.signs = torch.where(broke, torch.zeros_like(self.signs), self.signs)
        return bool(broke.any())

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
            if at < last and self._goes_back():
                continue
            if at != last:  # another node, another slope
                self.strides, last = [Stride(leaf, rate) for leaf in self.leaves.values()], at
            for stride in self.strides:
                stride.step()
        self._keep(*self._first_loss())

    def _goes_back(self) -> bool:
        """Take steps back that broke an earlier node; whether there were any."""
        broke = [stride.go_back() for stride in self.strides]
        return any(broke)

    def rounded(self) -> dict[str, Any]:
        """The best inputs, on the coarsest grid on which as many nodes are finite."""
        for bits in BITS:
            tried = {name: on_grid(value, bits) for name, value in self.best.items()}
            if int(self._depths(tried)[1].min()) >= self._reached[0]:
                return tried
        return self.best

    def draw(self) -> None:
        """Draw many inputs; keep the best, or what is best of each element, or row, wherever it was drawn.

        Most nodes take one element to one, or a row to a row: what comes far in one draw does so in others.
        """
        chosen = torch.Generator().manual_seed(0)
        found = []
        for number in range(min(DRAWS, WORK // max(1, len(self.nodes)))):
            size = SIZES[number % len(SIZES)]
            drawn = {name: _drawn(leaf, size, chosen) for name, leaf in self.leaves.items()}
            found.append((drawn, self._depths(drawn)))
        for whole in (_by_element, _by_row):
            for leaf in self.leaves.values():
                shape = tuple(leaf.shape)
                same = [(drawn, depths) for drawn, (own, depths) in found if own == shape]
                if same and shape:
                    mixed = whole(same, shape)
                    found.append((mixed, self._depths(mixed)))
        now = {name: leaf.detach() for name, leaf in self.leaves.items()}
        best = max([(now, self._depths(now)), *found], key=_depth)
        with torch.no_grad():
            for name, leaf in self.leaves.items():
                leaf.copy_(best[0][name])

    def _depths(self, drawn: dict[str, Any]) -> tuple[tuple[int, ...], Any]:
        """The shape that most nodes have, and by element how many nodes are finite there."""
        values = {**self.values, **drawn}
        shape = next((tuple(leaf.shape) for leaf in self.leaves.values()), ())
        depths = torch.full(shape, len(self.nodes))
        with torch.no_grad():
            for at, node in enumerate(self.nodes):
                try:
                    made = self._run(node, [values[name] if name else None for name in node.input])
                except Unsupported:
                    break
                values.update(zip(node.output, made))  # noqa: B905 (Python 3.8)
                for value in filter(is_movable, made):
                    bad = ~torch.isfinite(value)
                    bad = bad if tuple(value.shape) == shape else bad.any().expand(shape)
                    depths = torch.where(bad & (depths > at), torch.full_like(depths, at), depths)
        return shape, depths

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


def _depth(found: Any) -> tuple[int, int]:
    """How many nodes are finite in all of a draw, then in each of its elements together."""
    depths = found[1][1]
    return int(depths.min()), int(depths.sum())


def _drawn(leaf: Any, size: float, chosen: Any) -> Any:
    """Draw values of both signs, most of them small, on the grid."""
    drawn = torch.empty(leaf.shape, dtype=torch.float64).uniform_(-1, 1, generator=chosen)
    return (torch.round(drawn.abs().sqrt() * drawn * size * GRID) / GRID).to(leaf.dtype)


def _by_element(same: list[Any], shape: tuple[int, ...]) -> dict[str, Any]:
    """Take each element from the draw in which it comes furthest; leaves of another shape from the first."""
    at = torch.stack([depths for _, depths in same]).argmax(0, keepdim=True)
    return _picked(same, shape, at)


def _by_row(same: list[Any], shape: tuple[int, ...]) -> dict[str, Any]:
    """Take each row, along the last axis, from the draw in which it comes furthest."""
    depths = torch.stack([depths for _, depths in same]).amin(-1, keepdim=True)
    return _picked(same, shape, depths.argmax(0, keepdim=True).expand(1, *shape))


def _picked(same: list[Any], shape: tuple[int, ...], at: Any) -> dict[str, Any]:
    picked = {}
    for name, first in same[0][0].items():
        each = torch.stack([drawn[name] for drawn, _ in same])
        picked[name] = each.gather(0, at)[0] if tuple(first.shape) == shape else first
    return picked


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
