"""A Relax function as an ONNX model, where every operator in it has one of ONNX's that means the same."""

from typing import Any, Callable  # noqa: UP035 (Python 3.8)

import numpy as np
import tvm
from onnx import ModelProto, TensorProto, helper, numpy_helper
from tvm import relax

OPSET = 18
_SIZE = 3
"""Of the first symbolic dim; each further one is larger by one."""


class NoSuchOperator(Exception):
    """Something that ONNX has no word for, or that none is known for here; its name."""


_PLAIN = """
    abs=Abs add=Add ceil=Ceil cos=Cos divide=Div equal=Equal erf=Erf exp=Exp floor=Floor greater=Greater
    greater_equal=GreaterOrEqual less=Less less_equal=LessOrEqual log=Log logical_and=And logical_not=Not
    logical_or=Or maximum=Max minimum=Min multiply=Mul negative=Neg nn.relu=Relu power=Pow sigmoid=Sigmoid
    sin=Sin sqrt=Sqrt subtract=Sub tanh=Tanh where=Where
"""
PLAIN = dict(pair.split("=") for pair in _PLAIN.split())
REDUCTIONS = {"max": "ReduceMax", "mean": "ReduceMean", "min": "ReduceMin", "prod": "ReduceProd"}
REDUCTIONS["sum"] = "ReduceSum"


class Writer:
    """Writes one function; `sizes` are those that its symbolic dims have got."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.names: dict[Any, str] = {}
        self.sizes: dict[Any, int] = {}
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def model(self) -> ModelProto:
        """Write the function as an ONNX model. Raises NoSuchOperator where ONNX has no word for it."""
        inputs = [self.declared(param, param.ty) for param in self.function.params]
        body = self.function.body
        for block in body.blocks if isinstance(body, relax.SeqExpr) else []:
            for binding in block.bindings:
                self.bind(binding)
        result = body.body if isinstance(body, relax.SeqExpr) else body
        results = list(result.fields) if isinstance(result, tvm.ir.Tuple) else [result]
        outputs = []
        for at, each in enumerate(results):
            self.nodes.append(helper.make_node("Identity", [self.name(each)], [f"out{at}"]))
            outputs.append(helper.make_tensor_value_info(f"out{at}", self.code(each.ty), None))
        graph = helper.make_graph(self.nodes, "g", inputs, outputs, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)

    def declared(self, var: Any, ty: Any) -> Any:
        """Declare an input of the model."""
        name = self.names[var] = f"x{len(self.names)}"
        if not isinstance(ty, relax.TensorType) or not isinstance(ty.shape, relax.ShapeExpr):
            raise NoSuchOperator("an input that is no tensor of known rank")
        return helper.make_tensor_value_info(name, self.code(ty), self.dims(ty.shape.values))

    def code(self, ty: Any) -> int:
        """Give ONNX's code of a type's dtype."""
        if not isinstance(ty, relax.TensorType):
            raise NoSuchOperator("a value that is no tensor")
        if ty.dtype is None:  # of any type: then of the usual one
            return int(TensorProto.FLOAT)
        try:
            return int(helper.np_dtype_to_tensor_dtype(np.dtype(str(getattr(ty.dtype, "dtype", ty.dtype)))))
        except (TypeError, ValueError, KeyError):
            raise NoSuchOperator(f"a tensor of {ty.dtype}") from None

    def dims(self, values: Any) -> list[int]:
        """Give the dims of a shape."""
        return [self.dim(each) for each in values]

    def dim(self, value: Any) -> int:
        """Give a dim; a symbolic one gets a size of its own."""
        if isinstance(value, tvm.tirx.IntImm):
            return int(value.value)
        if type(value).__name__ != "Var":
            raise NoSuchOperator("a dim that is computed")
        return self.sizes.setdefault(value, _SIZE + len(self.sizes))

    def name(self, value: Any) -> str:
        """Name a value: a constant becomes an initializer."""
        if isinstance(value, tvm.ir.GenericConst) and hasattr(value.value, "numpy"):
            return self.weight(value.value.numpy())
        if type(value).__name__ in ("Var", "DataflowVar") and value in self.names:
            return self.names[value]
        raise NoSuchOperator(f"a {type(value).__name__}")

    def weight(self, array: Any) -> str:
        """Add an initializer."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def bind(self, binding: Any) -> None:
        """Write a binding as a node."""
        value = binding.value
        if type(value).__name__ in ("Var", "DataflowVar"):
            self.names[binding.var] = self.name(value)
            return
        if isinstance(binding, relax.MatchCast) or not isinstance(value, tvm.ir.Call):
            raise NoSuchOperator(type(value).__name__)
        if not isinstance(value.op, tvm.ir.Op):
            raise NoSuchOperator("a call of a function")
        operator, operands, attributes = self.written(value.op.name[len("relax.") :], value)
        name = self.names[binding.var] = f"v{len(self.names)}"
        self.nodes.append(helper.make_node(operator, operands, [name], **attributes))

    def written(self, name: str, call: Any) -> tuple[str, list[str], dict[str, Any]]:
        """The operator, its operands and its attributes."""
        if name in PLAIN:
            return PLAIN[name], [self.name(each) for each in call.args], {}
        if name in REDUCTIONS:
            return self.reduced(REDUCTIONS[name], call)
        if name not in WRITTEN:
            raise NoSuchOperator(f"relax.{name}")
        return WRITTEN[name](self, call)

    def ints(self, values: Any) -> str:
        """Add an initializer of int64."""
        return self.weight(np.array([int(each) for each in values], dtype="int64"))

    def reduced(self, operator: str, call: Any) -> tuple[str, list[str], dict[str, Any]]:
        """Write a reduction: its axes are an input in ONNX."""
        operands = [self.name(call.args[0])]
        if call.attrs.axis is not None:
            operands.append(self.ints(call.attrs.axis))
        return operator, operands, {"keepdims": int(call.attrs.keepdims)}

    def shape(self, value: Any) -> str:
        """Write a shape as an initializer."""
        if not isinstance(value, relax.ShapeExpr):
            raise NoSuchOperator("a shape that is computed")
        return self.ints(self.dims(value.values))


Written = Callable[[Writer, Any], "tuple[str, list[str], dict[str, Any]]"]


def _matmul(writer: Writer, call: Any) -> Any:
    if call.attrs.out_dtype not in (None, "", call.args[0].ty.dtype):
        raise NoSuchOperator("relax.matmul of another dtype")
    return "MatMul", [writer.name(each) for each in call.args], {}


def _transpose(writer: Writer, call: Any) -> Any:
    axes = call.attrs.axes
    given = {} if axes is None else {"perm": [int(axis) % len(axes) for axis in axes]}
    return "Transpose", [writer.name(call.args[0])], given


def _concat(writer: Writer, call: Any) -> Any:
    (parts,) = call.args
    if not isinstance(parts, tvm.ir.Tuple) or call.attrs.axis is None:
        raise NoSuchOperator("relax.concat of a tuple that is computed")
    return "Concat", [writer.name(each) for each in parts.fields], {"axis": int(call.attrs.axis)}


def _squeeze(writer: Writer, call: Any) -> Any:
    axes = [] if call.attrs.axis is None else [writer.ints(call.attrs.axis)]
    return "Squeeze", [writer.name(call.args[0]), *axes], {}


def _cast(writer: Writer, call: Any) -> Any:
    kind = np.dtype(str(getattr(call.attrs.dtype, "dtype", call.attrs.dtype)))
    return "Cast", [writer.name(call.args[0])], {"to": int(helper.np_dtype_to_tensor_dtype(kind))}


def _clip(writer: Writer, call: Any) -> Any:
    dtype = str(getattr(call.args[0].ty.dtype, "dtype", call.args[0].ty.dtype))
    bounds = [writer.weight(np.array(float(each.value), dtype=dtype)) for each in call.args[1:]]
    return "Clip", [writer.name(call.args[0]), *bounds], {}


def _conv(writer: Writer, call: Any) -> Any:
    attrs, rank = call.attrs, len(call.args[0].ty.shape.values)
    if str(attrs.data_layout) not in ("NCW", "NCHW") or str(attrs.kernel_layout) not in ("OIW", "OIHW"):
        raise NoSuchOperator("a convolution of another layout")
    given = {key: [int(each) for each in getattr(attrs, key)] for key in ("strides", "padding", "dilation")}
    pads = given["padding"]
    pads = pads if len(pads) == 2 * (rank - 2) else [*pads, *pads]
    told = {"strides": given["strides"], "pads": pads, "dilations": given["dilation"]}
    return "Conv", [writer.name(each) for each in call.args], {**told, "group": int(attrs.groups)}


WRITTEN: dict[str, Written] = {
    "astype": _cast,
    "broadcast_to": lambda w, call: ("Expand", [w.name(call.args[0]), w.shape(call.args[1])], {}),
    "clip": _clip,
    "concat": _concat,
    "expand_dims": lambda w, call: ("Unsqueeze", [w.name(call.args[0]), w.ints(call.attrs.axis)], {}),
    "matmul": _matmul,
    "nn.conv1d": _conv,
    "nn.conv2d": _conv,
    "nn.softmax": lambda w, call: ("Softmax", [w.name(call.args[0])], {"axis": int(call.attrs.axis)}),
    "permute_dims": _transpose,
    "reshape": lambda w, call: ("Reshape", [w.name(call.args[0]), w.shape(call.args[1])], {}),
    "squeeze": _squeeze,
}
