"""Reading an ONNX program in a worker that has `onnx`."""

import base64
import os
from contextlib import contextmanager
from typing import Any, Iterator  # noqa: UP035 (Python 3.8)

from oracles.worker.limits import run_tests


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


MOST_BYTES = 4 << 20
"""A larger model is no small example."""


def documented(path: str, content: str) -> dict[str, Any]:
    """`models`: [test, pass or "", program in base64] each; `notes`: what went wrong, in words."""
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
