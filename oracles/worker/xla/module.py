"""A module of StableHLO, as text or bytecode, compiled by XLA for the CPU and run, or interpreted by jaxlib.

The first compilation of a process makes XLA's client, which starts threads: never call this in the zygote.
"""

import os
import re
import tempfile
from typing import Any, Callable, Iterator  # noqa: UP035 (Python 3.8)

import numpy as np
from jax.interpreters import mlir
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from oracles.worker.stablehlo.tensors import array_of, constant_text, told_type

PLAIN = {"xla_allow_excess_precision": False}
"""What holds in every way: short floats are rounded wherever the module says so."""

CHANGED = "crux: changed "


def run_module(
    module: Any, arrays: list[Any], settings: dict[str, Any], enter: Callable[[str], None]
) -> list[Any]:
    """Compile and run one module (text, or bytes of its bytecode) on the CPU; the results in order.

    Settings: `level`, XLA's backend level 0 to 3; `passes=off`, no HLO pass but those it cannot do without;
    `disabled_passes`, names of HLO passes. With `log` each pass that changed the module goes to stderr.
    """
    import jax
    import numpy as np

    enter("optimise")
    client = jax.local_devices(backend="cpu")[0].client
    code = compiled(client, module, settings)
    enter("execute")
    given = [jax.device_put(each, client.local_devices()[0]) for each in arrays]
    results = code.execute_sharded(given).disassemble_into_single_device_arrays()
    return [np.asarray(each[0]) for each in results]


def compiled(client: Any, module: Any, settings: dict[str, Any]) -> Any:
    """The executable of a module; what its passes changed is written down where `log` asks for it."""
    flags = flags_of(settings)
    if not settings.get("log"):
        return executable(client, module, flags)
    with tempfile.TemporaryDirectory() as folder:
        try:
            return executable(client, module, {**flags, **dict(dumping(folder))})
        finally:
            for name in changed_by(os.listdir(folder)):
                os.write(2, f"{CHANGED}{name}\n".encode())


def executable(client: Any, module: Any, flags: dict[str, Any]) -> Any:
    """Compile a module under these options of XLA's."""
    from jaxlib import xla_client

    options = xla_client.CompileOptions()
    options.env_option_overrides = list(flags.items())
    if not hasattr(client, "compile_and_load"):  # before 0.6.1
        return client.compile(module, options)
    return client.compile_and_load(module, client.local_devices()[:1], options)


def flags_of(settings: dict[str, Any]) -> dict[str, Any]:
    """XLA's options for the settings of a way."""
    flags = {**PLAIN, "xla_backend_optimization_level": settings.get("level", 3)}
    disabled = settings.get("disabled_passes", ())
    if settings.get("passes") == "off":
        flags["xla_disable_all_hlo_passes"] = True
    elif disabled:
        flags["xla_disable_hlo_passes"] = ",".join(disabled)
    return flags


def dumping(folder: str) -> Iterator[tuple[str, Any]]:
    """The options by which XLA writes the module to a folder after each pass that changed it."""
    yield from (("xla_dump_to", folder), ("xla_dump_hlo_pass_re", ".*"), ("xla_dump_hlo_as_text", True))


DUMP = re.compile(r"module_\d+\..*?\.(\d{4})\.(.+)\.after_(.+?)\.before_.*\.txt")


def changed_by(files: list[str]) -> list[str]:
    """The passes that changed the module, in their order, by the names of the files that XLA wrote."""
    found = sorted(match.groups() for match in map(DUMP.fullmatch, files) if match)
    return list(dict.fromkeys(name for _, _, name in found if name != "pipeline-start"))


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
