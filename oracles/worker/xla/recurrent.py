"""Lowerings to jax of recurrent layers: each direction is a scan over time."""

from typing import Any

import jax.numpy as jnp
from jax import lax

from oracles.worker.onnx.operator import Function, Lowering
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
