"""The modules that the tests of a file give to TVM's passes, as ONNX models where ONNX can say them."""

from __future__ import annotations

import base64
import json
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from oracles.in_worker.documented import run_tests
from oracles.in_worker.tvm.opening.capture import holds_loops_alone
from oracles.in_worker.tvm.opening.onnx import NoSuchOperator, Writer
from oracles.in_worker.tvm.read import read_module
from oracles.in_worker.tvm.tir.read import read_module as read_loops
from oracles.in_worker.tvm.watch import instrumented


@tvm.ir.instrument.pass_instrument
class Pairs:
    """Keeps each module with the pass that changed it: OATest's hook of the pass call (§3.1).

    `loops` keeps the PrimFuncs of whatever goes into a pass, by their structure, changed or not.
    """

    def __init__(self, changed: list[tuple[str, Any]], loops: dict[int, Any]) -> None:
        self.changed = changed
        self.loops = loops
        self.open: list[tuple[Any, int]] = []

    def run_before_pass(self, module: Any, info: Any) -> None:
        """Remember the module that goes into a pass."""
        self.open.append((module, tvm_ffi.structural_hash(module)))
        for function in module.functions.values():
            if isinstance(function, tvm.tirx.PrimFunc):
                self.loops.setdefault(tvm_ffi.structural_hash(function), function)

    def run_after_pass(self, module: Any, info: Any) -> None:
        """Keep the module that went in if the pass changed it."""
        before, digest = self.open.pop()
        if digest != tvm_ffi.structural_hash(module):
            self.changed.append((str(info.name), before))


def documented(path: str, content: str) -> dict[str, Any]:
    """Run the tests of a file and return what they gave to passes.

    `models`: [test, pass, ONNX model in base64] each; `graphs`: [test, pass, Relax module] each;
    `loops`: [test, module of one PrimFunc] each; `notes`: what went wrong; `left_out`: reasons.
    """
    changed: list[tuple[str, Any]] = []
    seen: dict[int, Any] = {}
    loops: dict[str, str] = {}
    found: dict[tuple[str, str], str] = {}
    graphs: dict[tuple[str, str], str] = {}
    left_out: dict[str, int] = {}

    def after_each(test: str) -> None:
        for name, module in changed:
            if holds_loops_alone(module):
                continue
            if (program := as_document(module, left_out)) is not None:
                graphs.setdefault((name, program), test)
            for function in module.functions.values():
                if isinstance(function, relax.Function):
                    try:
                        program = Writer(function).model().SerializeToString(deterministic=True)
                    except NoSuchOperator as error:
                        left_out[str(error)] = left_out.get(str(error), 0) + 1
                        continue
                    found.setdefault((name, base64.b64encode(program).decode("ascii")), test)
        changed.clear()
        for function in seen.values():
            if (program := loops_document(function, left_out)) is not None:
                loops.setdefault(program, test)
        seen.clear()

    with instrumented(lambda: Pairs(changed, seen)):
        note = run_tests(path, base64.b64decode(content).decode("utf-8", "replace"), after_each)
    models = [[test, name, program] for (name, program), test in found.items()]
    read = [[test, name, program] for (name, program), test in graphs.items()]
    alone = [[test, program] for program, test in loops.items()]
    notes = [note] if note else []
    return {"models": models, "graphs": read, "loops": alone, "notes": notes, "left_out": left_out}


def loops_document(function: Any, left_out: dict[str, int]) -> str | None:
    """Return a module of this PrimFunc alone as data; None, with its reason counted, where there is none."""
    try:
        alone = tvm.ir.IRModule({"main": function.without_attr("global_symbol")})
        return json.dumps(read_loops(alone))
    except Exception as error:  # whatever a test makes; it is counted and told
        reason = f"as a program of loops: {type(error).__name__} {str(error)[:60]}"
        left_out[reason] = left_out.get(reason, 0) + 1
        return None


def as_document(module: Any, left_out: dict[str, int]) -> str | None:
    """Return the module as data; None, with its reason counted, where there is none."""
    try:
        document = {"format": "relax", "version": 1, **read_module(module)}
    except Exception as error:  # whatever a test makes; it is counted and told
        reason = f"as a Relax program: {type(error).__name__} {str(error)[:60]}"
        left_out[reason] = left_out.get(reason, 0) + 1
        return None
    return json.dumps(document)
