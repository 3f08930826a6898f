"""The short script of a report: some twenty lines that a maintainer reads at a glance.

It makes the model by `onnx.helper` (or is the framework's own code), runs the configurations in turn and
prints what each gives. Whether it shows the bug is told by how it ends and by what it prints.

The text is made of literals only. What these calls do not say as plainly raises `NotExpressible`; the
self-contained script has words for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, ValueInfoProto

from corpus.case import Case
from corpus.values import Tensor, Value
from oracles.verdict import Outcome
from triage.claims.claim import Claim, Expectation
from triage.claims.titles import in_short, is_reference
from triage.language import language_of, model_of
from triage.projects import Runner, runner_of
from triage.repro.model_code import NotExpressible
from triage.repro.source import Source
from triage.views.rendering import template_of

MOST_ELEMENTS = 64
"""Elements of a tensor that are written out."""
NUMPY = range(TensorProto.FLOAT, TensorProto.COMPLEX128 + 1)
"""The element types that numpy has too."""


def helper_code(model: onnx.ModelProto) -> str:
    """Statements that make `model`; `helper`, `TensorProto` and `np` are imported by the caller."""
    if model.functions or model.training_info or model.graph.sparse_initializer:
        raise NotExpressible("functions, training information or sparse weights")
    graph = model.graph
    arguments = [
        _listed(_node(each) for each in graph.node),
        repr(graph.name or "g"),
        _listed(_value_info(each) for each in graph.input),
        _listed(_value_info(each) for each in graph.output),
    ]
    if graph.initializer:
        arguments.append(_listed(_tensor(each) for each in graph.initializer))
    opsets = ", ".join(f"helper.make_opsetid({each.domain!r}, {each.version})" for each in model.opset_import)
    lines = ["graph = helper.make_graph(", *(f"    {each}," for each in arguments), ")"]
    lines += [
        f"model = helper.make_model(graph, opset_imports=[{opsets}], ir_version={model.ir_version})",
    ]
    return "\n".join(lines)


def array_code(array: Tensor) -> str:
    """Return a numpy array as the expression that makes it."""
    if array.size > MOST_ELEMENTS and len({each.tobytes() for each in array.reshape(-1)}) > 1:
        raise NotExpressible("an input of many elements")
    if array.dtype.kind not in "biufcU":
        raise NotExpressible(f"values of {array.dtype}")
    dtype = "" if array.dtype.kind == "U" else f", np.{_dtype(array.dtype)}"
    flat = array.reshape(-1)
    if array.size > 4 and len({each.tobytes() for each in flat}) == 1:
        return f"np.full({array.shape}, {_number(flat[0])}{dtype})"
    empty = f".reshape({array.shape})" if array.size == 0 else ""
    return f"np.array({_nested(array) if array.size else '[]'}{dtype}){empty}"


def _dtype(dtype: np.dtype[np.generic]) -> str:
    return "bool_" if dtype == np.bool_ else dtype.name


def _nested(array: Tensor) -> str:
    if array.ndim:
        return f"[{', '.join(_nested(np.asarray(each)) for each in array)}]"
    return _number(array[()])


def _number(number: Any) -> str:
    """Return the shortest literal that gives the same value in the number's own type."""
    if number.dtype.kind == "U":
        return repr(str(number))
    if number.dtype.kind == "c":
        return repr(number.item())
    text = str(number) if number.dtype.kind == "f" else repr(number.item())
    return {"nan": "np.nan", "inf": "np.inf", "-inf": "-np.inf"}.get(text, text)


def _listed(items: Iterable[str]) -> str:
    found = list(items)
    one = f"[{', '.join(found)}]"
    if len(found) < 2 and len(one) <= 100:
        return one
    return "[\n" + "".join(f"        {each},\n" for each in found) + "    ]"


def _node(node: NodeProto) -> str:
    arguments = [repr(node.op_type), repr(list(node.input)), repr(list(node.output))]
    arguments += [f"domain={node.domain!r}"] if node.domain else []
    arguments += [f"{each.name}={_attribute(each)}" for each in node.attribute]
    return f"helper.make_node({', '.join(arguments)})"


def _attribute(attribute: AttributeProto) -> str:
    """Return a literal from which `helper.make_node` makes the attribute of this type again."""
    if attribute.ref_attr_name or not attribute.name.isidentifier():
        raise NotExpressible(f"attribute {attribute.name}")
    kind = attribute.type
    if kind == AttributeProto.INT:
        return repr(attribute.i)
    if kind == AttributeProto.FLOAT:
        return _float(attribute.f)
    if kind == AttributeProto.STRING:
        return repr(_text(attribute.s))
    if kind == AttributeProto.TENSOR:
        return _tensor(attribute.t)
    if kind == AttributeProto.GRAPH:
        return _body(attribute.g)
    return _many(attribute)


def _many(attribute: AttributeProto) -> str:
    items: Sequence[str] = ()
    if attribute.type == AttributeProto.INTS:
        items = [repr(each) for each in attribute.ints]
    elif attribute.type == AttributeProto.FLOATS:
        items = [_float(each) for each in attribute.floats]
    elif attribute.type == AttributeProto.STRINGS:
        items = [repr(_text(each)) for each in attribute.strings]
    if not items:  # of an empty list, `make_node` cannot tell the type
        raise NotExpressible(f"attribute {attribute.name}")
    return f"[{', '.join(items)}]"


def _body(graph: GraphProto) -> str:
    """Return a graph within a node, on one line."""
    parts = (
        ", ".join(map(_node, graph.node)),
        ", ".join(map(_value_info, graph.input)),
        ", ".join(map(_value_info, graph.output)),
        ", ".join(map(_tensor, graph.initializer)),
    )
    nodes, inputs, outputs, weights = (f"[{part}]" for part in parts)
    return f"helper.make_graph({nodes}, {graph.name!r}, {inputs}, {outputs}, {weights})"


def _float(number: float) -> str:
    text = str(np.float32(number))
    return {"nan": "np.nan", "inf": "np.inf", "-inf": "-np.inf"}.get(text, text)


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise NotExpressible("bytes that are no text") from error


def _tensor(tensor: TensorProto) -> str:
    if tensor.data_location == TensorProto.EXTERNAL or tensor.data_type not in NUMPY:
        raise NotExpressible(f"weight {tensor.name}")
    array = onnx.numpy_helper.to_array(tensor)
    if array.dtype == object:
        array = array.astype(str)
    return f"numpy_helper.from_array({array_code(array)}, {tensor.name!r})"


def _value_info(value: ValueInfoProto) -> str:
    if value.type.WhichOneof("value") != "tensor_type":
        raise NotExpressible(f"{value.name} is no tensor")
    tensor = value.type.tensor_type
    element = f"TensorProto.{TensorProto.DataType.Name(tensor.elem_type)}"
    if not tensor.HasField("shape"):
        return f"helper.make_tensor_value_info({value.name!r}, {element}, None)"
    fields = {"dim_value": lambda dim: dim.dim_value, "dim_param": lambda dim: dim.dim_param}
    dims = [fields[kind](dim) if (kind := dim.WhichOneof("value")) else None for dim in tensor.shape.dim]
    return f"helper.make_tensor_value_info({value.name!r}, {element}, {dims!r})"


MOST_LINES = 60
"""A longer script is not read at a glance."""
MOST_LINE = 200
TOLD = (Outcome.CRASH, Outcome.EXCEPTION, Outcome.MISMATCH)
"""The outcomes that such a script can show by itself."""


def short_script(case: Case, claim: Claim, source: Source | None) -> str:
    """Return the script; empty where the case cannot be shown in so few lines."""
    expectation = claim.expectation
    runner = runner_of(case.target.backend if case.target else "ort", case.format)
    is_told = expectation.outcome in TOLD and not expectation.is_unstable and not expectation.contradiction
    if not runner.short or not is_told or case.external:
        return ""
    try:
        text = _filled(case, runner, expectation, source)
    except NotExpressible:
        return ""
    text = re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"
    lines = text.splitlines()
    is_short = len(lines) <= MOST_LINES and max(map(len, lines)) <= MOST_LINE
    return text if is_short else ""


def _filled(case: Case, runner: Runner, expectation: Expectation, source: Source | None) -> str:
    passing = expectation.passing
    told = passing.outputs if passing is not None and is_reference(passing.config) else {}
    has_model = language_of(case.format).has_model
    is_of_other = passing is not None and bool(passing.config.backend)
    return template_of(runner.short).render(
        code=helper_code(model_of(case)) if has_model else "",
        inputs=_inputs(case) if has_model else "",
        source=source,
        baseline=is_of_other and expectation.outcome is Outcome.MISMATCH,
        expected=_value(next(iter(told.values()))) if len(told) == 1 else "",
        expected_by=in_short(passing.config) if passing is not None else "",
        **runner.settings(expectation.to_show(case.passes)),
    )


def _inputs(case: Case) -> str:
    """Return the dictionary of inputs that a session takes; one on a line where they are long."""
    given = {name: value for name, value in case.inputs.items() if value is not None}
    items = [f"{name!r}: {_value(value)}" for name, value in given.items()]
    line = f"{{{', '.join(items)}}}"
    return line if len(line) <= 90 else "{\n" + "".join(f"    {item},\n" for item in items) + "}"


def _value(value: Value) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(array_code, value))}]"
    if value is None:
        raise NotExpressible("an absent optional")
    return array_code(value)


def shows(claim: Claim) -> Callable[[int, str], bool]:
    """Return the test of a short script's exit code and text for the claim."""
    expectation = claim.expectation

    def is_shown(code: int, text: str) -> bool:
        if expectation.outcome is Outcome.CRASH:
            return code < 0 or code > 128
        if expectation.outcome is Outcome.EXCEPTION:
            wanted = expectation.fragment or expectation.failing.error
            return code == 1 and " ".join(wanted.split()) in " ".join(text.split())
        printed = printed_by(text, labels(expectation))
        passing = expectation.passing
        if passing is not None and is_reference(passing.config):  # whose values the script only holds
            failing = [" ".join(str(value).split()) for value in expectation.failing.outputs.values()]
            return code == 0 and printed[1:] == failing
        return code == 0 and len(printed) == 2 and len(set(printed)) == 2

    return is_shown


def labels(expectation: Expectation) -> tuple[str, ...]:
    """List the labels before each configuration's result in the script's output."""
    runs = (expectation.passing, expectation.failing)
    return tuple(in_short(run.config) for run in runs if run is not None)


def printed_by(text: str, names: Sequence[str]) -> list[str]:
    """List the text behind each of these labels, up to the next one."""
    marks = "|".join(re.escape(name) for name in names)
    pieces = re.split(rf"(?m)^(?:{marks}): ?", text)
    return [" ".join(piece.split()) for piece in pieces[1:]]
