"""Writing `repro.py`: the model in code where that can be read, as bytes where not, beside it where huge."""

from __future__ import annotations

import ast
import base64
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from corpus.case import Case
from corpus.formats.onnx import parse
from corpus.onnx_types import DTYPES, STRING, dtype_name, element_type
from corpus.values import Tensor, Value
from oracles.compare import Tolerance
from triage.expectation import Expectation
from triage.listing import list_model
from triage.rendering import render
from triage.repro import compare, encode
from triage.repro.model_code import NotExpressible, array_code, model_code

MOST_CODE = 60_000
"""Characters of builder code that a person still reads."""
MOST_BYTES = 4 << 20
"""Bytes of a model that are embedded; a larger one stays in its file."""
MOST_INLINE = 100_000
ENCODER_MARK = "# (the encoder)"
FIRST_FOREIGN = 16
"""The first ONNX element type that numpy lacks."""
RUNNERS = {"ort": "runner_ort.py.j2"}
PACKAGES = {"ort": "onnxruntime"}
LEVELS = {
    "none": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "layout": "ORT_ENABLE_LAYOUT",
    "all": "ORT_ENABLE_ALL",
}


@dataclass(frozen=True)
class Claim:
    """What the script is to show: the expectation, one line that names it, and how it was judged."""

    expectation: Expectation
    title: str
    tolerance: Tolerance
    seconds: float
    memory: int


def write_script(case: Case, claim: Claim, mode: str = "code") -> str:
    """The text of `repro.py`; `mode` is what to try first: `code`, `bytes` or `beside`."""
    backend = case.target.backend if case.target else "ort"
    model = parse(case.program)
    mode, code = _embedding(case, model, mode)
    outputs = _output_elements(claim.expectation, model)
    foreign = {element for element in outputs if element >= FIRST_FOREIGN}
    plain = not foreign and not any(_is_foreign(value) for value in case.inputs.values())
    beside = sum(_size(value) for value in case.inputs.values()) > MOST_INLINE
    script = render(
        "repro.py.j2",
        runner=RUNNERS[backend],
        package=PACKAGES[backend],
        title=claim.title,
        mode=mode,
        model_code=code,
        model_base64=_lines(base64.b64encode(case.program).decode()) if mode == "bytes" else [],
        listing=list_model(model).splitlines() if mode != "code" else [],
        inputs=[(name, text) for name, text in _inputs(case.inputs, plain, beside).items()],
        inputs_beside=beside,
        plain=plain,
        imports=_imports(mode, plain, code),
        compare_part=part_source(compare, "difference, VALUES_OF_BITS" if foreign else "difference"),
        decode_tables={
            dtype_name(code): _decode_table(code) for code in sorted(foreign) if code != FIRST_FOREIGN
        },
        declared=_declared(model) if claim.expectation.contradiction else {},
        **_claim_fields(claim),
        **_configs(claim.expectation),
    )
    return script.replace(ENCODER_MARK, part_source(encode, script))


def part_source(module: Any, users: str) -> str:
    """The definitions of a module that a text uses, straight or through others, to be pasted beside it."""
    source = inspect.getsource(module)
    lines = source.splitlines()
    pieces = {
        "\n".join(lines[node.lineno - 1 : node.end_lineno]): _defined_names(node)
        for node in ast.parse(source).body
        if not isinstance(node, ast.Import | ast.ImportFrom | ast.Expr)
    }
    used = _closure(pieces, users)
    kept = [text for text, names in pieces.items() if names & used]
    gaps = ["\n" if not text.startswith(("def ", "class ")) else "\n\n\n" for text in kept]
    return "".join(
        f"{gap if place else ''}{text}" for place, (gap, text) in enumerate(zip(gaps, kept, strict=True))
    )


def _defined_names(node: ast.stmt) -> frozenset[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return frozenset({node.name})
    targets = (
        node.targets
        if isinstance(node, ast.Assign)
        else [node.target]
        if isinstance(node, ast.AnnAssign)
        else []
    )
    return frozenset(each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))


def _names_in(source: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}


def _closure(pieces: Mapping[str, frozenset[str]], users: str) -> set[str]:
    """All names that a text needs, with those that the definitions of these need."""
    known = frozenset().union(*pieces.values())
    used: set[str] = set()
    waiting = [users]
    while waiting:
        new = (known & _names_in(waiting.pop())) - used
        used |= new
        waiting += [text for text, names in pieces.items() if names & new]
    return used


def _declared(model: onnx.ModelProto) -> dict[str, tuple[str, list[int | None] | None]]:
    """The element type and dims that the model declares for its outputs; None for what it leaves open."""
    found = {}
    for output in model.graph.output:
        tensor = output.type.tensor_type
        if tensor.elem_type and tensor.elem_type != STRING:
            sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
            found[output.name] = (dtype_name(tensor.elem_type), sizes if tensor.HasField("shape") else None)
    return found


def _claim_fields(claim: Claim) -> dict[str, Any]:
    expectation = claim.expectation
    return {
        "seen": expectation.outcome.value,
        "failing": expectation.failing_label,
        "passing": expectation.passing_label or None,
        "unstable": expectation.is_unstable,
        "fragment": expectation.fragment,
        "kind": expectation.kind,
        "rtol": claim.tolerance.rtol,
        "atol": claim.tolerance.atol,
        "seconds": claim.seconds,
        "memory": claim.memory,
    }


def _configs(expectation: Expectation) -> dict[str, Any]:
    """The settings of onnxruntime's configurations, in its own words."""
    first = expectation.failing.config
    return {
        "levels": {label: LEVELS[str(config.get("level"))] for label, config in expectation.configs.items()},
        "providers": list(first.get("providers") or ("CPUExecutionProvider",)),  # type: ignore[arg-type]
        "threads": first.get("threads") or 1,
        "disabled": list(first.get("disabled_optimizers") or ()),  # type: ignore[arg-type]
    }


def _embedding(case: Case, model: onnx.ModelProto, mode: str) -> tuple[str, str]:
    """How the model gets into the script, and its code."""
    if case.external or len(case.program) > MOST_BYTES:
        return "beside", ""
    if mode == "code":
        try:
            code = model_code(model, indent=4)
        except NotExpressible:
            return "bytes", ""
        return ("code", code) if len(code) <= MOST_CODE else ("bytes", "")
    return mode, ""


def _inputs(inputs: Mapping[str, Value], plain: bool, beside: bool) -> dict[str, str]:
    """Each input's expression; absent optionals are left out."""
    given = {name: value for name, value in inputs.items() if value is not None}
    return {name: _value_code(name, value, plain, beside) for name, value in given.items()}


def _value_code(name: str, value: Value, plain: bool, beside: bool) -> str:
    if isinstance(value, list):
        places = range(len(value))
        return f"[{', '.join(_tensor_code(f'{name}#{at}', value[at], plain, beside) for at in places)}]"
    assert value is not None
    return _tensor_code(name, value, plain, beside)


def _tensor_code(name: str, tensor: Tensor, plain: bool, beside: bool) -> str:
    element = dtype_name(element_type(tensor.dtype))
    text = f"stored[{name!r}]" if beside else array_code(element, tensor, 8)
    return text if plain else f"({element!r}, {text})"


def _imports(mode: str, plain: bool, code: str) -> list[str]:
    names = {"os", "platform", "re", "signal", "struct", "subprocess", "sys", "tempfile"}
    if mode == "bytes" or "base64." in code:
        names.add("base64")
    if not plain:
        names.add("ctypes")
    return sorted(names)


def _output_elements(expectation: Expectation, model: onnx.ModelProto) -> set[int]:
    """The element types of the outputs: those seen, or those declared when nothing was seen."""
    seen = [run.outputs for run in (expectation.passing, expectation.failing) if run is not None]
    tensors = [each for outputs in seen for value in outputs.values() for each in _flat(value)]
    declared = {output.type.tensor_type.elem_type for output in model.graph.output}
    return {element_type(tensor.dtype) for tensor in tensors} or declared


def _decode_table(code: int) -> str:
    """The value of every bit pattern of a small element type, as a literal."""
    bits = np.arange(256, dtype=np.uint8)
    if DTYPES[code].itemsize == 1 and dtype_name(code) in encode.BITS:
        bits = bits[: 1 << encode.BITS[dtype_name(code)]]
    with np.errstate(all="ignore"):
        numbers = bits.view(DTYPES[code]).astype(np.float64)
    return "[" + ", ".join(str(float(number)) for number in numbers) + "]"


def _flat(value: Value) -> list[Tensor]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _is_foreign(value: Value) -> bool:
    return any(element_type(tensor.dtype) >= FIRST_FOREIGN for tensor in _flat(value))


def _size(value: Value) -> int:
    return sum(tensor.size for tensor in _flat(value))


def _lines(text: str, width: int = 96) -> list[str]:
    return [text[at : at + width] for at in range(0, len(text), width)]
