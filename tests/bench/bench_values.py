"""How many programs without guards get values that stay finite, and by what; printed, never asserted."""

import os
from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from corpus.case import Case
from corpus.onnx.inputs import make_inputs
from corpus.target import Target
from generators.finite import make_finite, settled
from generators.language.values import RandomSource
from oracles.judge import Judge

pytestmark = [pytest.mark.bench, pytest.mark.timeout(6000)]

SIDE = 4
RISKY = ("Log", "Sqrt", "Acos", "Asin", "Atanh", "Acosh", "Reciprocal", "Exp", "Tan")
PLAIN = ("Neg", "Relu", "Floor", "Sigmoid", "Tanh", "Abs", "Softplus", "Sin")
WEIGHED = ("Add", "Sub", "Mul", "MatMul")
JOINED = ("Add", "Sub", "Mul", "Div", "Pow")


def unguarded(seed: int, nodes: int) -> onnx.ModelProto:
    """Operators chained without a thought for their domains, as a user may write them; two inputs."""
    draws = RandomSource(f"unguarded/{seed}/{nodes}")
    made, weights, known = [], [], ["x", "y"]
    for at in range(nodes):
        pool = draws.pick((RISKY, RISKY, PLAIN, WEIGHED, WEIGHED, JOINED))
        name, focus = draws.pick(pool), known[-1] if draws.chance(0.8) else draws.pick(known)
        operands = [focus]
        if pool is WEIGHED:
            words = draws.words(SIDE * SIDE) / 2.0**32
            array = np.asarray(6 * words - 3, dtype=np.float32).reshape(SIDE, SIDE)
            weights.append(numpy_helper.from_array(array, f"w{at}"))
            operands.append(f"w{at}")
        elif pool is JOINED:
            operands.append(draws.pick(known))
        made.append(helper.make_node(name, operands, [f"v{at}"], f"n{at}"))
        known.append(f"v{at}")
    declared = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (SIDE, SIDE)) for name in known]
    graph = helper.make_graph(made, "unguarded", declared[:2], declared[-1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.mark.parametrize("nodes", [5, 10])
def test_finite_share(nodes, say):
    """After repair, after gradients; with weights that may move."""
    count = int(os.environ.get("CRUX_VALUES", "100"))
    found: Counter[str] = Counter()
    with Judge(Target("ort")) as judge:
        for seed in range(count):
            model = unguarded(seed, nodes)
            case = Case("onnx", model.SerializeToString(), make_inputs(model, seed))
            found["repair"] += make_finite(case, judge, gradients=False).is_finite
            both = make_finite(case, judge)
            found["both"] += both.is_finite
            free = settled(case, judge, free_weights=True)
            found["weights, too"] += make_finite(free, judge, gradients=False, runs=0).is_finite
    say(f"\n{nodes} nodes, finite of {count}: {dict(found)}")
