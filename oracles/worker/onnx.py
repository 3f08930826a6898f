"""ONNX models in the worker: decoded, caught from documented tests, and each node at hand for a lowering.

A lowering looks at a node (`Op`), whose operands have their values already, and returns a function of its
tensors: whatever decides shapes (axes, sizes, pads) is a plain number by then, as it would be in a program
written for that framework.
"""

import base64
import os
from contextlib import contextmanager
from typing import Any, Callable, Iterator  # noqa: UP035 (Python 3.8)

Function = Any
"""Of tensors; what frameworks offer has no types here."""
Lowering = Callable[[Any], Any]
"""Of the node at hand, an `Op`, to the function of its tensors."""


class Unsupported(NotImplementedError):
    """There is no lowering for an operator, or not for this form or dtype of it."""


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

    def known(self, index: int) -> Any:
        """Give an operand's value."""
        return self.values[index]

    def numbers(self, index: int, attribute: str = "") -> list[Any] | None:
        """An operand as plain numbers, or the attribute that older opsets have for it, or None."""
        if self.has(index):
            return list(self.known(index).reshape(-1).tolist())
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


def window(op: Op, kernel: Any) -> tuple[list[int], list[int], list[int]]:
    """Strides, dilations and pads of a window that slides over the axes after batch and channel."""
    rank = len(kernel)
    strides, dilations = (list(op.get(name) or [1] * rank) for name in ("strides", "dilations"))
    pads = list(op.get("pads") or [0] * (2 * rank))
    automatic = op.get("auto_pad", b"NOTSET")
    if automatic in (b"SAME_UPPER", b"SAME_LOWER"):
        for i, size in enumerate(op.values[0].shape[2:]):
            reach = (kernel[i] - 1) * dilations[i] + 1
            missing = max((-(-size // strides[i]) - 1) * strides[i] + reach - size, 0)
            small, large = missing // 2, missing - missing // 2
            pads[i], pads[i + rank] = (small, large) if automatic == b"SAME_UPPER" else (large, small)
    return strides, dilations, pads


def depth_to_space(op: Op, reshape: Function, permute: Function) -> Function:
    """ONNX's DepthToSpace by these functions of a framework."""
    block, columns_first = op.get("blocksize"), op.get("mode", b"DCR") == b"CRD"

    def run(x: Any) -> Any:
        n, c, h, w = x.shape
        left = c // block**2
        sizes = (n, left, block, block, h, w) if columns_first else (n, block, block, left, h, w)
        order = (0, 1, 4, 2, 5, 3) if columns_first else (0, 3, 4, 1, 5, 2)
        return reshape(permute(reshape(x, sizes), order), (n, left, h * block, w * block))

    return run


def padded(size: int, before: int, after: int, mode: str) -> list[int]:
    """List for each place along a padded axis the place that its element comes from."""
    places = range(-before, size + after)
    if mode == "edge":
        return [min(max(place, 0), size - 1) for place in places]
    if mode == "wrap":
        return [place % size for place in places]
    period = max(2 * (size - 1), 1)
    return [min(place % period, period - place % period) if size > 1 else 0 for place in places]


def split_sizes(op: Op, axis: int) -> list[int]:
    """The lengths of the parts that a Split gives along an axis."""
    length, sizes = op.values[0].shape[axis], op.numbers(1, "split")
    if sizes is not None:
        return sizes
    count = op.get("num_outputs", op.outputs)
    size = -(-length // count)
    return [min(size, max(length - size * i, 0)) for i in range(count)]


def slices(op: Op) -> list[tuple[int, tuple[int, int, int]]]:
    """What a Slice takes: each axis with its start, end and step."""
    shape = op.values[0].shape
    starts, ends = op.numbers(1, "starts") or [], op.numbers(2, "ends") or []
    axes = op.numbers(3, "axes") or list(range(len(starts)))
    steps = op.numbers(4) or [1] * len(starts)
    return [
        (axis % len(shape), slice(start, end, step).indices(shape[axis]))
        for axis, start, end, step in zip(axes, starts, ends, steps)  # noqa: B905 (Python 3.8)
    ]


def wanted_sizes(op: Op) -> list[int]:
    """The sizes that a Reshape asks for; one of them may be -1."""
    sizes = op.numbers(1, "shape") or []
    if op.get("allowzero", 0):
        return sizes
    return [op.values[0].shape[i] if size == 0 else size for i, size in enumerate(sizes)]


def read_model(program: Any) -> Any:
    """The ModelProto of a program (bytes or a path), its external data put into it."""
    import onnx

    if isinstance(program, str):
        model = onnx.load(program, load_external_data=False)
        read_external_data(model, os.path.dirname(program))
    else:
        model = onnx.load_model_from_string(program)
        read_external_data(model, ".")
    return model


def read_external_data(model: Any, folder: str) -> None:
    """Put the external data into the model; `onnx` itself refuses files that are hard links."""
    from onnx import external_data_helper as external

    for tensor in external._get_all_tensors(model):
        if external.uses_external_data(tensor):
            info: Any = external.ExternalDataInfo(tensor)
            with open(os.path.join(folder, info.location), "rb") as file:
                file.seek(info.offset or 0)
                tensor.raw_data = file.read(info.length or -1)
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")


def fed_names(graph: Any) -> list[str]:
    """The names of the graph's inputs that are no initializers, in order."""
    weights = {tensor.name for tensor in graph.initializer}
    return [value.name for value in graph.input if value.name not in weights]


def to_array(value: Any) -> Any:
    """The types that numpy lacks come as (name, bits); here they are arrays of ml_dtypes'."""
    if isinstance(value, list):
        return [to_array(item) for item in value]
    if isinstance(value, tuple):
        import ml_dtypes

        return value[1].view(getattr(ml_dtypes, value[0]))
    return value


def evaluator_of(model: Any) -> Any:
    """ONNX's own evaluator of a model."""
    import onnx.reference

    return onnx.reference.ReferenceEvaluator(model, new_ops=_lacking(model))


def _lacking(model: Any) -> list[Any]:
    """The operators that the evaluator has from a later opset only, and that have not changed since."""
    import onnx.defs
    from onnx.reference.ops.op_dequantize_linear import DequantizeLinear_19

    opset = next((each.version for each in model.opset_import if not each.domain), 0)
    if not 10 <= opset < 19:
        return []
    members = {"op_domain": "", "op_schema": onnx.defs.get_schema("DequantizeLinear", opset)}
    return [type("DequantizeLinear", (DequantizeLinear_19,), members)]


DOMAIN = "org.pytorch.aten"
"""The domain of torch's own operators in ONNX models."""
MOST_BYTES = 4 << 20
"""A larger model is no small example."""


def documented(path: str, content: str) -> dict[str, Any]:
    """`models`: [test, pass or "", program in base64] each; `notes`: what went wrong, in words."""
    from oracles.worker.limits import run_tests

    found: list[list[str]] = []
    made: list[Any] = []

    def after_each(test: str) -> None:
        seen: set[int] = set()
        for model in made:
            if id(model) not in seen and model.ByteSize() <= MOST_BYTES:
                program = model.SerializeToString(deterministic=True)
                found.append([test, "", base64.b64encode(program).decode("ascii")])
            seen.add(id(model))
        made.clear()

    with _watched(made):
        note = run_tests(path, base64.b64decode(content).decode("utf-8", "replace"), after_each)
    return {"models": found, "notes": [note] if note else []}


@contextmanager
def _watched(made: list[Any]) -> Iterator[None]:
    """Every model that is made, read from text or saved is seen; none is written to a file."""
    import onnx
    from onnx import helper, parser

    def seeing(function: Any) -> Any:
        def see(*arguments: Any, **options: Any) -> Any:
            model = function(*arguments, **options)
            made.append(model)
            return model

        return see

    def save(proto: Any, *arguments: Any, **options: Any) -> None:
        if isinstance(proto, onnx.ModelProto):
            made.append(proto)

    places: list[tuple[Any, str, Any]] = [(helper, "make_model", seeing), (parser, "parse_model", seeing)]
    places += [(onnx, "save", lambda old: save), (onnx, "save_model", lambda old: save)]
    before = [(holder, name, getattr(holder, name)) for holder, name, _ in places]
    for holder, name, wrap in places:
        setattr(holder, name, wrap(getattr(holder, name)))
    try:
        yield
    finally:
        for holder, name, old in before:
            setattr(holder, name, old)
