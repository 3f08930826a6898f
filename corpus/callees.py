"""Which functions a TVM program may call by name without anybody's trust: the one list, for every format.

TVM calls a function by its name: any of those that its libraries register, and from a PrimFunc any symbol
that the process holds, such as C's `system`. Allowed are those that compute on what they are given; every
other one needs `--trust`. So does what carries code that is no TVM IR: C or LLVM text to import, libraries
in attributes.
"""

import re

PACKED = re.compile(
    r"vm\.builtin\.(alloc_\w+|check_\w+|make_\w+|match_\w+|tuple_\w+|apply_\w+|sample_\w+|rnn_state_\w+|kv_state_\w+"
    r"|attention_kv_cache_(?!export|import|prepare_import|finish_import)\w+|paged_attention_kv_cache_create|copy"
    r"|call_tir_dyn|ensure_zero_offset|invoke_closure|null_value|read_if_cond|reshape|shape_of|tensor_to_shape"
    r"|to_device|multinomial_from_uniform|debug_print|memory_manager\.clear)"
    r"|relax\.run\.(assert_op|nonzero|print|shape_to_tensor|unique)"
    r"|tvm\.contrib\.(random|sort|cblas|cublas|cudnn|mkl|dnnl|thrust)\.\w+"
)
"""Functions that TVM registers and that only compute."""

SYMBOLS = re.compile(
    r"(sqrt|rsqrt|exp|exp2|exp10|expm1|log|log2|log10|log1p|pow|fabs|floor|ceil|round|trunc|nearbyint|rint|fmod|fma"
    r"|remainder|hypot|copysign|nextafter|ldexp|sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|tanh|asinh|acosh|atanh|erf"
    r"|erfc|tgamma|lgamma|cbrt|fmin|fmax|isnan|isinf)[fl]?|abs|popcount|clz"
)
"""Symbols of C's mathematics."""

BY_SYMBOL = {"call_extern": 0, "call_pure_extern": 0}
"""Operators of PrimFuncs that call a symbol of the process: which of their arguments names it."""

BY_NAME = {
    "tvm_call_packed": 0,
    "tvm_call_cpacked": 0,
    "tvm_call_packed_lowered": 0,
    "tvm_call_cpacked_lowered": 0,
    "tvm_call_trace_packed": 0,
    "tvm_call_trace_packed_lowered": 0,
    "anylist_setitem_call_packed": 2,
    "anylist_setitem_call_cpacked": 2,
}
"""Operators of PrimFuncs that call a registered function: which of their arguments names it."""

PLACES = {**BY_SYMBOL, **BY_NAME}

_UNNAMED = """
    call_ffi_kernel call_llvm_intrin call_llvm_pure_intrin call_py_func call_spirv_pure_glsl450
    lookup_param tvm_static_handle
"""
UNNAMED = frozenset(_UNNAMED.split())
"""Operators that reach code which no name tells apart."""

CARRIES_CODE = re.compile(r"(pragma_)?import_(c|llvm)|external_mods|system_lib(_prefix)?")
"""What begins with code that is no IR, as a pragma or as an attribute."""


def is_packed(name: str) -> bool:
    """Whether a registered function only computes."""
    return PACKED.fullmatch(name) is not None


def may_call(operator: str, name: str | None) -> bool:
    """Whether an operator of `PLACES` may call what it names; never if no text names it."""
    if name is None:
        return False
    return SYMBOLS.fullmatch(name) is not None if operator in BY_SYMBOL else is_packed(name)
