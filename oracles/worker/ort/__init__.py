"""ONNX Runtime's half in the worker: options of sessions, values that numpy cannot hold, small models.

In come arrays and settings; out come sessions and onnxruntime's values. Called by
`oracles/backends/ort.py` in the worker only. Python 3.8 syntax. Here stands what ONNX Runtime calls levels of
optimisation and element types, and the options of a session that a case may hold beside its program
(`session.disable_prepacking=1`): no framework is needed to know it.
"""

from __future__ import annotations

from typing import Any, Iterable  # noqa: UP035 (Python 3.8)

LEVELS = {
    "none": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "layout": "ORT_ENABLE_LAYOUT",
    "all": "ORT_ENABLE_ALL",
}
"""Of graph optimisation, by crux's name."""

ELEMENTS = {
    "bool": (9, "tensor(bool)"),
    "float32": (1, "tensor(float)"),
    "float64": (11, "tensor(double)"),
    "float16": (10, "tensor(float16)"),
    "int8": (3, "tensor(int8)"),
    "int16": (5, "tensor(int16)"),
    "int32": (6, "tensor(int32)"),
    "int64": (7, "tensor(int64)"),
    "uint8": (2, "tensor(uint8)"),
    "uint16": (4, "tensor(uint16)"),
    "uint32": (12, "tensor(uint32)"),
    "uint64": (13, "tensor(uint64)"),
    "str": (8, "tensor(string)"),
    "bfloat16": (16, "tensor(bfloat16)"),
    "float8_e4m3fn": (17, "tensor(float8e4m3fn)"),
    "float8_e4m3fnuz": (18, "tensor(float8e4m3fnuz)"),
    "float8_e5m2": (19, "tensor(float8e5m2)"),
    "float8_e5m2fnuz": (20, "tensor(float8e5m2fnuz)"),
    "uint4": (21, "tensor(uint4)"),
    "int4": (22, "tensor(int4)"),
    "float4_e2m1fn": (23, "tensor(float4e2m1)"),
    "float8_e8m0fnu": (24, "tensor(float8e8m0)"),
    "uint2": (25, "tensor(uint2)"),
    "int2": (26, "tensor(int2)"),
}
"""Element types by their names in numpy or ml_dtypes: ONNX's number and onnxruntime's text."""

WIDTHS = {"uint4": 4, "int4": 4, "float4_e2m1fn": 4, "uint2": 2, "int2": 2}
"""Bits of the types that are packed several to a byte."""

CODES = {name: code for name, (code, _) in ELEMENTS.items()}
NAMES = {code: name for name, code in CODES.items()}
STRANGE = frozenset(list(ELEMENTS)[list(ELEMENTS).index("bfloat16") :])
STRANGE_TYPES = frozenset(ELEMENTS[name][1] for name in STRANGE)

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
"""Attributes of `SessionOptions` by their values.

`free_dims` fixes each symbolic dim at the input's size, where no earlier run has another one.
"""

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
