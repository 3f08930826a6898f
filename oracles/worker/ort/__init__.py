"""ONNX Runtime's half in the worker: options of sessions, values that numpy cannot hold, small models.

In come arrays and settings; out come sessions and onnxruntime's values. Called by
`oracles/backends/ort.py` in the worker only. Python 3.8 syntax. Here stands what ONNX Runtime calls levels of
optimisation and element types: no framework is needed to know it.
"""

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
