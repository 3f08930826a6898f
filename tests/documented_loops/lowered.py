"""Operators of small torch modules and ONNX models, lowered by TVM alone and fused: where loops start from.

`crux patterns extract tests/documented_loops --target tvm --trust -o DIR` keeps them in `DIR/loops`.
"""

import pytest
import torch
import tvm
from onnx import TensorProto, helper
from torch import nn
from torch.nn import functional as F
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx
from tvm.relax.frontend.torch import from_exported_program


class Attention(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = x.reshape(1, 2, 2, 2).transpose(1, 2)
        weights = torch.softmax(heads @ heads.transpose(-1, -2) / 2.0, -1)
        return (weights @ heads).transpose(1, 2).reshape(1, 2, 4)


class Rotary(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        angles = torch.outer(torch.arange(2.0), torch.tensor([1.0, 0.1]))
        one, other = x[..., :2], x[..., 2:]
        turned = [one * angles.cos() - other * angles.sin(), one * angles.sin() + other * angles.cos()]
        return torch.cat(turned, -1)


class RootMeanSquare(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)


class Masked(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(3, 3).tril() > 0
        return torch.where(mask, x, torch.full((3, 3), -1.0)).cumsum(0)


class Resized(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.pad(F.interpolate(x, scale_factor=2.0), (1, 1, 0, 0))


MODULES = [
    (Attention(), (1, 2, 4)),
    (Rotary(), (1, 2, 4)),
    (RootMeanSquare(), (2, 4)),
    (Masked(), (3, 3)),
    (Resized(), (1, 1, 2, 2)),
    (nn.Sequential(nn.LayerNorm(4), nn.GELU()), (2, 4)),
    (nn.Sequential(nn.Linear(4, 3), nn.SiLU()), (2, 4)),
    (nn.Sequential(nn.Conv2d(1, 2, 2), nn.ReLU(), nn.MaxPool2d(2)), (1, 1, 5, 5)),
    (nn.AvgPool2d(2), (1, 1, 4, 4)),
]
OPERATORS = [
    ("Sub", ["x", "x"], TensorProto.INT32, [2, 3]),
    ("ReduceMax", ["x"], TensorProto.FLOAT, [2, 3]),
    ("ArgMin", ["x"], TensorProto.FLOAT, [2, 3]),
    ("BitwiseNot", ["x"], TensorProto.INT64, [2, 3]),
    ("Erf", ["x"], TensorProto.FLOAT, [6]),
    ("Trilu", ["x"], TensorProto.FLOAT, [3, 3]),
    ("HardSigmoid", ["x"], TensorProto.FLOAT, []),
]


def lower(module: tvm.IRModule) -> None:
    """Each operator alone, then fused; the last pass gets both."""
    with tvm.target.Target("llvm"):
        alone = relax.transform.LegalizeOps()(relax.transform.DecomposeOpsForInference()(module))
        known = relax.transform.AnnotateTIROpPattern()(alone)
        fused = relax.transform.FuseTIR()(relax.transform.FuseOps()(known))
        relax.transform.DeadCodeElimination()(fused)


@pytest.mark.parametrize(("net", "shape"), MODULES)
def test_a_torch_module(net, shape):
    lower(from_exported_program(torch.export.export(net.eval(), (torch.ones(shape),))))


@pytest.mark.parametrize(("operator", "reads", "kind", "shape"), OPERATORS)
def test_an_onnx_operator(operator, reads, kind, shape):
    x = helper.make_tensor_value_info("x", kind, shape)
    y = helper.make_tensor_value_info("y", TensorProto.INT64 if operator == "ArgMin" else kind, None)
    graph = helper.make_graph([helper.make_node(operator, reads, ["y"])], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    lower(from_onnx(model))
