"""The functions from outside that a Relax program calls, and which of them need nobody's trust.

TVM calls a function by its name: any of those that its libraries register, and from a PrimFunc any symbol
that the process holds, such as C's `system`. Allowed are those that compute on what they are given; every
other one needs `--trust`. So does what carries code that is no TVM IR: C or LLVM text to import, libraries
in a module's attributes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, TypeAlias

Json: TypeAlias = Any
Nodes: TypeAlias = list[Any]

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
"""Operators of PrimFuncs that call by name: which of their arguments the name is."""
ELSEWHERE = re.compile(r"(pragma_)?import_(c|llvm)|external_mods|system_lib_prefix")
"""What begins with code that is no IR, as a pragma or as an attribute."""
FOREIGN_NODES = (
    *("runtime.", "ffi.Module", "ffi.Function", "ffi.Error", "rpc.", "instrument.", "transform.Pass"),
)
CALLING = ("call_py_func", "call_ffi_kernel")


def calls_outside(document: bytes) -> str:
    """What a Relax document calls or carries that needs trust; empty where there is nothing."""
    try:
        return next(_complaints(json.loads(document)), "")
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError):
        return "it is damaged, and so may call anything"


def _complaints(item: Json) -> Iterator[str]:
    """What is not allowed anywhere in a document: in its bindings, and in each of TVM's own JSON texts."""
    waiting = [item]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            if isinstance(item.get("nodes"), list):
                yield from _in_nodes(item["nodes"])
            if len(item) == 1 and "extern" in item and not _is_packed(str(item["extern"])):
                yield f"it calls the function {str(item['extern'])[:80]!r}"
            waiting += item.values()
        elif isinstance(item, list):
            yield from _in_binding(item)
            waiting += item


def _in_binding(item: list[Json]) -> Iterator[str]:
    """A binding is a name, an operator, its arguments and more; other lists say nothing here."""
    if len(item) != 4 or not isinstance(item[1], str) or not isinstance(item[2], list):
        return
    operator = item[1].rpartition(".")[2]
    if operator in CALLING:
        yield f"it uses {item[1]}"
    place = {**BY_SYMBOL, **BY_NAME}.get(operator)
    if place is not None:
        given = item[2][place] if place < len(item[2]) else None
        name = given.get("string") if isinstance(given, dict) else None
        yield from _judged(operator, name)


def _in_nodes(nodes: Nodes) -> Iterator[str]:
    """What TVM's JSON, a list of nodes that name each other by number, holds of this."""
    for node in nodes:
        kind, data = str(node.get("type", "")), node.get("data")
        if kind.startswith(FOREIGN_NODES):
            yield f"it holds a {kind}"
        elif kind == "ffi.String" and isinstance(data, str) and ELSEWHERE.fullmatch(data):
            yield f"it has {data}"
        elif kind.endswith("ExternFunc"):
            name = _text(nodes, data.get("global_symbol"))
            if not _is_packed(name or ""):
                yield f"it calls the function {(name or '?')[:80]!r}"
        elif kind.endswith("Call"):
            yield from _in_call(nodes, data)


def _in_call(nodes: Nodes, data: Json) -> Iterator[str]:
    operator = _node(nodes, data.get("op"))
    if not str(operator.get("type", "")).endswith(".Op"):
        return
    name = str(operator.get("data"))
    short = name.rpartition(".")[2]
    if short in CALLING:
        yield f"it uses {name}"
    place = {**BY_SYMBOL, **BY_NAME}.get(short)
    if place is not None:
        given = _node(nodes, data.get("args")).get("data")
        callee = given[place] if isinstance(given, list) and place < len(given) else None
        yield from _judged(short, _text(nodes, callee))


def _judged(operator: str, name: str | None) -> Iterator[str]:
    allowed = name is not None and (SYMBOLS.fullmatch(name) if operator in BY_SYMBOL else _is_packed(name))
    if not allowed:
        yield f"it calls the function {(name or '?')[:80]!r}"


def _is_packed(name: str) -> bool:
    return PACKED.fullmatch(name) is not None


def _node(nodes: Nodes, number: Json) -> dict[str, Any]:
    """The node of a number; an empty one where there is none."""
    is_place = isinstance(number, int) and 0 <= number < len(nodes)
    return nodes[number] if is_place and isinstance(nodes[number], dict) else {}


def _text(nodes: Nodes, number: Json) -> str | None:
    """The text of a string, or of a literal that holds one."""
    node = _node(nodes, number)
    if str(node.get("type", "")).endswith("StringImm"):
        node = _node(nodes, (node.get("data") or {}).get("value"))
    found = node.get("data")
    return found if node.get("type") == "ffi.String" and isinstance(found, str) else None
