"""PrimFuncs of a program's data that are told as a formula of one result (`{"compute": …}`)."""

from __future__ import annotations

from typing import Any, Callable  # noqa: UP035 (Python 3.8)

import tvm
from tvm import te, tirx

OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "max": lambda left, right: tirx.max(left, right),
    "min": lambda left, right: tirx.min(left, right),
}


def primfunc_from(item: dict[str, Any]) -> Any:
    """Return the PrimFunc of such a formula; its language is that of `oracles.in_worker.golden.primfuncs`."""
    told = item["compute"]
    if told.get("inplace"):
        return tvm.script.from_source(script_of(told))["made"].without_attr("global_symbol")
    operands = [
        te.placeholder(sizes(shape), dtype, f"a{at}") for at, (dtype, shape) in enumerate(told["operands"])
    ]

    def element(*places: Any) -> Any:
        found = formula(told["value"], operands, places, told["dtype"])
        return found if isinstance(found, tvm.ir.Expr) else tirx.const(found, told["dtype"])

    result = te.compute(sizes(told["shape"]), element, name="made")
    return te.create_prim_func([*operands, result]).without_attr("global_symbol")


def script_of(told: dict[str, Any]) -> str:
    """Return the module of such a formula whose result goes where its first operand is."""
    params = ", ".join(
        f"a{at}: T.Buffer(({long_sizes(shape)}), {dtype!r})"
        for at, (dtype, shape) in enumerate(told["operands"])
    )
    count = len(told["shape"])
    loops, axes = (", ".join(f"{letter}{axis}" for axis in range(count)) for letter in "iv")
    return f"""@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def made({params}):
        for {loops} in T.grid({long_sizes(told["shape"])}):
            with T.sblock("made"):
                {axes} = T.axis.remap({"S" * count!r}, [{loops}])
                a0[{axes}] = {text_of(told["value"], told["dtype"])}
"""


def long_sizes(shape: list[int]) -> str:
    """Return the dims as Relax has them, each with a comma after it."""
    return " ".join(f"T.int64({size})," for size in shape)


def text_of(item: Any, dtype: str) -> str:
    """Return the formula as TVMScript; a number of an element's own type."""
    if not isinstance(item, list):
        return f"T.{dtype}({item})"
    head, rest = item[0], item[1:]
    if head == "at":
        return f"a{rest[0]}[{', '.join(text_of(each, 'int64') for each in rest[1:]) or '()'}]"
    if head == "index":
        return f"v{rest[0]}"
    left, right = (text_of(each, dtype) for each in rest)
    return f"T.{head}({left}, {right})" if head in ("max", "min") else f"({left} {head} {right})"


def sizes(shape: list[int]) -> tuple[Any, ...]:
    """Return the dims as Relax has them: of 64 bits."""
    return tuple(tirx.IntImm("int64", size) for size in shape)


def formula(item: Any, operands: list[Any], places: Any, dtype: str) -> Any:
    """Return the expression at these places; a number of an element's own type."""
    if not isinstance(item, list):
        return tirx.const(item, dtype)
    head, rest = item[0], item[1:]
    if head == "at":
        return operands[rest[0]](*(formula(each, operands, places, "int64") for each in rest[1:]))
    if head == "index":
        return places[rest[0]]
    left, right = (formula(each, operands, places, dtype) for each in rest)
    return OPERATIONS[head](left, right)
