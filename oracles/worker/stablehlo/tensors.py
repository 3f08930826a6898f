"""Tensors' types and values, as MLIR writes them and as documents do."""

import re
from typing import Any, Iterable  # noqa: UP035 (Python 3.8)

import ml_dtypes
import numpy as np

ELEMENTS = {
    "bool": "i1",
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"ui{bits}" for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"f{bits}" for bits in (16, 32, 64)},
    "bfloat16": "bf16",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e4m3fnuz": "f8E4M3FNUZ",
    "float8_e4m3b11fnuz": "f8E4M3B11FNUZ",
    "float8_e5m2": "f8E5M2",
    "float8_e5m2fnuz": "f8E5M2FNUZ",
}
"""MLIR's element types by numpy's names."""
DTYPES = {text: name for name, text in ELEMENTS.items()}
WIDE = {"float16": "float64", "bfloat16": "float64", "float32": "float64", "complex64": "complex128"}
"""What computes in float64 instead."""


class NotData(Exception):
    """A module, or a document, holds what crux takes no part of."""


def dtype_of(name: str) -> Any:
    """numpy's or ml_dtypes' dtype of that name; NotData where a module can hold none such."""
    if name not in ELEMENTS:
        raise NotData(f"no tensor holds {name[:40]!r}")
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def type_text(dims: Iterable[int], dtype: str) -> str:
    """The tensor type as MLIR writes it."""
    dtype_of(dtype)
    return f"tensor<{''.join(f'{int(dim)}x' for dim in dims)}{ELEMENTS[dtype]}>"


def told_type(ir: Any, type_: Any) -> "tuple[list[int], str]":
    """The dims and numpy's name of the element type; NotData for what is no tensor of static dims."""
    if not isinstance(type_, ir.RankedTensorType):
        raise NotData(f"a value is of type {str(type_)[:80]}; crux takes tensors only")
    dtype = DTYPES.get(str(type_.element_type))
    if dtype is None or type_.encoding is not None:
        raise NotData(f"a value is of type {str(type_)[:80]}, which numpy cannot hold")
    if not type_.has_static_shape:
        raise NotData(f"a value is of type {str(type_)[:80]}; write its dims as numbers (refine the module)")
    return list(type_.shape), dtype


def constant_text(array: Any) -> str:
    """The operation that gives an array; one number where all are the same."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.size and len({each.tobytes() for each in flat[: 1 << 16]}) == 1 and (flat == flat[0]).all():
        flat = flat[:1]
    if array.dtype == np.bool_:
        words = [str(bool(each)).lower() for each in flat]
        body = _nested(words, array.shape) if len(words) == array.size and array.ndim else "".join(words[:1])
    else:
        body = f'"0x{flat.tobytes().hex()}"' if flat.size else ""
    return f"%0 = stablehlo.constant dense<{body}> : {type_text(array.shape, array.dtype.name)}"


def _nested(words: "list[str]", shape: "tuple[int, ...]") -> str:
    if not shape:
        return words[0]
    step = len(words) // shape[0] if shape[0] else 0
    parts = (_nested(words[at * step : (at + 1) * step], shape[1:]) for at in range(shape[0]))
    return f"[{', '.join(parts)}]"


NUMBER = re.compile(r"0x[0-9A-Fa-f]+|true|false|[-+]?[\d.]+(?:[eE][-+]?\d+)?")


def array_of(text: str, dims: "list[int]", dtype: str) -> Any:
    """The array of a constant by its text: the bindings know no attribute of complex numbers."""
    kind = dtype_of(dtype)
    if "constant dense<" not in text:
        raise NotData("the values of a constant are not in the text; print the module without eliding them")
    body = text[text.index("dense<") + len("dense<") : text.rindex("> : ")]
    if body.startswith('"0x'):
        found = np.frombuffer(bytes.fromhex(body[3:-1]), kind)
    else:
        words = NUMBER.findall(body)
        part = np.dtype(f"float{kind.itemsize * 4}") if kind.kind == "c" else kind
        found = np.array([_number(word, part) for word in words], part).view(kind)
    whole = found if found.size != 1 else np.broadcast_to(found.reshape(()), dims)
    return whole.reshape(dims)


def _number(word: str, kind: Any) -> Any:
    if word in ("true", "false"):
        return word == "true"
    if word.startswith("0x"):
        return np.frombuffer(int(word, 16).to_bytes(kind.itemsize, "little"), kind)[0]
    return int(word) if kind.kind in "iu" else np.array(float(word)).astype(kind)[()]
