"""Types after passes: what TVM infers anew must not contradict what a pass has left."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import tvm
from tvm import relax
from oracles.worker.tvm.inferred import contradiction


def module(shape, dtype="float32", result=None):
    x = relax.Var("x", relax.TensorType((2, 3), "float32"))
    y = relax.Var("y", relax.TensorType(shape, dtype))
    call = relax.BlockBuilder().normalize(relax.op.add(x, x))
    body = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(y, call)])], y)
    function = relax.Function([x], body, result or y.ty).with_attr("global_symbol", "main")
    return tvm.IRModule({"main": function})


good, other = module((2, 3)), module((3, 2))
open_result = module((2, 3), result=relax.TensorType(dtype="float32", ndim=2))
whole = module((2, 3), "int32")
for before, after in ((good, good), (good, open_result), (good, other), (other, other), (good, whole)):
    print(contradiction(before, after))
"""
OF_ADD = 'R.Tensor((2, 3), dtype="float32")'
EXPECTED = (
    "",
    "",
    'main returns R.Tensor((3, 2), dtype="float32"), not R.Tensor((2, 3), dtype="float32")',
    f'a variable of main is R.Tensor((3, 2), dtype="float32"), but relax.add gives {OF_ADD}',
    'main returns R.Tensor((2, 3), dtype="int32"), not R.Tensor((2, 3), dtype="float32")',
)


@pytest.mark.slow
def test_a_type_that_contradicts_is_told_and_one_that_says_less_is_none():
    pytest.importorskip("tvm", reason="TVM is not installed")
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, cwd=root, check=True
    )
    assert tuple(done.stdout.splitlines()) == EXPECTED
