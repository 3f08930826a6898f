"""Lowerings to jax of control flow: branches and loops of XLA where shapes stay, else written out."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from oracles.worker.onnx.operator import Function, Lowering
from oracles.worker.xla.traced import TracedOp

MOST_TRIPS = 1 << 20
"""A loop whose trips are counted beforehand has no more."""


def branch(op: TracedOp) -> Function:
    """An If as XLA's conditional; of branches with other shapes the one that runs."""
    graphs = [op.get(name) for name in ("then_branch", "else_branch")]
    outer = op.scope

    def run(condition: Any) -> Any:
        sides = [lambda graph=graph: tuple(outer.within(graph).outputs({})) for graph in graphs]
        import jax

        try:
            shapes = [
                jax.tree_util.tree_map(lambda x: (x.shape, x.dtype), jax.eval_shape(each)) for each in sides
            ]
        except Exception:
            shapes = [None, 0]
        if shapes[0] == shapes[1]:
            return single(lax.cond(jnp.reshape(condition, ()), *sides))
        return single(sides[0 if bool(op.item(0)) else 1]())

    return run


def single(results: Any) -> Any:
    """The tuple of results, or the only one."""
    return tuple(results) if len(results) != 1 else results[0]


def scan(op: TracedOp) -> Function:
    """The function of ONNX's Scan as XLA's loop over the first axis."""
    op.must(op.opset >= 9, "this opset")
    body, count = op.get("body"), op.get("num_scan_inputs")
    names = [each.name for each in body.input]
    states = len(names) - count
    outputs = len(body.output) - states
    axes, ways = (
        list(op.get("scan_input_axes") or [0] * count),
        list(op.get("scan_input_directions") or [0] * count),
    )
    out_axes = list(op.get("scan_output_axes") or [0] * outputs)
    out_ways = list(op.get("scan_output_directions") or [0] * outputs)
    outer = op.scope

    def run(*given: Any) -> Any:
        taken = [jnp.moveaxis(x, axis, 0) for x, axis in zip(given[states:], axes)]  # noqa: B905 (Python 3.8)
        taken = [jnp.flip(x, 0) if way else x for x, way in zip(taken, ways)]  # noqa: B905 (Python 3.8)

        def step(carry: Any, each: Any) -> Any:
            inner = outer.within(body, tuple(names))
            found = inner.outputs(dict(zip(names, (*carry, *each))))  # noqa: B905 (Python 3.8)
            return tuple(found[:states]), tuple(found[states:])

        last, made = lax.scan(step, tuple(given[:states]), tuple(taken))
        made = [jnp.flip(x, 0) if way else x for x, way in zip(made, out_ways)]  # noqa: B905 (Python 3.8)
        made = [jnp.moveaxis(x, 0, axis) for x, axis in zip(made, out_axes)]  # noqa: B905 (Python 3.8)
        return single([*last, *made])

    return run


def loop(op: TracedOp) -> Function:
    """A Loop of known trips as XLA's scan; one that may end early as a `while`, without scanned outputs."""
    body = op.get("body")
    names = [each.name for each in body.input]
    carried = len(names) - 2
    outer = op.scope
    trips = int(op.item(0)) if op.has(0) else np.iinfo(np.int64).max
    scans = len(body.output) - 1 - carried
    first = bool(op.item(1, True))
    ends = not passes_condition_on(body)
    op.must(not (ends and scans), "a loop that may end early with scanned outputs")
    op.must(ends or trips <= MOST_TRIPS, f"{trips} trips")

    def step(count: Any, condition: Any, values: Any) -> list[Any]:
        inner = outer.within(body, tuple(names))
        return inner.outputs(dict(zip(names, (count, condition, *values))))  # noqa: B905 (Python 3.8)

    def run(most: Any, condition: Any = None, *given: Any) -> Any:
        truth = jnp.asarray(True)

        def advance(carry: Any, count: Any) -> Any:
            found = step(count, truth, carry)
            return tuple(found[1 : 1 + carried]), tuple(found[1 + carried :])

        if not ends:
            counts = jnp.arange(trips if first else 0, dtype=jnp.int64)
            last, made = lax.scan(advance, tuple(given), counts)
            return single([*last, *made])

        def goes_on(state: Any) -> Any:
            return jnp.logical_and(state[0] < trips, state[1])

        def once(state: Any) -> Any:
            found = step(state[0], state[1], state[2])
            return state[0] + 1, jnp.reshape(found[0], ()), tuple(found[1:])

        start = (jnp.asarray(0, jnp.int64), jnp.asarray(first), tuple(given))
        return single(list(lax.while_loop(goes_on, once, start)[2]))

    return run


def passes_condition_on(body: Any) -> bool:
    """Whether a loop's condition is its own of the trip before, or a constant that holds."""
    name, given = body.output[0].name, body.input[1].name
    makers = {each: node for node in body.node for each in node.output}
    while name in makers and makers[name].op_type == "Identity":
        name = makers[name].input[0]
    if name == given:
        return True
    from onnx import numpy_helper

    tensors = {each.name: each for each in body.initializer}
    if name in makers and makers[name].op_type == "Constant":
        tensors[name] = next((each.t for each in makers[name].attribute if each.name == "value"), None)
    found = tensors.get(name)
    return found is not None and bool(np.all(numpy_helper.to_array(found)))


CONTROL: dict[str, Lowering] = {"If": branch, "Loop": loop, "Scan": scan}
