"""Options of a session that a case may hold beside its program: `session.disable_prepacking=1`.

Python 3.8; no framework is needed to know them.
"""

from __future__ import annotations

from typing import Any, Iterable  # noqa: UP035 (Python 3.8)

ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "execution_mode": ("parallel",),
    "execution_order": ("priority",),
    "intra_op_num_threads": ("2", "4"),
    "enable_mem_pattern": ("0",),
    "enable_cpu_mem_arena": ("0",),
    "enable_mem_reuse": ("0",),
    "use_deterministic_compute": ("1",),
    "free_dims": ("fixed",),
}
"""Attributes of `SessionOptions` by their values; `free_dims` fixes each symbolic dim at the input's size."""

ENTRIES: dict[str, tuple[str, ...]] = {
    "optimization.constant_folding_max_output_size_in_bytes": ("0", "64"),
    "session.debug_layout_transformation": ("1",),
    "session.disable_aot_function_inlining": ("1",),
    "session.disable_double_qdq_remover": ("1",),
    "session.disable_prepacking": ("1",),
    "session.disable_qdq_constant_folding": ("1",),
    "session.disable_quant_qdq": ("1",),
    "session.dynamic_block_base": ("1", "4"),
    "session.graph_optimizations_loop_level": ("0", "2"),
    "session.prepack.enable_parallel": ("1",),
    "session.qdqisint8allowed": ("1",),
    "session.use_device_allocator_for_initializers": ("1",),
    "session.use_env_allocators": ("1",),
    "session.x64quantprecision": ("1",),
}
"""Entries of the session's configuration; those that change results by design are left out."""

OPTIONS = {**ATTRIBUTES, **ENTRIES}
"""Every option with the values that it is drawn from."""

NAMED = {
    ("execution_mode", "parallel"): "ExecutionMode.ORT_PARALLEL",
    ("execution_order", "priority"): "ExecutionOrder.PRIORITY_BASED",
}
"""Values that are members of an enumeration."""


def apply(options: Any, core: Any, members: Iterable[str]) -> None:
    """Set the options of a session, but for `free_dims`."""
    for member in members:
        name, _, value = member.partition("=")
        if name in ENTRIES:
            options.add_session_config_entry(name, value)
        elif (name, value) in NAMED:
            kind, _, which = NAMED[name, value].partition(".")
            setattr(options, name, getattr(getattr(core, kind), which))
            if name == "execution_mode":
                options.inter_op_num_threads = 2
        elif name != "free_dims":
            setattr(options, name, int(value) if name.endswith("threads") else value != "0")


def fix_dims(options: Any, inputs: Iterable[Any], values: dict[str, Any]) -> None:
    """Fix each symbolic dim of a session's inputs at the size that a value has there."""
    for each in inputs:
        given = getattr(values.get(each.name), "shape", ())
        for size, dim in zip(given, each.shape if len(given) == len(each.shape) else ()):  # noqa: B905
            if isinstance(dim, str):
                options.add_free_dimension_override_by_name(dim, size)


def code_of(members: Iterable[str]) -> tuple[str, ...]:
    """The statements of a script that set these on `options`, but for `free_dims`; `ort` is onnxruntime."""
    lines: list[str] = []
    for name, _, value in (member.partition("=") for member in members):
        if name in ENTRIES:
            lines.append(f'options.add_session_config_entry("{name}", "{value}")')
        elif (name, value) in NAMED:
            lines.append(f"options.{name} = ort.{NAMED[name, value]}")
            lines += ["options.inter_op_num_threads = 2"] if name == "execution_mode" else []
        elif name != "free_dims":
            lines.append(f"options.{name} = {int(value) if name.endswith('threads') else value != '0'}")
    return tuple(lines)
