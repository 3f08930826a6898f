"""Writing `repro.py`: the model in code where that can be read, as bytes where not, beside it where huge."""

import ast
import base64
import inspect
import re
from collections.abc import Mapping, Sequence
from importlib.abc import InspectLoader
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx

from corpus.case import Case
from corpus.onnx.types import DTYPES, STRING, dtype_name, element_type, inferred_types
from corpus.values import Tensor, Value
from oracles.verdict import Outcome
from oracles.worker.arrays import with_shape
from triage.claim import ACCEPTED, Claim, Expectation
from triage.language import model_of
from triage.projects import Runner, runner_of
from triage.repro.model_code import NotExpressible, array_code, model_code, parsed_code
from triage.repro.pasted import compare, elements, encode
from triage.repro.pasted.elements import BITS
from triage.repro.source import Source
from triage.titles import whose
from triage.views.listing import list_model
from triage.views.rendering import render, template_of


def part_source(sources: Sequence[str], users: str) -> str:
    """The definitions in the sources of modules that a text uses, straight or through others, to paste."""
    pieces: dict[str, frozenset[str]] = {}
    for source in sources:
        pieces |= _definitions(source)
    used = _closure(pieces, users)
    kept = [text for text, names in pieces.items() if names & used]
    is_block = [text.startswith(("def ", "class ", "@")) for text in kept]
    gaps = ["\n\n\n" if any(is_block[max(0, at - 1) : at + 1]) else "\n" for at in range(len(kept))]
    return "".join(
        f"{gap if place else ''}{text}" for place, (gap, text) in enumerate(zip(gaps, kept, strict=True))
    )


def _definitions(source: str) -> dict[str, frozenset[str]]:
    """The definitions of a module's text, and what each defines."""
    lines = source.splitlines()
    return {
        "\n".join(lines[_first_line(node) - 1 : node.end_lineno]): _defined_names(node)
        for node in ast.parse(source).body
        if not isinstance(node, ast.Import | ast.ImportFrom | ast.Expr)
    }


def _first_line(node: ast.stmt) -> int:
    """The line at which a definition begins, its decorators with it."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)])


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


def _closure(pieces: Mapping[str, frozenset[str]], users: str) -> set[str]:
    """All names that a text needs, with those that the definitions of these need."""
    known = frozenset().union(*pieces.values())
    used: set[str] = set()
    waiting = [users]
    while waiting:
        named = (node.id for node in ast.walk(ast.parse(waiting.pop())) if isinstance(node, ast.Name))
        new = known.intersection(named) - used
        used |= new
        waiting += [text for text, names in pieces.items() if names & new]
    return used


WITH_SHAPE = re.sub(r"(: | -> )Any\b", "", inspect.getsource(with_shape))
"""The text of the function that makes the inputs of an earlier run."""
MOST_CODE = 60_000
"""Characters of builder code that a person still reads."""
MOST_BYTES = 4 << 20
"""Bytes of a model that are embedded; a larger one stays in its file."""
MOST_INLINE = 100_000
EXPECTED = "expected"
"""What a script calls values that it does not compute."""
WORDS_MARK = "# (the words)\n\n\n"
IMPORTS_MARK = "# (imports)"
STANDARD = (
    *("base64", "ctypes", "os", "platform", "re", "signal", "struct", "subprocess", "sys", "tempfile"),
    *("time", "traceback"),
)
UNSET: Mapping[str, Any] = {"has_double": False, "says_more": False, "misuse": "", "earlier": ()}
"""What a runner's settings may leave out."""
MOST_FOLDED = 1_000
"""Elements of an input whose values may fix the type of an output."""
FIRST_FOREIGN = 16
"""The first ONNX element type that numpy lacks."""


def write_script(case: Case, claim: Claim, mode: str = "code", source: Source | None = None) -> str:
    """The text of `repro.py`; `mode` is how an ONNX program gets in: `code`, `bytes` or `beside`."""
    runner = runner_of(case.target.backend if case.target else "ort", case.format)
    model = model_of(case)
    mode, code = _embedding(case, model, mode, runner) if source is None else ("source", "")
    outputs = _output_elements(claim.expectation, model)
    foreign = {element for element in outputs if element >= FIRST_FOREIGN}
    given = [tensor for value in case.inputs.values() for tensor in _flat(value)]
    plain = not foreign and not any(element_type(each.dtype) >= FIRST_FOREIGN for each in given)
    passing = claim.expectation.passing
    beside = source is None and sum(each.size for each in given) > MOST_INLINE
    script = render(
        "repro.py.j2",
        runner=runner,
        part=template_of(runner.part),
        title=claim.title,
        mode=mode,
        source=source,
        model_code=code,
        model_base64=_lines(base64.b64encode(case.program).decode()) if mode == "bytes" else [],
        listing=list_model(model).splitlines() if mode != "code" else [],
        inputs=[(name, text) for name, text in _inputs(case.inputs, plain, beside).items()],
        inputs_beside=beside,
        plain=plain,
        compare_part=part_source(
            (inspect.getsource(compare),), "difference, VALUES_OF_BITS" if foreign else "difference"
        ),
        decode_tables={
            dtype_name(code): _decode_table(code) for code in sorted(foreign) if code != FIRST_FOREIGN
        },
        with_shape=WITH_SHAPE,
        declared=fixed_types(case) if claim.expectation.contradiction else {},
        expected=_expected(claim.expectation),
        baseline=whose(passing.config) if passing and passing.config.backend else "",
        **{**UNSET, **_claim_fields(claim), **runner.settings(claim.expectation.to_show(case))},
    )
    return _with_pasted(script, runner, runner.guards if claim.expectation.misuse else ())


def _with_pasted(script: str, runner: Runner, modules: Sequence[str]) -> str:
    """The script with what it uses of the words that build a model and of these modules, and its imports."""
    guards = [_text_of(each) for each in modules]
    words = part_source([*map(inspect.getsource, _words(runner)), *guards], script)
    script = script.replace(WORDS_MARK, f"{words}\n\n\n" if words else "").rstrip() + "\n"
    return script.replace(IMPORTS_MARK, _imports(script, guards, runner.imports))


def _words(runner: Runner) -> tuple[ModuleType, ...]:
    """The modules whose text builds the model in a script."""
    return (elements, encode) if runner.is_onnx else (elements,)


def _text_of(module: str) -> str:
    """The source of a module of the worker, which imports a framework and is not imported here."""
    found = find_spec(module)
    assert found is not None
    assert isinstance(found.loader, InspectLoader)
    return found.loader.get_source(module) or ""


def _expected(expectation: Expectation) -> list[tuple[str, str, str]]:
    """The outputs to compare with where another package made them: (name, element type, expression).

    A sequence is several of them; where the failing run gives a tensor in its place, their type says so.
    """
    passing = expectation.passing
    if passing is None or not passing.config.backend or expectation.outcome is not Outcome.MISMATCH:
        return []
    found = []
    for name, value in passing.outputs.items():
        is_tensor = isinstance(expectation.failing.outputs.get(name), np.ndarray)
        kind = "sequence of " if isinstance(value, list) and is_tensor else ""
        for tensor in _flat(value):
            element = dtype_name(element_type(tensor.dtype))
            found.append((name, kind + element, array_code(element, tensor, 8)))
    return found


def fixed_types(case: Case) -> dict[str, tuple[str, list[int | None] | None]]:
    """The element type and dims that the values of the inputs fix for each output; None for what is open.

    What the model declares counts only where nothing is inferred: a reduction may have left it behind.
    """
    model = onnx.ModelProto()
    model.CopyFrom(model_of(case))
    given = {name: value for name, value in case.inputs.items() if isinstance(value, np.ndarray)}
    small = {name: value for name, value in given.items() if value.size <= MOST_FOLDED}
    model.graph.initializer.extend(onnx.numpy_helper.from_array(small[name], name) for name in small)
    inferred = inferred_types(model)
    found = {}
    for output in model.graph.output:
        tensor = inferred.get(output.name, output.type).tensor_type
        tensor = tensor if tensor.HasField("shape") else output.type.tensor_type
        if tensor.elem_type and tensor.elem_type != STRING:
            sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
            found[output.name] = (dtype_name(tensor.elem_type), sizes if tensor.HasField("shape") else None)
    return found


def _claim_fields(claim: Claim) -> dict[str, Any]:
    expectation = claim.expectation
    return {
        "seen": expectation.outcome.value,
        "failing": expectation.failing_label,
        "passing": _passing(expectation),
        "unstable": expectation.is_unstable,
        "fragment": expectation.fragment,
        "kind": expectation.kind,
        "accepted": expectation.kind == ACCEPTED,
        "rtol": claim.tolerance.rtol,
        "atol": claim.tolerance.atol,
        "seconds": claim.seconds,
        "memory": claim.memory,
        "times": expectation.times,
        "other_python": _from_home(str(expectation.passing.config.get("python") or ""))
        if expectation.outcome is Outcome.PERF and expectation.passing
        else "",
    }


def _from_home(path: str) -> str:
    """A path that does not name who wrote the script."""
    home = f"{Path.home()}/"
    return f"~/{path.removeprefix(home)}" if path.startswith(home) else path


def _passing(expectation: Expectation) -> str | None:
    """Name the side to compare with: a run of the script's own, or values of another package."""
    if expectation.passing is None or not expectation.passing.config.backend:
        return expectation.passing_label or None
    return EXPECTED if expectation.outcome is Outcome.MISMATCH else None


def _embedding(case: Case, model: onnx.ModelProto, mode: str, runner: Runner) -> tuple[str, str]:
    """The script's name of the model, and the code that makes it."""
    if case.external or len(case.program) > MOST_BYTES:
        return "beside", ""
    if mode == "code":
        try:
            code = parsed_code(model) if runner.has_onnx else model_code(model, indent=4)
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


def _imports(script: str, guards: Sequence[str], written: Sequence[str]) -> str:
    """The import statements of what the script uses of the standard library, and those of pasted modules."""
    used = [name for name in STANDARD if re.search(rf"(?<![.\w]){name}\.", script)]
    lines = [f"import {name}" for name in used]
    lines += ["from importlib import metadata"] if " metadata." in script else []
    pasted = {
        ast.unparse(node) for text in guards for node in ast.parse(text).body if _is_foreign_import(node)
    }
    return "\n".join([*lines, *sorted(pasted.difference(lines, written), reverse=True)])


def _is_foreign_import(node: ast.stmt) -> bool:
    """Whether a statement imports what is neither crux's own nor only for annotations."""
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").split(".")[0] not in ("oracles", "typing", "__future__")
    return isinstance(node, ast.Import) and not node.names[0].asname


def _output_elements(expectation: Expectation, model: onnx.ModelProto) -> set[int]:
    """The element types of the outputs: those seen, or those declared when nothing was seen."""
    seen = [run.outputs for run in (expectation.passing, expectation.failing) if run is not None]
    tensors = [each for outputs in seen for value in outputs.values() for each in _flat(value)]
    declared = {output.type.tensor_type.elem_type for output in model.graph.output}
    return {element_type(tensor.dtype) for tensor in tensors} or declared


def _decode_table(code: int) -> str:
    """The value of every bit pattern of a small element type, as a literal."""
    bits = np.arange(256, dtype=np.uint8)
    if DTYPES[code].itemsize == 1 and dtype_name(code) in BITS:
        bits = bits[: 1 << BITS[dtype_name(code)]]
    with np.errstate(all="ignore"):
        numbers = bits.view(DTYPES[code]).astype(np.float64)
    return "[" + ", ".join(str(float(number)) for number in numbers) + "]"


def _flat(value: Value) -> list[Tensor]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _lines(text: str, width: int = 96) -> list[str]:
    return [text[at : at + width] for at in range(0, len(text), width)]
