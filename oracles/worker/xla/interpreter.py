"""StableHLO's own interpreter, which jaxlib brings: slow, plain, and no part of a compiler."""

import re
from typing import Any, Callable  # noqa: UP035 (Python 3.8)

import numpy as np
from jax.interpreters import mlir
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from oracles.worker.stablehlo.read import array_of, constant_text, told_type

LACKS = re.compile(
    r"\b(custom_call|rng|rng_bit_generator|fft|cholesky|triangular_solve|composite|batch_norm_\w+|infeed|outfeed"
    r"|dynamic_\w*conv|\w*quantize|all_\w+|collective_\w+|partition_id|replica_id|reduce_scatter|map)\b"
    r"|\b(chlo)\.|complex<"
)
"""What it ends its process over, or has no words for."""
MOST_STEPS = 400_000
"""Products and sums of a module that it still runs in some seconds."""
TRIPS = 16
"""How often a loop's body is guessed to run."""


def context() -> Any:
    """A context with the dialects of modules that jax writes."""
    found = mlir.make_ir_context()
    found.enable_multithreading(False)  # jax's threads are of the process before the fork
    stablehlo.register_interpreter_dialect(found)
    return found


def interpreted(
    text: str, values: "list[Any]", results: "list[tuple[str, Any]]", enter: Callable[[str], None]
) -> "list[Any] | None":
    """The results of a module in order; None where it is not for the interpreter."""
    if LACKS.search(text):
        return None
    with context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        if _steps(module.operation) > MOST_STEPS:
            return None
        enter("execute")
        given = [_attribute(each) for each in values]
        made = stablehlo.eval_module(module, given)
        return [_array(each, dtype) for each, (_, dtype) in zip(made, results)]  # noqa: B905 (Python 3.8)


def _steps(operation: Any) -> int:
    """Roughly what running a module takes: the elements of results, times the terms of each."""
    total = 0
    for region in operation.regions:
        for block in region.blocks:
            for each in block.operations:
                inner = _steps(each.operation)
                total += _own(each.operation) + inner * (TRIPS if "while" in each.operation.name else 1)
    return total


def _own(operation: Any) -> int:
    sizes = [int(np.prod(each.type.shape)) for each in operation.results if hasattr(each.type, "shape")]
    size = sum(sizes)
    taken = [int(np.prod(each.type.shape)) for each in operation.operands if hasattr(each.type, "shape")]
    if operation.name.endswith(("dot_general", "convolution")) and size:
        # each result sums as many terms as operands have more elements, at the most
        return int((taken[0] * taken[1] * size) ** 0.5) if "dot" in operation.name else size * taken[1]
    return max([size, *taken]) if "reduce" in operation.name else size


def _attribute(array: Any) -> Any:
    """An array as the interpreter takes it."""
    return ir.Operation.parse(constant_text(array)).operation.attributes["value"]


def _array(attribute: Any, dtype: Any) -> Any:
    dims, name = told_type(ir, attribute.type)
    found = array_of(f"constant {attribute}", dims, name)
    assert found.dtype == dtype, (found.dtype, dtype)
    return found
