"""The functions of torch that a program kept as data may name: those that compute on what they are given.

A name is looked up in tables that are made from torch's own lists of operators, never by walking attributes:
what is not in a table does not exist. Left out are functions that open files, evaluate text, print, or change
settings of the process.
"""

import math
import operator
import types
from functools import cache
from typing import Any

import torch
import torch.ao.quantization.fx._decomposed  # operators of quantised programs

SPACES = (
    *("aten", "prims", "quantized_decomposed", "quantized", "_quantized"),
    *("mkldnn", "onednn", "sparse", "inductor", "mkl"),
)
"""The namespaces whose operators compute."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


CONTROL = (
    *("cond", "while_loop", "map_impl", "scan", "associative_scan"),
    *("flex_attention", "wrap", "invoke_subgraph"),
)
"""The operators that hold graphs and do no more than compute by them."""
REFUSED = _words(
    """
    from_file _print record_stream set set_ _test_string_default frombuffer from_numpy _from_numpy
    from_dlpack _C_set _make_dual pin_memory _pin_memory is_pinned dequantize_from_file
    """
)
"""Names that are operators and do more, or that take memory that no program holds."""
UNHELD = ("Storage", "Stream", "__torch__", "Future", "RRef", "Capsule", "PyObject", "Any")
"""Types of arguments that no data can spell."""
MODULES = (
    *("torch", "torch.functional", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special"),
    *("torch._C._nn", "torch._C._linalg", "torch._C._fft", "torch._C._special", "torch._C._sparse"),
    *("torch._C._nested", "torch.sparse", "torch._C"),
)
WRITTEN_IN_PYTHON = ("torch.functional", "torch.nn.functional", "torch._jit_internal", "torch.sparse")
"""Where functions of torch live that are written in Python and call operators only."""
PLUMBING = _words(
    """
    boolean_dispatch handle_torch_function has_torch_function has_torch_function_unary
    has_torch_function_variadic assert_int_or_pair reproducibility_notes weak_module
    """
)
SYMBOLIC = _words(
    """
    sym_float sym_int sym_max sym_min sym_not sym_ite sym_sqrt sym_sum sym_fresh_size
    """
)
OF_PYTHON = _words(
    """
    abs add and_ concat contains eq floordiv ge getitem gt iadd iand ifloordiv ilshift imatmul imod imul
    index inv invert ior ipow irshift is_ is_not isub itruediv ixor le lshift lt matmul mod mul ne neg
    not_ or_ pos pow rshift setitem sub truediv truth xor
    """
)
"""Python's operators, which on tensors and numbers compute."""
BESIDE_OPERATORS = _words(
    """
    size dim ndimension numel nelement element_size stride storage_offset is_contiguous contiguous to cpu
    float double half bfloat16 int long short char byte bool type type_as view view_as reshape new_tensor
    new_ones new_zeros new_full new_empty item requires_grad_ is_floating_point is_complex is_signed
    is_sparse dense_dim sparse_dim layout detach detach_ expand repeat masked_select split unflatten
    unique unique_consecutive stft istft norm lu is_same_size refine_names rename cdouble cfloat chalf
    __getitem__ __setitem__ get_device is_inference is_neg is_conj resize resize_as
    """
)
"""Methods of tensors that only look or compute, though no operator has their name."""


def resolve(name: str) -> Any:
    """The function of that name, or None where no program may name such a one."""
    if name.startswith("torch.ops."):
        return _operator(name[len("torch.ops.") :])
    root, _, rest = name.partition(".")
    if root in ("operator", "_operator"):
        return getattr(operator, rest) if rest in OF_PYTHON else None
    if root == "math":
        found = vars(math).get(rest)
        return found if isinstance(found, types.BuiltinFunctionType) else None
    return _functions().get(name)


def is_method(name: str) -> bool:
    """Whether it is a method of tensors that computes."""
    if name in REFUSED or not isinstance(vars(torch._C.TensorBase).get(name), types.MethodDescriptorType):
        return name in BESIDE_OPERATORS and not name.startswith("__") and hasattr(torch.Tensor, name)
    return not name.startswith("__") and (name in BESIDE_OPERATORS or f"aten::{name}" in _operator_names())


@cache
def _operator_names() -> frozenset[str]:
    """Every operator of torch's own, without its overload."""
    return frozenset(each.partition(".")[0] for each in torch._C._dispatch_get_all_op_names())


def _operator(name: str) -> Any:
    """An overload, or a packet of such, of one of torch's own namespaces."""
    space, _, rest = name.partition(".")
    short, _, overload = rest.partition(".")
    if space == "higher_order":
        return getattr(torch.ops.higher_order, rest) if rest in CONTROL else None
    known = f"{space}::{short}" in _operator_names() or (space == "prims" and _is_prim(short))
    if space not in SPACES or short in REFUSED or "." in overload or not known:
        return None
    packet = getattr(getattr(torch.ops, space), short)
    if not overload:
        return packet
    found = getattr(packet, overload) if overload in packet.overloads() else None
    return found if found is None or _takes_data(found) else None


def _is_prim(name: str) -> bool:
    import torch._prims

    return name in torch._prims.__all__


def _takes_data(overload: Any) -> bool:
    """Whether an overload's arguments are tensors, numbers and settings, none of them a file's name."""
    return not any(
        argument.name == "filename" or any(word in str(argument.type) for word in UNHELD)
        for argument in overload._schema.arguments
    )


@cache
def _functions() -> dict[str, Any]:
    """Map the full name of each function of torch that computes to the function."""
    found: dict[str, Any] = {}
    for path in MODULES:
        module: Any = torch
        for part in path.split(".")[1:]:
            module = getattr(module, part)
        for name, value in vars(module).items():
            if _computes(path, name, value):
                found[f"{path}.{name}"] = value
    return found


def _computes(path: str, name: str, value: Any) -> bool:
    if name in REFUSED or name in PLUMBING or name.startswith("__"):
        return False
    if path == "torch._C":
        return name in ("_set_grad_enabled",)
    if isinstance(value, types.BuiltinFunctionType):
        home = torch._C._VariableFunctions if path in ("torch", "torch.functional") else None
        return home is None or hasattr(home, name)
    if not isinstance(value, types.FunctionType) or name.startswith("_"):
        return False
    if path == "torch" and name in SYMBOLIC:
        return True
    return value.__module__ in WRITTEN_IN_PYTHON and value.__name__ not in PLUMBING
