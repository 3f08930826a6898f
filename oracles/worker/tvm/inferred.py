"""Whether types survive a pass: those that the module holds against those that TVM infers anew."""

from __future__ import annotations

from typing import Any, Iterator  # noqa: UP035 (Python 3.8)

import tvm
from tvm import relax


def contradiction(before: Any, after: Any) -> str:
    """What a pass has done to types, in words; empty where they agree.

    A binding contradicts if its variable has another type than inference gives its call, a public function if
    it returns another type than before. What is unknown on either side agrees with everything.
    """
    results = {name: function.ty.ret for name, function in public(before)}
    for name, function in public(after):
        if name in results and differ(results[name], function.ty.ret):
            return f"{name} returns {shown(function.ty.ret)}, not {shown(results[name])}"
    for var, function in after.functions.items():
        if isinstance(function, relax.Function):
            for told, op, found in inferred(function.body):
                if differ(told.ty, found):
                    return f"a variable of {var.name_hint} is {shown(told.ty)}, but {op} gives {shown(found)}"
    return ""


def public(module: Any) -> Iterator[tuple[str, Any]]:
    """Yield the functions that others may call, whose types no pass may change."""
    for var, function in module.functions.items():
        if isinstance(function, relax.Function) and "global_symbol" in dict(function.attrs or {}):
            yield var.name_hint, function


def inferred(body: Any) -> Iterator[tuple[Any, str, Any]]:
    """Yield each variable that is bound to an operator's call, the operator, and the type that TVM infers."""
    if isinstance(body, relax.Function):
        yield from inferred(body.body)
    elif isinstance(body, relax.If):
        yield from inferred(body.true_branch)
        yield from inferred(body.false_branch)
    elif isinstance(body, relax.SeqExpr):
        for block in body.blocks:
            for binding in block.bindings:
                value = binding.value if isinstance(binding, relax.VarBinding) else None
                if isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.Op):
                    found = type_of_call(value)
                    if found is not None:
                        yield binding.var, value.op.name, found
                yield from inferred(value)


def type_of_call(call: Any) -> Any:
    """Return the type that inference gives a call as if it were new; None where it does not say."""
    fresh = relax.Call(call.op, call.args, call.attrs, call.ty_args)
    try:
        return relax.BlockBuilder().normalize(fresh).ty
    except Exception:  # what cannot be inferred any more is lowered already
        return None


def differ(left: Any, right: Any) -> bool:
    """Return whether no value is of both types."""
    kinds = (relax.TensorType, relax.ShapeType, tvm.ir.TupleType)
    if not isinstance(left, kinds) or not isinstance(right, kinds):
        return False
    if type(left) is not type(right):
        return True
    if isinstance(left, tvm.ir.TupleType):
        pairs = list(zip(left.fields, right.fields))  # noqa: B905 (Python 3.8)
        return len(left.fields) != len(right.fields) or any(differ(*pair) for pair in pairs)
    if isinstance(left, relax.TensorType) and left.dtype and right.dtype and left.dtype != right.dtype:
        return True
    if left.ndim >= 0 and right.ndim >= 0 and left.ndim != right.ndim:
        return True
    return any(one != other for one, other in zip(sizes(left), sizes(right)) if None not in (one, other))  # noqa: B905


def sizes(ty: Any) -> list[Any]:
    """Return the known sizes of a tensor or a shape; None for each that is not a number."""
    dims = ty.values if isinstance(ty, relax.ShapeType) else getattr(ty.shape, "values", None)
    return [int(dim) if isinstance(dim, tvm.tirx.IntImm) else None for dim in dims or ()]


def shown(ty: Any) -> str:
    """Return a type on one line."""
    return " ".join(str(ty).split())


def misfit(module: Any) -> str:
    """What is of another type than its place takes, in words; empty if nothing is.

    Gradients, conditions and results of functions, which TVM's own checker takes as they come.
    """
    found: list[str] = []
    truth = relax.TensorType((), "bool")

    def look(node: Any) -> None:
        forward = _forward(node) if isinstance(node, relax.Call) else None
        if forward is not None and differ(node.args[0].ty, due := type_of_call(forward)):
            found.append(f"{node.op.name} takes a gradient of {shown(node.args[0].ty)}, not {shown(due)}")
        if isinstance(node, relax.If) and differ(node.cond.ty, truth):
            found.append(f"an If takes a condition of {shown(node.cond.ty)}, not {shown(truth)}")
        if isinstance(node, relax.Function) and differ(node.body.ty, node.ret_ty):
            found.append(f"a function returns {shown(node.body.ty)}, not {shown(node.ret_ty)}")

    for function in module.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, look)
    return found[0] if found else ""


def _forward(call: Any) -> Any:
    """The call whose gradient another one gives back; None for a call of another kind."""
    name, attrs = getattr(call.op, "name", ""), call.attrs
    if name == "relax.grad.take_backward":
        return relax.op.take(*call.args[1:], axis=attrs.axis)
    pools = {"relax.grad.max_pool2d_backward": "max_pool2d", "relax.grad.avg_pool2d_backward": "avg_pool2d"}
    if name not in pools:
        return None
    windows = (attrs.pool_size, attrs.strides, attrs.padding, attrs.dilation, attrs.ceil_mode)
    forward = getattr(relax.op.nn, pools[name])
    return forward(call.args[1], *windows, attrs.count_include_pad, attrs.layout, attrs.out_layout)
