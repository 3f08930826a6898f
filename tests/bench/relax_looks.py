"""What Relax modules hold and which passes change them in what way; a program of its own, never imported.

Reads lines of JSON, `{"format": "onnx" | "relax", "program": base64}`, and answers each in a process of its
own, since some passes end it: operators, with dtypes, ranks and neighbours, and for each pass that changes
the module the operators that it took away and put in. The neighbours of an operator are those that made its
operands, whatever names, tuples and casts lie between.
"""

import base64
import json
import os
import resource
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import onnx
import tvm
import tvm_ffi
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

from oracles.worker.tvm.build import to_module
from oracles.worker.tvm.firing import ALL, after, sequence_of, start_of, tidy

SECONDS = 20.0


def opened(item: dict[str, str]) -> Any:
    program = base64.b64decode(item["program"])
    if item["format"] == "onnx":
        module = from_onnx(onnx.load_model_from_string(program), keep_params_in_input=False)
    else:
        module = to_module(json.loads(program))
    return relax.transform.Normalize()(module)


def bindings(body: Any) -> Iterator[Any]:
    """Yield every binding of a body, with those of its branches and local functions before it."""
    if isinstance(body, relax.Function):
        yield from bindings(body.body)
    elif isinstance(body, relax.If):
        yield from bindings(body.true_branch)
        yield from bindings(body.false_branch)
    elif isinstance(body, relax.SeqExpr):
        for block in body.blocks:
            for binding in block.bindings:
                yield from bindings(binding.value)
                yield binding


def name_of(call: Any) -> str:
    return str(call.op.name) if isinstance(call.op, tvm.ir.Op) else "call"


def leaves(expr: Any) -> Iterator[Any]:
    """Yield what an operand reads: a tuple by its fields."""
    if isinstance(expr, tvm.ir.Tuple):
        for field in expr.fields:
            yield from leaves(field)
    elif isinstance(expr, tvm.ir.TupleGetItem):
        yield from leaves(expr.tuple_value)
    else:
        yield expr


def held(module: Any) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {"op": set(), "dtype": set(), "rank": set(), "edge": set()}
    for function in module.functions.values():
        makers: dict[Any, set[str]] = {}
        for binding in bindings(function) if isinstance(function, relax.Function) else ():
            value = binding.value
            if not isinstance(value, relax.Call):
                source = getattr(binding, "value", None)
                makers[binding.var] = {one for each in leaves(source) for one in makers.get(each, ())}
                continue
            name = name_of(value)
            found["op"].add(name)
            operands = [each for arg in value.args for each in leaves(arg)]
            for each in operands:
                told = getattr(each, "ty", None)
                if isinstance(told, relax.TensorType):
                    found["dtype"].add(f"{name} {told.dtype}")
                    found["rank"].add(f"{name} {told.ndim}")
                found["edge"].update(f"{maker} {name}" for maker in makers.get(each, ()))
            makers[binding.var] = {name}
    return found


def kinds(module: Any) -> Counter[str]:
    """Count the operators of a module, and its functions by their kind."""
    found: Counter[str] = Counter()
    for function in module.functions.values():
        found[type(function).__name__] += 1
        for binding in bindings(function) if isinstance(function, relax.Function) else ():
            is_call = isinstance(binding.value, relax.Call)
            found[name_of(binding.value) if is_call else type(binding.value).__name__] += 1
    return found


def effects(module: Any) -> dict[str, Any]:
    """By each pass that changes the module, alone after what it needs: the operators gone and come."""
    found: dict[str, Any] = {}
    starts: dict[str, dict[tuple[str, ...], Any]] = {"": {(): module}}
    with tvm.target.Target({"kind": "llvm", "opt-level": 0}):
        for name in ALL:
            start = start_of(name)
            if start not in starts:
                starts[start] = {(): tidy(module, start)}
            sequence = sequence_of(name)
            try:
                before = after(starts[start], sequence[:-1])
                made = ALL[sequence[-1]].build()(before)
            except Exception:  # a pass that refuses the module changes none of it
                continue
            if tvm_ffi.structural_hash(made) != tvm_ffi.structural_hash(before):
                old, new = kinds(before), kinds(made)
                found[name] = [sorted(old - new), sorted(new - old)]
    return found


def look(item: dict[str, str]) -> dict[str, Any]:
    module = opened(item)
    found: dict[str, Any] = {key: sorted(value) for key, value in held(module).items()}
    calls = sum(
        isinstance(each.value, relax.Call)
        for function in module.functions.values()
        for each in (bindings(function) if isinstance(function, relax.Function) else ())
    )
    return {**found, "calls": calls, "pass": effects(module)}


def answered(item: dict[str, str]) -> str:
    """Return the answer of a child process; one that tells of nothing where it ended early."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            os.write(writing, json.dumps(look(item)).encode())
        except Exception as error:
            os.write(writing, json.dumps({"failed": type(error).__name__}).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer or json.dumps({"failed": "ended"})


for line in sys.stdin:
    earlier = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    told = json.loads(answered(json.loads(line)))
    told["cpu"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - earlier
    print(json.dumps(told), flush=True)
