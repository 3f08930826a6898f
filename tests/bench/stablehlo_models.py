"""Modules of StableHLO that jax writes of small networks.

python stablehlo_models.py FOLDER    writes NAME.mlir for every network
"""

import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, nn


def shape(*dims: int, dtype: Any = jnp.float32) -> Any:
    """An array's shape and dtype."""
    return jax.ShapeDtypeStruct(dims, dtype)


def norm(x: Any) -> Any:
    """Layer norm without weights."""
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)


def attention(x: Any, w: Any) -> Any:
    """Causal attention of four heads."""
    batch, length, width = x.shape
    parts = [(x @ w[i]).reshape(batch, length, 4, width // 4).transpose(0, 2, 1, 3) for i in range(3)]
    scores = parts[0] @ parts[1].transpose(0, 1, 3, 2) / jnp.sqrt(width // 4)
    masked = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    mixed = (nn.softmax(masked, -1) @ parts[2]).transpose(0, 2, 1, 3)
    return mixed.reshape(batch, length, width) @ w[3]


def transformer(x: Any, w: Any, up: Any, down: Any) -> Any:
    """Three blocks."""
    for layer in range(3):
        x = x + attention(norm(x), w[layer])
        x = x + nn.gelu(norm(x) @ up[layer]) @ down[layer]
    return x


def lookup(table: Any, places: Any, w: Any, up: Any, down: Any) -> Any:
    """A transformer over an embedding, whose indices nobody checks."""
    rows = table.at[places].get(mode="promise_in_bounds")
    return transformer(rows, w, up, down)


def recurrent(xs: Any, w: Any, u: Any, b: Any) -> Any:
    """An LSTM as a loop, and a deep tail."""

    def step(carry: Any, x: Any) -> Any:
        hidden, state = carry
        i, f, g, o = jnp.split(x @ w + hidden @ u + b, 4, -1)
        state = nn.sigmoid(f) * state + nn.sigmoid(i) * jnp.tanh(g)
        hidden = nn.sigmoid(o) * jnp.tanh(state)
        return (hidden, state), hidden

    zeros = jnp.zeros((xs.shape[1], u.shape[0]))
    carry, ys = lax.scan(step, (zeros, zeros), xs)
    y = ys[-1]
    for _ in range(12):
        y = jnp.tanh(norm(y) * 0.5 + y)
    return y, carry[1]


def convolved(x: Any, weights: Any) -> Any:
    """Six convolutions and a pool."""
    for w in weights:
        y = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = nn.relu(norm(y)) + x
    window = (1, 2, 2, 1)
    return lax.reduce_window(x, -jnp.inf, lax.max, window, window, "VALID").mean((1, 2))


def ranked(x: Any, places: Any) -> Any:
    """Sorted rows, and some by an index that nobody checks."""
    for _ in range(8):
        x = jnp.cumsum(norm(jnp.sort(x, -1)), -1)
    return x.at[places].get(mode="promise_in_bounds") * nn.softplus(x[:1]), jnp.argmax(x, -1)


layers = [shape(3, 4, 16, 16), shape(3, 16, 32), shape(3, 32, 16)]
index = shape(2, 8, dtype=jnp.int32)
NETWORKS = {
    "transformer": (transformer, [shape(2, 8, 16), *layers]),
    "lookup": (lookup, [shape(2, 16), index, *layers]),
    "recurrent": (recurrent, [shape(7, 2, 5), shape(5, 32), shape(8, 32), shape(32)]),
    "convolved": (convolved, [shape(1, 8, 8, 4), [shape(3, 3, 4, 4)] * 6]),
    "ranked": (ranked, [shape(2, 12), shape(3, dtype=jnp.int32)]),
}
"""Functions by name, and the shapes they take."""

if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    for name, (function, shapes) in NETWORKS.items():
        text = jax.jit(function).lower(*shapes).as_text()
        (Path(sys.argv[1]) / f"{name}.mlir").write_text(text)
