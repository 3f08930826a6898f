"""Lowerings to jax of what runs again and again or not at all: branches, loops, recurrent layers."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from oracles.worker.onnx import Function, Lowering
from oracles.worker.xla.traced import TracedOp

FUNCTIONS = {"sigmoid": lax.logistic, "tanh": lax.tanh, "relu": lambda x: jnp.maximum(x, 0)}
"""The activations that take no numbers of their own."""

Step = Any
"""Of (states, input, recurrent weights, recurrent bias, activations, peepholes): the states after it."""


def rnn_step(op: TracedOp) -> Step:
    """One step of a plain layer."""

    def step(states: Any, x: Any, r: Any, bias: Any, acts: Any, peep: Any) -> Any:
        return (acts[0](x + states[0] @ r.T + bias),)

    return step


def gru_step(op: TracedOp) -> Step:
    """One step of gated units, gates in the order z, r, h."""

    def step(states: Any, x: Any, r: Any, bias: Any, acts: Any, peep: Any) -> Any:
        (h,) = states
        (xz, xr, xh), (rz, rr, rh), (bz, br, bh) = (
            jnp.split(each, 3, axis) for each, axis in ((x, 1), (r, 0), (bias, 0))
        )
        z, reset = acts[0](xz + h @ rz.T + bz), acts[0](xr + h @ rr.T + br)
        inner = reset * (h @ rh.T + bh) if op.get("linear_before_reset") else (reset * h) @ rh.T + bh
        return ((1 - z) * acts[1](xh + inner) + z * h,)

    return step


def lstm_step(op: TracedOp) -> Step:
    """One step of long short-term memory, gates in the order i, o, f, c."""

    def step(states: Any, x: Any, r: Any, bias: Any, acts: Any, peep: Any) -> Any:
        h, c = states
        i, o, f, new = jnp.split(x + h @ r.T + bias, 4, 1)
        pi, po, pf = (0, 0, 0) if peep is None else jnp.split(peep, 3, 0)
        i, f = acts[0](i + pi * c), acts[0](f + pf * c)
        c = f * c + i * acts[1](new)
        return (acts[0](o + po * c) * acts[2](c), c)

    return step


def layer(make: Any, gates: int, states: int, activations: tuple[str, ...]) -> Lowering:
    """Lower a layer of so many gates and states, with these activations unless others are named."""

    def lower(op: TracedOp) -> Function:
        names = [each.decode().lower() for each in op.get("activations") or []] or None
        op.must(all(name in FUNCTIONS for name in names or ()), f"activations {names}")
        op.must(
            not op.get("clip") and not op.get("layout", 0) and not op.get("input_forget", 0), "clip or layout"
        )
        op.must(not op.has(4), "lengths")
        step, ways = make(op), {b"forward": 1, b"reverse": 1, b"bidirectional": 2}[op.get("direction")]
        chosen = [FUNCTIONS[name] for name in (names or activations * ways)]

        def run(x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, *rest: Any) -> Any:
            found = []
            for way in range(ways):
                first = [each[way] for each in rest[:states] if each is not None]
                first += [jnp.zeros((x.shape[1], r.shape[-1]), x.dtype) for _ in range(states - len(first))]
                bias = jnp.zeros(2 * gates * r.shape[-1], x.dtype) if b is None else b[way]
                peep = rest[2][way] if len(rest) > 2 and rest[2] is not None else None
                acts = chosen[way * len(activations) : (way + 1) * len(activations)]
                is_back = op.get("direction") == b"reverse" or way == 1
                found.append(_over_time(step, (x, w[way], r[way], bias), first, acts, peep, is_back))
            joined = [jnp.stack([each[i] for each in found], 1 if i == 0 else 0) for i in range(1 + states)]
            return tuple(joined[: op.outputs]) if op.outputs > 1 else joined[0]

        return run

    return lower


def _over_time(step: Step, given: Any, first: Any, acts: Any, peep: Any, is_back: bool) -> Any:
    """All steps of one direction: the hidden states over time, then the last states."""
    x, w, r, bias = given
    own, recurrent = jnp.split(bias, 2)
    fed = jnp.einsum("tbi,hi->tbh", x, w) + own

    def advance(carry: Any, each: Any) -> Any:
        after = step(carry, each, r, recurrent, acts, peep)
        return after, after[0]

    last, all_steps = lax.scan(advance, tuple(first), fed, reverse=is_back)
    return (all_steps, *last)


RECURRENT: dict[str, Lowering] = {
    "RNN": layer(rnn_step, 1, 1, ("tanh",)),
    "GRU": layer(gru_step, 3, 1, ("sigmoid", "tanh")),
    "LSTM": layer(lstm_step, 4, 2, ("sigmoid", "tanh", "tanh")),
}


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
