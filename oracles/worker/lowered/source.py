"""An ONNX program as the Python of a torch module: the calls that its lowerings make, written down.

The module runs once on fake tensors, which have shapes and no values, so that nothing it computes can fail or
end the process; every call of torch is recorded as it passes by, with plain numbers for what decides shapes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode, resolve_name

from oracles.worker.lowered.module import build
from oracles.worker.torch.graph_source import literal, needed, written

INFIX = {
    **{"add": "+", "sub": "-", "mul": "*", "div": "/", "__truediv__": "/", "lt": "<", "gt": ">", "eq": "=="},
    **{"__and__": "&", "__or__": "|", "__lt__": "<", "__gt__": ">", "__eq__": "==", "__add__": "+"},
    **{"__sub__": "-", "__mul__": "*", "le": "<=", "ge": ">=", "ne": "!=", "__radd__": "+", "__rmul__": "*"},
}


class Recorder(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
    """Writes down every call that makes tensors: what is assigned to, the expression, what it reads."""

    def __init__(self, named: Any) -> None:
        super().__init__()
        self.names: dict[int, str] = {id(tensor): name for name, tensor in named.items()}
        self.kept = list(named.values())
        self.given = len(self.kept)
        self.constants: dict[str, Any] = {}
        self.calls: list[tuple[str, str, set[str]]] = []
        self.read: set[str] = set()

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        results = made if isinstance(made, (tuple, list)) else [made]
        if not results or not all(isinstance(each, torch.Tensor) for each in results):
            return made
        if all(id(each) in self.names for each in results):  # it has handed on its operands
            return made
        self.read = set()
        text = self.call(function, args, kwargs or {})
        target = ", ".join(map(self.name, results)) + ("," if results is made and len(results) == 1 else "")
        self.calls.append((target, text, self.read))
        return made

    def name(self, tensor: Any) -> str:
        """A new name for what a call has made; kept alive, so that its id stays its own."""
        if id(tensor) not in self.names:
            self.names[id(tensor)] = f"t{len(self.kept) - self.given}"
            self.kept.append(tensor)
        return self.names[id(tensor)]

    def call(self, function: Any, args: Any, kwargs: Any) -> str:
        """Write a call of torch as Python."""
        path = str(resolve_name(function) or f"{function.__module__}.{function.__name__}")
        path = path.replace("torch.functional.", "torch.").replace("torch.nn.functional.", "F.")
        path = f"torch.ops.{path}" if path.startswith("aten.") else path
        texts = [self.text(each) for each in args]
        named = [f"{key}={self.text(value)}" for key, value in kwargs.items()]
        owner, _, name = path.rpartition(".")
        if owner != "torch.Tensor" and not owner.startswith("torch.Tensor."):
            return f"{path}({', '.join([*texts, *named])})"
        if name == "__get__":
            return f"{texts[0]}.{owner.rpartition('.')[2]}"
        if name == "__getitem__":
            return f"{texts[0]}[{self.index(args[1])}]"
        if name in INFIX and len(texts) == 2 and not named:
            left, right = reversed(texts) if name.startswith("__r") else texts
            return f"{left} {INFIX[name]} {right}"
        return f"{texts[0]}.{name}({', '.join([*texts[1:], *named])})"

    def index(self, place: Any) -> str:
        """Write a subscript as Python."""
        if isinstance(place, tuple) and place:
            return ", ".join(map(self.index, place))
        if not isinstance(place, slice):
            return self.text(place)
        ends = ["" if each is None else str(each) for each in (place.start, place.stop)]
        return ":".join(ends if place.step in (None, 1) else [*ends, str(place.step)])

    def text(self, value: Any) -> str:
        """An argument as Python: a tensor's name, or a literal."""
        if isinstance(value, torch.Tensor):
            name = self.names.get(id(value)) or self.constant(value)
            self.read.add(name)
            return name
        if isinstance(value, (tuple, list)):
            inner = ", ".join(map(self.text, value))
            is_list = isinstance(value, list)
            return f"[{inner}]" if is_list else f"({inner}{',' if len(value) == 1 else ''})"
        return str(value) if isinstance(value, torch.dtype) else repr(value)

    def constant(self, value: Any) -> str:
        """A tensor that no call has made: a lowering has brought it along."""
        name = f"self.c{len(self.constants)}"
        self.constants[name] = value
        self.names[id(value)] = name
        return name


def source(model: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """`module`: a class `Repro` of torch.nn.Module; `inputs`: the list of what to call it with."""
    with torch.no_grad():
        module, feeds = build(model, inputs, lenient=True)
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    arguments = [fake.from_tensor(feed) for feed in feeds]
    weights = {f"self.{name}": tensor for name, tensor in module.named_buffers()}
    for name, tensor in weights.items():
        setattr(module, name[5:], fake.from_tensor(tensor))
    faked = {f"self.{name}": tensor for name, tensor in module.named_buffers()}
    named = {f"x{place}": tensor for place, tensor in enumerate(arguments)}
    with torch.no_grad(), fake, Recorder({**named, **faked}) as recorder:
        results = module(*arguments)
    names = [recorder.names.get(id(each)) or recorder.constant(each) for each in results]
    text = written(list(named), {**weights, **recorder.constants}, needed(recorder.calls, names), names)
    literals = [f"{literal(feed, 8)},  # {name}" for name, feed in zip(named, feeds)]  # noqa: B905 (Python 3.8)
    return {"module": np.array(text), "inputs": np.array("\n".join(literals))}
