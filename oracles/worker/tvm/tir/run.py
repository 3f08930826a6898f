"""TIR programs in TVM: through passes and a pipeline, compiled, and called once.

The pipeline `least` only lowers: what the code generator cannot do without, and nothing that simplifies,
hoists, unrolls, vectorises or shares. With LLVM at level 0 it is the un-optimised baseline.

The checks are oracles of Tzer (section 3.4 and the root causes of 5.5): a module is immutable to a pass,
what a pass leaves is well-formed, and what it has done once it can do again. The coverage is what a stock
wheel can tell (Tzer, section 3.1, counts edges of an instrumented build).
"""

import ast
import json
import operator
import re
from collections.abc import Iterable
from typing import (  # noqa: UP035 (Python 3.8)
    Any,
    Callable,
)

import numpy as np
import tvm
import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.tirx.build import split_host_device_mods, tir_to_runtime

from oracles.worker.edges import EDGE, WrittenBeyond, between_edges
from oracles.worker.onnx import to_array
from oracles.worker.tvm.passes import LEAST, pass_of
from oracles.worker.tvm.sequences import base_of, is_option
from oracles.worker.tvm.tir.build import build_module
from oracles.worker.tvm.tir.workspaces import must_hold, with_workspaces
from oracles.worker.tvm.watch import IllFormed, apply_passes


class InputChanged(Exception):
    """A pass has changed the module that it was given."""


class NotAgain(Exception):
    """A pass fails on what it has made itself."""


def checked_passes(module: Any, settings: dict[str, Any]) -> Any:
    """The module after the case's own sequence; raises at the first pass that does one of the three."""
    was_sound = not flaw(module)
    for name in settings.get("passes") or ():
        if is_option(name) or base_of(name) in (settings.get("disabled_passes") or ()):
            continue
        before = tvm_ffi.structural_hash(module)
        after = pass_of(name).build()(module)
        if tvm_ffi.structural_hash(module) != before:
            raise InputChanged(f"{name} changes the module that it is given")
        if was_sound and (why := flaw(after)):
            raise IllFormed(f"the module is ill-formed after {name}: {why}")
        _must_run_again(name, after, was_sound)
        module = after
    return module


def _must_run_again(name: str, module: Any, was_sound: bool) -> None:
    """A pass whose own result does not bar it runs on that as well, and leaves it well-formed."""
    wanted = pass_of(name)
    if wanted.gives & wanted.bars or wanted.takes & wanted.needs:
        return
    try:
        twice = pass_of(name).build()(module)
    except Exception as error:
        raise NotAgain(f"{name} fails on what it has made: {str(error).strip()[-300:]}") from error
    if was_sound and (why := flaw(twice)):
        raise IllFormed(f"the module is ill-formed after {name} a second time: {why}")


def describe(document: dict[str, Any]) -> dict[str, Any]:
    """Why TVM finds a module ill-formed; empty if it does not."""
    why = flaw(build_module(document))
    return {"error": why} if why else {}


def flaw(module: Any) -> str:
    """The last line of TVM's complaint about an ill-formed PrimFunc; empty if it is well-formed."""
    for function in module.functions.values():
        if not isinstance(function, tirx.PrimFunc):
            continue
        try:
            s_tir.analysis.verify_well_formed(function, True)
        except Exception as error:
            why = str(error).strip().split("\n")[-1]
            if not ALLOWED.search(str(error)):
                return why
    return ""


ALLOWED = re.compile(r"\.node\.?\s*$|multiple definitions of variable")
"""What TVM's check refuses and its passes take: a variable outside of its scope as an attribute's node, which
is a key and not read, and one that is defined twice, which `ConvertSSA` mends where it matters.
"""


UNNAMED = re.compile(r"_?\w*_?pipeline|sequential|tirx\.Filter|tirx\.BindTarget")
"""What runs other passes, or tells functions apart."""

LOOPS = ("serial", "parallel", "vectorized", "unrolled", "thread")


@tvm.ir.instrument.pass_instrument
class Cover:
    """Notes pieces such as `tirx.UnrollLoop<For unrolled`, of what was before, and `>` of what is after."""

    def __init__(self, pieces: set[str]) -> None:
        self.pieces = pieces
        self.open: list[dict[str, Any]] = []
        self.known: dict[int, frozenset[str]] = {}

    def run_before_pass(self, module: Any, info: Any) -> None:
        """Remember what the pass is given."""
        self.open.append(functions_of(module))

    def run_after_pass(self, module: Any, info: Any) -> None:
        """Note what it changed."""
        before, name = self.open.pop(), str(info.name)
        if not UNNAMED.fullmatch(name):
            self.pieces.update(pieces_of(name, before, functions_of(module), self.known))


def functions_of(module: Any) -> dict[str, Any]:
    """The PrimFuncs of a module by name."""
    return {var.name_hint: each for var, each in module.functions.items() if isinstance(each, tirx.PrimFunc)}


def pieces_of(
    name: str, before: dict[str, Any], after: dict[str, Any], known: dict[int, frozenset[str]]
) -> Iterable[str]:
    """Yield the coverage of a pass from its change; `known` keeps the kinds of a function by its hash."""
    for key, function in after.items():
        old = before.get(key)
        if old is None or old.same_as(function):
            continue
        digests = tvm_ffi.structural_hash(old), tvm_ffi.structural_hash(function)
        if digests[0] == digests[1]:
            continue
        for sign, digest, each in (("<", digests[0], old), (">", digests[1], function)):
            if digest not in known:
                known[digest] = kinds_in(each)
            yield from (f"{name}{sign}{kind}" for kind in known[digest])


def kinds_in(function: Any) -> frozenset[str]:
    """The kinds of nodes in a function: loops by their kind, calls by what they call, casts by the type."""
    found: set[str] = set()

    def visit(node: Any) -> None:
        kind = type(node)
        if kind is tirx.For:
            found.add(f"For {LOOPS[int(node.kind)]}")
        elif kind is ir.Call:
            found.add(f"Call {getattr(node.op, 'name', 'function')}")
        elif kind is tirx.Cast:
            found.add(f"Cast {node.ty.dtype}")
        else:
            found.add(kind.__name__)

    tvm_ffi.structural_walk(function.body, [(ir.Expr, visit), (tirx.Stmt, visit)])
    return frozenset(found)


RETURNED = "(returned)"
"""The name of what a function returns, among its outputs."""


def run_program(
    program: bytes,
    inputs: dict[str, Any],
    settings: dict[str, Any],
    outputs: Any,
    target: Any,
    enter: Callable[[str], None],
) -> dict[str, Any]:
    """Call the program once; return its buffers and its result, or nothing if it is not to be executed."""
    document = json.loads(program)
    entry = next(iter(document["functions"]))
    module = entered(build_module(document), entry)
    enter("optimise")
    with target:
        module = (checked_passes if settings.get("checks") else apply_passes)(module, settings)
        if settings.get("run") == "passes":
            return {}
        module = lowered(module, target, str(settings.get("pipeline", "default")))
        if settings.get("thin") and b'["assert"' not in program:
            # those that check arguments: half of what is compiled
            module = tirx.transform.SkipAssert()(module)
    enter("codegen")
    compiled = finished(module, target)
    device = tvm.cuda() if settings.get("device") == "cuda" else tvm.cpu()
    if settings.get("run") == "off" or not device.exist:
        return {}
    function = compiled[entry]  # what compiles it for this machine
    enter("execute")
    edge = 0 if settings.get("guarded") else int(settings.get("poison", EDGE))
    found = called(function, document["functions"][entry], inputs, outputs, device, edge)
    watched = with_workspaces(module) if edge and is_watched(settings) and device == tvm.cpu() else None
    if watched is not None:
        again = finished(watched, tvm.target.Target(PLAINLY))[entry]
        must_hold(lambda: called(again, document["functions"][entry], inputs, outputs, device, edge))
    return found


def is_watched(settings: dict[str, Any]) -> bool:
    """Whether a way of running goes through the pipeline whose workspaces are to be guarded as well."""
    return str(settings.get("pipeline", "default")) == "default"


PLAINLY = {"kind": "llvm", "opt-level": 0}
"""The target of the run with guarded workspaces: they tell of TVM's pipeline, and LLVM costs most."""


def finished(module: Any, target: Any) -> Any:
    """The compiled library of a lowered module."""
    host, devices = split_host_device_mods(module)
    _, finish_host, finish_device = tirx.get_tir_pipeline("default")
    devices = {kind: finish_device()(each) for kind, each in devices.items()}
    return tir_to_runtime(finish_host()(host), devices, target.host or target)


def entered(module: Any, entry: str) -> Any:
    """The module with its first function visible from outside."""
    function = module[entry]
    if not (function.attrs and "global_symbol" in function.attrs):
        module = tvm.IRModule(dict(module.functions.items()), attrs=module.attrs)
        module[module.get_global_var(entry)] = function.with_attr("global_symbol", entry)
    return module


def lowered(module: Any, target: Any, pipeline: str) -> Any:
    """The module as the code generator takes it."""
    bound = tirx.transform.BindTarget(target if target.host else target.with_host(target))(module)
    if pipeline == "least":
        return tvm.ir.transform.Sequential(least())(bound)
    return tirx.get_tir_pipeline("default")[0](bound)


def least() -> list[Any]:
    """The passes that lower and do nothing else."""
    return [_made(code) for code in LEAST]


def _made(code: str) -> Any:
    """The pass of an expression such as `tirx.transform.VectorizeLoop(False)`."""
    path, _, rest = code.partition("(")
    return operator.attrgetter(path)(tvm)(*ast.literal_eval(f"({rest[:-1]},)" if rest[:-1] else "()"))


def called(
    compiled: Any,
    function: dict[str, Any],
    inputs: dict[str, Any],
    outputs: Any,
    device: Any,
    edge: int = EDGE,
) -> dict[str, Any]:
    """Call the compiled function once: parameters in order, buffers filled, results copied back.

    On this machine's CPU buffers stand between bytes of an `edge`; without one, and elsewhere, they are TVM's
    own. Raises WrittenBeyond where it has written beside one of them.
    """
    passed, kept, edged = [], {}, {}
    for item in function["params"]:
        if isinstance(item, list):
            passed.append(to_array(inputs[item[0]]).reshape(()).item())
            continue
        name, array = item["name"], to_array(inputs[item["name"]])
        if edge and device in (None, tvm.cpu()) and array.dtype.isbuiltin == 1:  # others DLPack lacks
            edged[name] = between_edges(array, edge, at_start=len(passed) % 2 == 1)
            kept[name] = tvm.runtime.from_dlpack(edged[name][1])
        else:
            kept[name] = tvm.runtime.tensor(array, device)
        passed.append(kept[name])
    returned = compiled(*passed)
    for name, (around, _) in edged.items():
        if any((each != edge).any() for each in around):
            raise WrittenBeyond(f"memory: writes beyond the buffer {name}")
    found = {name: value.numpy() for name, value in kept.items()}
    if function["returns"] not in ("void", "missing") or returned is not None:
        found[RETURNED] = number(returned, function["returns"])
    return found if outputs is None else {name: found[name] for name in outputs}


def number(value: Any, dtype: str) -> Any:
    """A returned number, in the type that the function declares where numpy has it."""
    return np.array(value, None if dtype in ("void", "missing", "handle") else dtype)
