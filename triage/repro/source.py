"""A program as source code, where its framework can write it.

The text is made of literals only. What these calls do not say as plainly raises `NotExpressible`.
"""

import ast
import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from corpus.case import Case
from corpus.errors import UserError
from corpus.graphs.format import plain_names, renamed
from corpus.graphs.program import GraphProgram
from corpus.values import Tensor, Value
from oracles.judge import Judge
from oracles.verdict import Config
from triage.language import language_of
from triage.projects import Printed, runner_of
from triage.repro.model_code import NotExpressible


def surprise(code: str, printed: Printed) -> str:
    """Name what no program printed by its framework does; empty if the code does nothing of the kind."""
    try:
        tree = ast.parse(code)
    except SyntaxError as error:
        return f"it is no Python ({error.msg})"
    return next(_surprises(tree, printed), "")


def _surprises(tree: ast.Module, printed: Printed) -> Iterator[str]:
    own = set(_given(tree))
    for node in ast.walk(tree):
        match node:
            case ast.Import() | ast.ImportFrom(level=1):
                yield "it imports"
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] not in printed.modules:
                yield f"it imports {module}"
            case ast.Call(func=ast.Name(id="__import__")):
                if not _is_known_import(node, printed):
                    yield "it imports"
            case ast.Name(id=name, ctx=ast.Load()) if name not in own | printed.names | {"__import__"}:
                yield f"it uses {name}"
            case ast.Attribute(attr=name) if name.startswith("__") and name != "__init__":
                yield f"it uses {name}"


def _given(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case (
                ast.Name(id=name, ctx=ast.Store())
                | ast.arg(arg=name)
                | ast.ClassDef(name=name)
                | ast.FunctionDef(name=name)
            ):
                yield name
            case ast.FunctionDef(name=name):
                yield name
            case ast.ImportFrom(names=names):
                yield from (each.asname or each.name for each in names)


def _is_known_import(call: ast.Call, printed: Printed) -> bool:
    match call.args:
        case [ast.Constant(value=str(name))]:
            return name in printed.modules | printed.by_name
    return False


RANDOM = re.compile(
    r"rand|dropout|bernoulli|normal|multinomial|uniform|exponential|poisson|cauchy|geometric|rrelu"
)
"""What is in the names of operators of torch's that draw random numbers."""


class NotWritten(UserError):
    """A program cannot be had as its framework's own code."""


@dataclass(frozen=True)
class Source:
    """A case's program as its framework's code, the list of what to call it with, and by which name.

    `writes` says whether it changes what it is given or holds; `dims` are pairs of an input and a dim of it
    that is of any size.
    """

    module: str
    inputs: str
    entry: str = "main"
    writes: bool = False
    dims: tuple[tuple[int, int], ...] = ()

    @property
    def is_random(self) -> bool:
        """Whether the code of a torch module may draw random numbers."""
        return RANDOM.search(self.module) is not None

    @property
    def math_imports(self) -> str:
        """The import of `inf` and `nan`, where the code or its inputs name them."""
        code = f"{self.module}\n{self.inputs}"
        names = [name for name in ("inf", "nan") if re.search(rf"(?<![\w.\"']){name}\b", code)]
        return f"from math import {', '.join(names)}\n" if names else ""

    @property
    def torch_imports(self) -> str:
        """The imports that the code of a torch module and its inputs needs, and no other."""
        code = f"{self.module}\n{self.inputs}"
        lines = ["import base64"] if "base64." in code else []
        lines += [self.math_imports.strip()] if self.math_imports else []
        blank = [""] if lines else []
        functional = ["import torch.nn.functional as F"] if re.search(r"\bF\.", code) else []
        return "\n".join([*lines, *blank, "import torch", *functional])


SHOW_SOURCE = Config("source", (("show", "source"),))


def source_of(case: Case, judge: Judge) -> Source | None:
    """The program as its framework's own code; None for a target that takes it as it is.

    Raises `NotWritten` where it cannot be had, or where names in it would make it do something else.
    """
    printed = runner_of(judge.target.backend, case.format).printed
    if printed is None:
        return None
    source = language_of(case.format).source or printed_source
    return _plain(case, source(case, judge), printed)


def printed_source(case: Case, judge: Judge) -> Source:
    """The program as its framework prints it; raises `NotWritten` where it does not."""
    (run,) = judge.runs(case, (SHOW_SOURCE,))
    if not run.is_ok:
        why = f"{run.error}: {run.message}" if run.error else run.status.value
        raise NotWritten(f"{case.case_id[:12]}: cannot be written as a module ({why})")
    return _source(run.outputs)


def _plain(case: Case, found: Source, printed: Printed) -> Source:
    """The source, if reading it does nothing but describe a program; raises `NotWritten` elsewhere."""
    code = f"{found.module}\n[\n{found.inputs}\n]"
    if why := surprise(code, printed):
        raise NotWritten(f"{case.case_id[:12]}: its code is not written down, since {why}")
    return found


def _source(told: Mapping[str, Value]) -> Source:
    """Read a worker's answer about a program's text."""
    dims = np.asarray(told.get("dims", ()), np.int64).reshape(-1, 2)
    pairs = tuple((int(place), int(dim)) for place, dim in dims)
    entry, writes = str(told.get("entry", "main")), bool(told.get("writes", False))
    return Source(str(told["module"]), str(told["inputs"]), entry, writes, pairs)


def with_plain_names(case: Case) -> Case:
    """A graph's case with names that are identifiers, where its own would not be read again as names."""
    program: GraphProgram = case.parsed
    if all(re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) for name in program.names):
        return case
    names = plain_names(program)
    inputs = {names[name]: value for name, value in case.inputs.items()}
    return replace(case, program=renamed(program, names).to_bytes(), inputs=inputs)


MOST_ELEMENTS = 64
"""Elements of a tensor that are written out; those of a larger one stand as base64."""
MOST_BYTES = 1024
"""Bytes of an array that a script may hold."""


def array_code(array: Tensor) -> str:
    """A numpy array as the expression that makes it."""
    if array.dtype.kind not in "biufcU":
        raise NotExpressible(f"values of {array.dtype}")
    dtype = "" if array.dtype.kind == "U" else f", np.{_dtype(array.dtype)}"
    flat = array.reshape(-1)
    if array.size > 4 and len({each.tobytes() for each in flat}) == 1:
        return f"np.full({array.shape}, {_number(flat[0])}{dtype})"
    if array.size > MOST_ELEMENTS:
        return _decoded(array)
    empty = f".reshape({array.shape})" if array.size == 0 else ""
    return f"np.array({_nested(array) if array.size else '[]'}{dtype}){empty}"


def _decoded(array: Tensor) -> str:
    """An array of many elements, by its bytes."""
    if array.dtype.kind == "U" or array.nbytes > MOST_BYTES:
        raise NotExpressible("an array of many elements")
    text = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    lines = "".join(f'\n    "{text[at : at + 96]}"' for at in range(0, len(text), 96))
    return f"np.frombuffer(base64.b64decode({lines}\n), np.{_dtype(array.dtype)}).reshape({array.shape})"


def _dtype(dtype: np.dtype[np.generic]) -> str:
    return "bool_" if dtype == np.bool_ else dtype.name


def _nested(array: Tensor) -> str:
    if array.ndim:
        return f"[{', '.join(_nested(np.asarray(each)) for each in array)}]"
    return _number(array[()])


def _number(number: Any) -> str:
    """The shortest literal that gives the same value in the number's own type."""
    if number.dtype.kind == "U":
        return repr(str(number))
    if number.dtype.kind == "c":
        return repr(number.item())
    text = str(number) if number.dtype.kind == "f" else repr(number.item())
    return {"nan": "np.nan", "inf": "np.inf", "-inf": "-np.inf"}.get(text, text)
