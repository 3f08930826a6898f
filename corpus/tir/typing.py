"""The typing rules of expressions and of calls of intrinsics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from corpus.tir.forms import (
    element,
    integer_range,
    is_bool,
    is_float,
    is_integer,
    is_number,
    is_pointer,
    lanes,
    numpy_dtype,
    parts,
    with_lanes,
)
from corpus.tir.values import (
    ARITHMETIC,
    BITWISE,
    COMPARISONS,
    Binary,
    Broadcast,
    BufferRef,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Ramp,
    Select,
    Shuffle,
    Text,
    Unary,
    type_of,
)


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """What an intrinsic takes and gives."""

    operands: tuple[str, ...]
    result: str


def _all(names: str, operands: str, result: str) -> dict[str, Intrinsic]:
    return {name: Intrinsic(tuple(operands.split()), result) for name in names.split()}


PRIM = frozenset({"if_then_else", "vscale", "log2", "likely", "clz", "ceil"})
"""The intrinsics that TVM keeps among the operators `prim.`; the others are among `tirx.`."""

_FLOAT_FUNCTIONS = """
    exp exp2 exp10 erf tanh sigmoid log log2 log10 log1p tan cos cosh sin sinh asin acos atan atanh acosh
    asinh sqrt rsqrt floor ceil trunc nearbyint round
"""
FLOAT_FUNCTIONS = _FLOAT_FUNCTIONS.split()
"""Functions of one float that give one of its type; TVMScript calls them by these names."""

INTRINSICS: dict[str, Intrinsic] = {
    **_all(_FLOAT_FUNCTIONS, "float", "=0"),
    **_all("atan2 nextafter copysign hypot pow fmod", "float float=", "=0"),
    **_all("fabs", "float", "=0"),
    **_all("fma", "float float= float=", "=0"),
    **_all("ldexp", "float int32", "=0"),
    **_all("isnan isfinite isinf", "number", "bool=0"),
    **_all("isnullptr", "pointer", "bool"),
    **_all("popcount", "int", "=0"),
    **_all("clz", "int", "int32"),
    **_all("likely ignore_loop_partition", "bool", "=0"),
    **_all("if_then_else", "bool value value=", "=1"),
    **_all("assume", "bool", "bool"),
    **_all(
        "undef type_annotation tvm_throw_last_error tvm_static_handle tvm_context_id tvm_warp_activemask "
        "tvm_global_barrier_kinit tvm_kernel_replace_point",
        "",
        "declared",
    ),
    **_all("vscale", "", "int32"),
    **_all("reinterpret", "value", "declared"),
    **_all("q_multiply_shift", "int32 int32 int32 int32", "int32"),
    **_all("q_multiply_shift_per_axis", "int32 int32 int32 int32 int32 bool bool", "int32"),
    **_all("vectorlow vectorhigh", "value", "half"),
    **_all("vectorcombine", "value value=", "double"),
    **_all("dp4a", "any any any", "int32"),
    **_all("get_active_lane_mask", "index index", "declared"),
    **_all("masked_load tvm_struct_get tvm_struct_set", "any *any", "declared"),
    **_all("masked_store print_buffer", "any *any", "void"),
    **_all("break_loop continue_loop thread_return", "", "void"),
    **_all("buffer_data", "buffer", "pointer=0"),
    **_all("buffer_offset", "buffer", "declared"),
    **_all("address_of", "load", "pointer=0"),
    **_all("tvm_access_ptr", "any pointer index index int32", "declared"),
    **_all("ptr_byte_offset", "pointer any *any", "declared"),
    **_all("handle_add_byte_offset", "pointer index", "declared"),
    **_all(
        "call_extern call_pure_extern tvm_call_packed tvm_call_cpacked tvm_call_packed_lowered "
        "tvm_call_cpacked_lowered tvm_call_trace_packed tvm_call_trace_packed_lowered tvm_storage_sync",
        "text *any",
        "declared",
    ),
    **_all(
        "call_llvm_intrin call_llvm_pure_intrin call_spirv_pure_glsl450 call_ffi_kernel tvm_stack_make_shape "
        "tvm_stack_make_array tvm_tuple anylist_getitem anylist_resetitem anylist_setitem_call_packed "
        "anylist_setitem_call_cpacked nd_mem_alloc_with_scope TVMBackendAllocWorkspace "
        "TVMBackendFreeWorkspace prefetch atomic_add tvm_thread_allreduce tvm_fill_fragment "
        "tvm_load_matrix_sync tvm_store_matrix_sync tvm_mma_sync tvm_bmma_sync mma_fill mma_store dma_copy "
        "dma_wait dma_start_group dma_end_group texture2d_load texture2d_store simdgroup_load "
        "simdgroup_store simdgroup_multiply_accumulate make_filled_simdgroup_matrix",
        "*any",
        "declared",
    ),
    **_all("tvm_stack_alloca", "text any", "declared"),
    **_all("lookup_param", "text", "declared"),
    **_all("cuda.ffs_u32", "uint32", "int32"),
    **_all("start_profile_intrinsic end_profile_intrinsic", "int32", "declared"),
    **_all("tvm_thread_invariant", "value", "=0"),
    **_all(
        "tvm_warp_shuffle tvm_warp_shuffle_up tvm_warp_shuffle_down tvm_warp_shuffle_xor",
        "any value *any",
        "declared",
    ),
}


def call_type(callee: str, args: tuple[Expr, ...]) -> str | None:
    """The type of a call by its operands; None where only the call itself can say it."""
    rule = INTRINSICS[callee].result if callee in INTRINSICS else "declared"
    if rule in ("declared", "pointer=0"):
        return None
    kind, _, position = rule.partition("=")
    if position:
        if int(position) >= len(args):
            return None
        dtype = type_of(args[int(position)])
        return with_lanes("bool", lanes(dtype)) if kind == "bool" else dtype
    if kind in ("half", "double"):
        dtype = type_of(args[0]) if args else "void"
        count = lanes(dtype)
        return with_lanes(dtype, max(count // 2, 1) if kind == "half" else count * 2)
    return kind


def call_problem(call: Call) -> str:
    """Say why the operands do not suit the intrinsic; empty if they do."""
    found = INTRINSICS.get(call.callee)
    if found is None:
        return "" if call.callee.startswith("@") else f"intrinsic {call.callee!r} is not known"
    fixed = [kind for kind in found.operands if not kind.startswith("*")]
    variadic = len(fixed) < len(found.operands)
    if len(call.args) < len(fixed) or (len(call.args) > len(fixed) and not variadic):
        return f"{call.callee} takes {len(fixed)} operands, not {len(call.args)}"
    for position, (kind, arg) in enumerate(zip(fixed, call.args, strict=False)):
        if not _suits(kind, arg, found, call.args):
            return f"operand {position} of {call.callee} is of type {_spelt(arg)}, not {kind.rstrip('=')}"
    told = call_type(call.callee, call.args)
    if told not in (None, call.dtype):
        return f"{call.callee} gives {told}, not {call.dtype}"
    if call.callee == "reinterpret" and _bits(call.dtype) != _bits(type_of(call.args[0])):
        return f"reinterpret from {type_of(call.args[0])} to {call.dtype} changes the size"
    return ""


def _suits(kind: str, arg: Expr, found: Intrinsic, args: tuple[Expr, ...]) -> bool:
    if kind in ("text", "buffer", "load"):
        return isinstance(arg, {"text": Text, "buffer": BufferRef, "load": Load}[kind])
    if kind == "any":
        return True
    if isinstance(arg, Text | BufferRef):
        return False
    dtype = type_of(arg)
    if kind.endswith("="):
        first = found.operands.index(kind[:-1])
        return dtype == type_of(args[first])
    return _of_kind(kind, dtype)


def _of_kind(kind: str, dtype: str) -> bool:
    """Whether a type is one of a kind of operand."""
    match kind:
        case "float":
            return is_float(dtype)
        case "int":
            return is_integer(dtype)
        case "signed":
            return parts(dtype).code == "int"
        case "index":
            return dtype in ("int32", "int64")
        case "bool":
            return is_bool(dtype)
        case "number":
            return is_number(dtype)
        case "value":
            return is_number(dtype) or is_bool(dtype)
        case "pointer":
            return is_pointer(dtype)
    return with_lanes(dtype, 1) == kind


def _spelt(arg: Expr) -> str:
    return type(arg).__name__ if isinstance(arg, Text | BufferRef) else type_of(arg)


def _bits(dtype: str) -> int:
    found = parts(dtype)
    return found.bits * found.lanes


def expression_problem(expr: Expr) -> str:
    """Say why an expression's operands do not suit it; empty if they do. Deeper operands are not checked."""
    rule = _RULES.get(type(expr))
    return rule(expr) if rule is not None else ""


def _const(expr: Const) -> str:
    if is_float(expr.dtype) and isinstance(expr.value, float):
        return "" if lanes(expr.dtype) == 1 else f"a literal of type {expr.dtype}"
    if parts(expr.dtype).code not in ("int", "uint", "bool") or lanes(expr.dtype) > 1:
        return f"a literal {expr.value!r} of type {expr.dtype}"
    least, most = integer_range(expr.dtype)
    return "" if least <= expr.value <= most else f"the literal {expr.value} is out of {expr.dtype}'s range"


def _binary(expr: Binary) -> str:
    a, b = type_of(expr.a), type_of(expr.b)
    if a != b:
        return f"{expr.op} of {a} and {b}"
    if expr.op in COMPARISONS:
        fine = is_number(a) or is_bool(a)
    elif expr.op in ARITHMETIC:
        fine = is_number(a)
    elif expr.op in BITWISE:
        fine = is_integer(a) or (is_bool(a) and expr.op.startswith("bit"))
    else:
        fine = is_bool(a)
    return "" if fine else f"{expr.op} of {a}"


def _unary(expr: Unary) -> str:
    dtype = type_of(expr.a)
    fine = is_bool(dtype) if expr.op == "not" else is_integer(dtype)
    return "" if fine else f"{expr.op} of {dtype}"


def _cast(expr: Cast) -> str:
    before = type_of(expr.value)
    fine = all(numpy_dtype(element(one)) is not None for one in (before, expr.dtype))
    return "" if fine and lanes(before) == lanes(expr.dtype) else f"cast of {before} to {expr.dtype}"


def _select(expr: Select) -> str:
    condition, then, other = type_of(expr.condition), type_of(expr.then), type_of(expr.other)
    fine = is_bool(condition) and lanes(condition) in (1, lanes(then))
    return "" if fine and then == other else f"select by {condition} of {then} and {other}"


def _ramp(expr: Ramp) -> str:
    base, stride = type_of(expr.base), type_of(expr.stride)
    fine = base == stride and is_integer(base) and lanes(base) == 1 and expr.lanes > 1
    return "" if fine else f"ramp of {base} by {stride}, {expr.lanes} lanes"


def _broadcast(expr: Broadcast) -> str:
    dtype = type_of(expr.value)
    fine = lanes(dtype) == 1 and expr.lanes > 1 and (is_number(dtype) or is_bool(dtype))
    return "" if fine else f"broadcast of {dtype} to {expr.lanes} lanes"


def _shuffle(expr: Shuffle) -> str:
    types = {element(type_of(item)) for item in expr.vectors}
    total = sum(lanes(type_of(item)) for item in expr.vectors)
    if len(types) != 1 or not expr.indices:
        return f"shuffle of {sorted(types)}"
    for index in expr.indices:
        if not isinstance(index, Const) or not 0 <= index.value < total:
            return f"a shuffle's index is not one of the {total} lanes"
    return ""


_RULES: Final[dict[type, Callable[[Any], str]]] = {
    Const: _const,
    Binary: _binary,
    Unary: _unary,
    Cast: _cast,
    Select: _select,
    Ramp: _ramp,
    Broadcast: _broadcast,
    Shuffle: _shuffle,
    Call: lambda expr: call_problem(expr) if isinstance(expr, Call) else "",
}
