"""A model of about 230 nodes, as an exporter writes a small language model, round a bug's few nodes.

The bug stands in the middle: its inputs take a zero from the host's hidden values, and the host goes on with
what the bug computes, which is an output of the model, too.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, parser

from tests.bench.realbugs.bug import Bug, Inputs

BLOCKS, WIDTH, LENGTH = 8, 8, 4
ADDED = {TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT32, TensorProto.INT64}
CAST = ADDED | {TensorProto.BOOL, TensorProto.INT8, TensorProto.UINT8}


def within_host(bug: Bug) -> tuple[onnx.ModelProto, Inputs]:
    """The bug's model in the middle of a host, and the inputs of both."""
    model, half = bug.build(), BLOCKS // 2
    graph, small = onnx.GraphProto(name="host"), model.graph
    types = {each.name: each.type.tensor_type.elem_type for each in [*small.input, *small.output]}
    _add(graph, "\n".join(_block(at) for at in range(half)) + f"\n host_zero0 = Mul(h{half}, host_nought)\n"
         " host_zero = ReduceMax<keepdims=0>(host_zero0)")  # fmt: skip
    for each in small.input:
        graph.node.extend(_entered(each.name, types[each.name]))
    graph.node.extend(small.node)
    results = [each.name for each in small.output if types[each.name] in CAST]
    _add(
        graph, "\n".join(_joined(results, half)) + "\n" + "\n".join(_block(at) for at in range(half, BLOCKS))
    )
    graph.initializer.extend([*small.initializer, *_weights()])
    graph.input.append(helper.make_tensor_value_info("tokens", TensorProto.FLOAT, [1, LENGTH, WIDTH]))
    graph.input.extend(_renamed(each) for each in small.input)
    graph.output.append(helper.make_tensor_value_info(f"h{BLOCKS}", TensorProto.FLOAT, [1, LENGTH, WIDTH]))
    graph.output.extend(small.output)
    del model.graph.node[:]
    model.graph.CopyFrom(graph)
    tokens = np.random.default_rng(1).standard_normal((1, LENGTH, WIDTH)).astype("f4")
    return model, {"tokens": tokens, **{_outer(name): value for name, value in bug.inputs().items()}}


def _outer(name: str) -> str:
    return f"{name}_in"


def _renamed(value: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    copied = onnx.ValueInfoProto()
    copied.CopyFrom(value)
    copied.name = _outer(value.name)
    return copied


def _entered(name: str, element: int) -> list[onnx.NodeProto]:
    """An input of the bug: the model's own, plus the host's zero where its type can be added."""
    if element not in ADDED:
        return [helper.make_node("Identity", [_outer(name)], [name])]
    cast = helper.make_node("Cast", ["host_zero"], [f"host_zero_{name}"], to=element)
    return [cast, helper.make_node("Add", [_outer(name), f"host_zero_{name}"], [name])]


def _joined(results: list[str], half: int) -> list[str]:
    """The bug's results as one number, added to the host's hidden values."""
    lines, hidden = [], f"h{half}"
    for at, name in enumerate(results):
        lines += [f"host_r{at} = Cast<to=1>({name})", f"host_s{at} = Reshape(host_r{at}, host_flat)",
                  f"host_t{at} = ReduceMax<keepdims=0>(host_s{at})", f"host_u{at} = Tanh(host_t{at})",
                  f"host_v{at} = Add({hidden}, host_u{at})"]  # fmt: skip
        hidden = f"host_v{at}"
    return [*lines, f"g{half} = Identity({hidden})"]


def _block(at: int) -> str:
    """Attention of two heads and two layers behind it, as a script exporter writes them: 27 nodes."""
    hidden = f"g{at}" if at == BLOCKS // 2 else f"h{at}" if at else "tokens"
    heads = "\n".join(
        f"b{at}{side}0 = MatMul({hidden}, w_{side})\n b{at}{side}1 = Add(b{at}{side}0, c_{side})\n"
        f" b{at}{side}2 = Reshape(b{at}{side}1, host_split)\n"
        f" b{at}{side} = Transpose<perm=[0, 2, {'3, 1' if side == 'k' else '1, 3'}]>(b{at}{side}2)"
        for side in "qkv"
    )
    rest = """p0 = MatMul(q, k) p1 = Div(p0, host_root) p2 = Add(p1, host_mask) p3 = Softmax<axis=-1>(p2)
        p4 = MatMul(p3, v) p5 = Transpose<perm=[0, 2, 1, 3]>(p4) p6 = Reshape(p5, host_whole)
        p7 = MatMul(p6, w_o) p8 = Add(HIDDEN, p7) p9 = MatMul(p8, w_1) pa = Add(p9, c_1)
        pb = Sigmoid(pa) pc = Mul(pa, pb) pd = MatMul(pc, w_2) pe = Add(p8, pd)"""
    for name in [*(f"p{digit}" for digit in "0123456789abcde")]:
        rest = rest.replace(f"{name} ", f"b{at}{name} ").replace(f"{name},", f"b{at}{name},")
        rest = rest.replace(f"{name})", f"b{at}{name})")
    rest = rest.replace("(q, k)", f"(b{at}q, b{at}k)").replace(", v)", f", b{at}v)").replace("HIDDEN", hidden)
    return f"{heads}\n{rest}\n h{at + 1} = Tanh(b{at}pe)"


def _add(graph: onnx.GraphProto, lines: str) -> None:
    """Append nodes written as text."""
    graph.node.extend(parser.parse_graph(f"g (float[N] tokens) => (float[N] y) {{ {lines} }}").node)


def _weights() -> list[onnx.TensorProto]:
    rng = np.random.default_rng(0)
    matrices = {f"w_{name}": rng.standard_normal((WIDTH, WIDTH)) * 0.3 for name in "qkvo12"}
    vectors = {f"c_{name}": rng.standard_normal(WIDTH) * 0.1 for name in "qkv1"}
    mask = np.where(np.tri(LENGTH), 0, -1e4)
    numbers = {
        **matrices,
        **vectors,
        "host_mask": mask,
        "host_root": np.array(2.0),
        "host_nought": np.array(0.0),
    }
    shapes = {"host_split": [1, LENGTH, 2, WIDTH // 2], "host_whole": [1, LENGTH, WIDTH], "host_flat": [-1]}
    return [
        *(numpy_helper.from_array(value.astype("f4"), name) for name, value in numbers.items()),
        *(numpy_helper.from_array(np.array(value, np.int64), name) for name, value in shapes.items()),
    ]
