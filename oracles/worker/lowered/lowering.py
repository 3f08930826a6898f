"""What a lowering of an ONNX operator to torch is.

A lowering looks at a node (`Op`), whose operands have their values already, and returns a function of its
tensors: whatever decides shapes (axes, sizes, pads) is a plain number by then, as it would be in a program
written for torch.
"""

from typing import Any, Callable  # noqa: UP035 (Python 3.8)

from oracles.worker.torch.data import Unsupported

Function = Any
"""Of tensors; what torch offers has no types here."""
Lowering = Callable[["Op"], Any]


class Op:
    """A node at hand: attributes, its operands' values (None where absent), the opset, how many outputs."""

    def __init__(self, name: str, attributes: dict[str, Any], values: list[Any], opset: int, outputs: int):
        self.name = name
        self.attributes = attributes
        self.values = values
        self.opset = opset
        self.outputs = outputs

    def get(self, name: str, default: Any = None) -> Any:
        """Give an attribute, or the default where the node leaves it out."""
        return self.attributes.get(name, default)

    def has(self, index: int) -> bool:
        """Say whether the node has an input at this place."""
        return index < len(self.values) and self.values[index] is not None

    def numbers(self, index: int, attribute: str = "") -> list[Any] | None:
        """An operand as plain numbers, or the attribute that older opsets have for it, or None."""
        if self.has(index):
            return list(self.values[index].reshape(-1).tolist())
        found = self.get(attribute)
        return list(found) if found is not None else None

    def must(self, condition: bool, form: str) -> None:
        """Require a form of the operator. Raises Unsupported with the form's words."""
        if not condition:
            raise Unsupported(f"{self.name}: no lowering for {form}")


def plain(function: Function) -> Lowering:
    """The same function whatever the attributes are."""
    return lambda op: function


def folded(function: Function) -> Lowering:
    """A function of two tensors over any number of them."""

    def fold(first: Any, *others: Any) -> Any:
        for other in others:
            first = function(first, other)
        return first

    return plain(fold)
