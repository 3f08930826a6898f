"""A module of StableHLO, as text or bytecode, compiled by XLA for the CPU and run.

The first compilation of a process makes XLA's client, which starts threads: never call this in the zygote.
"""

import os
import re
import tempfile
from typing import Any, Callable, Iterator  # noqa: UP035 (Python 3.8)

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
