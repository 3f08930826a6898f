"""The intrinsics that a program may call: one line each, with its typing rule.

Operand kinds: `float`, `int` (signed or unsigned), `signed`, `index` (int32, int64), `bool`, `number` (int
or float), `value` (anything with lanes that is stored), `pointer`, `text`, `buffer`, `load`, `any`, or a
type's own name. `*kind` stands for any number of further operands. Operands marked `=` have the first such
operand's type. Results: `=0` is operand 0's type, `bool=0` that of truth values with as many lanes, `half`
and `double` its type with half or twice the lanes, `declared` what the call itself says, `pointer=0` an
address of operand 0's buffer, or a type's own name. Effects are TVM's: `pure`, `read`, `write` (changes
memory or more), `jump` (leaves the place), `note` (says something to a pass or within another call).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """One intrinsic: TVM's operator, what it takes, gives and does. `host` means that the LLVM target runs
    it.
    """

    name: str
    op: str
    operands: tuple[str, ...]
    result: str
    effect: str = "pure"
    host: bool = True


def _one(name: str, operands: str, result: str, effect: str = "pure", *, host: bool = True) -> Intrinsic:
    prefix = "prim." if name in _PRIM else "tirx."
    return Intrinsic(name, prefix + name, tuple(operands.split()), result, effect, host)


_PRIM = frozenset({"if_then_else", "vscale", "log2", "likely", "clz", "ceil"})

FLOAT_FUNCTIONS = [
    "exp",
    "exp2",
    "exp10",
    "erf",
    "tanh",
    "sigmoid",
    "log",
    "log2",
    "log10",
    "log1p",
    "tan",
    "cos",
    "cosh",
    "sin",
    "sinh",
    "asin",
    "acos",
    "atan",
    "atanh",
    "acosh",
    "asinh",
    "sqrt",
    "rsqrt",
    "floor",
    "ceil",
    "trunc",
    "nearbyint",
    "round",
]
"""Functions of one float that give one of its type; TVMScript calls them by these names."""
_PAIRS = ("atan2", "nextafter", "copysign", "hypot", "pow")

INTRINSICS: dict[str, Intrinsic] = {
    item.name: item
    for item in (
        *(_one(name, "float", "=0") for name in FLOAT_FUNCTIONS),
        *(_one(name, "float float=", "=0") for name in _PAIRS),
        _one("fmod", "float float=", "=0", host=False),
        _one("fabs", "float", "=0"),
        _one("fma", "float float= float=", "=0"),
        _one("ldexp", "float int32", "=0"),
        _one("isnan", "number", "bool=0"),
        _one("isfinite", "number", "bool=0"),
        _one("isinf", "number", "bool=0"),
        _one("isnullptr", "pointer", "bool"),
        _one("popcount", "int", "=0"),
        _one("clz", "int", "int32"),
        _one("likely", "bool", "=0"),
        _one("ignore_loop_partition", "bool", "=0"),
        _one("if_then_else", "bool value value=", "=1"),
        _one("assume", "bool", "bool", "note"),
        _one("undef", "", "declared", "read"),
        _one("vscale", "", "int32", host=False),
        _one("reinterpret", "value", "declared"),
        _one("q_multiply_shift", "int32 int32 int32 int32", "int32"),
        _one("q_multiply_shift_per_axis", "int32 int32 int32 int32 int32 bool bool", "int32"),
        _one("vectorlow", "value", "half"),
        _one("vectorhigh", "value", "half"),
        _one("vectorcombine", "value value=", "double"),
        _one("dp4a", "any any any", "int32", host=False),
        _one("get_active_lane_mask", "index index", "declared", host=False),
        _one("masked_load", "any *any", "declared", "read", host=False),
        _one("masked_store", "any *any", "void", "write", host=False),
        _one("break_loop", "", "void", "jump"),
        _one("continue_loop", "", "void", "jump"),
        _one("thread_return", "", "void", "jump"),
        _one("buffer_data", "buffer", "pointer=0"),
        _one("buffer_offset", "buffer", "declared"),
        _one("address_of", "load", "pointer=0"),
        _one("tvm_access_ptr", "any pointer index index int32", "declared", "note"),
        _one("type_annotation", "", "declared"),
        _one("ptr_byte_offset", "pointer any *any", "declared"),
        _one("handle_add_byte_offset", "pointer index", "declared"),
        _one("print_buffer", "any *any", "void", "write", host=False),
        _one("call_extern", "text *any", "declared", "write"),
        _one("call_pure_extern", "text *any", "declared"),
        _one("call_llvm_intrin", "*any", "declared", "write"),
        _one("call_llvm_pure_intrin", "*any", "declared"),
        _one("call_spirv_pure_glsl450", "*any", "declared", host=False),
        _one("call_ffi_kernel", "*any", "declared", "write", host=False),
        _one("tvm_call_packed", "text *any", "declared", "write"),
        _one("tvm_call_cpacked", "text *any", "declared", "write"),
        _one("tvm_call_packed_lowered", "text *any", "declared", "write"),
        _one("tvm_call_cpacked_lowered", "text *any", "declared", "write"),
        _one("tvm_call_trace_packed", "text *any", "declared", "write"),
        _one("tvm_call_trace_packed_lowered", "text *any", "declared", "write"),
        _one("tvm_stack_alloca", "text any", "declared", "write"),
        _one("tvm_stack_make_shape", "*any", "declared", "write"),
        _one("tvm_stack_make_array", "*any", "declared", "write"),
        _one("tvm_struct_get", "any *any", "declared", "read"),
        _one("tvm_struct_set", "any *any", "declared", "write"),
        _one("tvm_throw_last_error", "", "declared", "write"),
        _one("tvm_static_handle", "", "declared", "note"),
        _one("tvm_context_id", "", "declared", "read"),
        _one("tvm_tuple", "*any", "declared", "note"),
        _one("lookup_param", "text", "declared", "write"),
        _one("anylist_getitem", "*any", "declared", "read"),
        _one("anylist_resetitem", "*any", "declared", "write"),
        _one("anylist_setitem_call_packed", "*any", "declared", "write"),
        _one("anylist_setitem_call_cpacked", "*any", "declared", "write"),
        _one("nd_mem_alloc_with_scope", "*any", "declared", "write"),
        _one("TVMBackendAllocWorkspace", "*any", "declared", "write"),
        _one("TVMBackendFreeWorkspace", "*any", "declared", "write"),
        _one("cuda.ffs_u32", "uint32", "int32", "write", host=False),
        _one("prefetch", "*any", "declared", "write", host=False),
        _one("atomic_add", "*any", "declared", "write", host=False),
        _one("start_profile_intrinsic", "int32", "declared", host=False),
        _one("end_profile_intrinsic", "int32", "declared", host=False),
        _one("tvm_storage_sync", "text *any", "declared", "write", host=False),
        _one("tvm_thread_invariant", "value", "=0", host=False),
        _one("tvm_thread_allreduce", "*any", "declared", "write", host=False),
        _one("tvm_warp_shuffle", "any value *any", "declared", "write", host=False),
        _one("tvm_warp_shuffle_up", "any value *any", "declared", "write", host=False),
        _one("tvm_warp_shuffle_down", "any value *any", "declared", "write", host=False),
        _one("tvm_warp_shuffle_xor", "any value *any", "declared", "write", host=False),
        _one("tvm_warp_activemask", "", "declared", "write", host=False),
        _one("tvm_global_barrier_kinit", "", "declared", "write", host=False),
        _one("tvm_kernel_replace_point", "", "declared", "write", host=False),
        _one("tvm_fill_fragment", "*any", "declared", "write", host=False),
        _one("tvm_load_matrix_sync", "*any", "declared", "read", host=False),
        _one("tvm_store_matrix_sync", "*any", "declared", "write", host=False),
        _one("tvm_mma_sync", "*any", "declared", "write", host=False),
        _one("tvm_bmma_sync", "*any", "declared", "write", host=False),
        _one("mma_fill", "*any", "declared", "write", host=False),
        _one("mma_store", "*any", "declared", "write", host=False),
        _one("dma_copy", "*any", "declared", "write", host=False),
        _one("dma_wait", "*any", "declared", "write", host=False),
        _one("dma_start_group", "*any", "declared", "write", host=False),
        _one("dma_end_group", "*any", "declared", "write", host=False),
        _one("texture2d_load", "*any", "declared", "write", host=False),
        _one("texture2d_store", "*any", "declared", "write", host=False),
        _one("simdgroup_load", "*any", "declared", "write", host=False),
        _one("simdgroup_store", "*any", "declared", "write", host=False),
        _one("simdgroup_multiply_accumulate", "*any", "declared", "write", host=False),
        _one("make_filled_simdgroup_matrix", "*any", "declared", "write", host=False),
    )
}
