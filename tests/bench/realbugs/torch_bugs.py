"""Bugs of torch that its release 2.13.0 still has on the CPU: inductor's, and those of the ONNX exporters."""

import numpy as np

from tests.bench.realbugs.bug import floats
from tests.bench.realbugs.torch_host import TorchBug

HERE = ("2.13.0", "2.13.0")
F32 = np.float32
DYNAMO, TORCHSCRIPT = "torch-onnx@exporter=dynamo", "torch-onnx@exporter=torchscript"

TORCH = (
    TorchBug(
        "torch-floor-division", 197895, "1.0 // 0.1 is 10 where Python and eager say 9",
        "def bug(x, y):\n    return x // y",
        lambda: {"x": np.array([1, 0.5, 6, 1], F32), "y": np.array([0.1, 0.1, 0.2, 1 / 3], F32)},
        HERE, "mismatch", ("floordiv", "floor_divide", "lowerings.div"), least=1,
    ),
    TorchBug(
        "torch-any-of-bytes", 198081, "any of bytes is a bool, and sums with it are of another type",
        "def bug(x):\n    return torch.any(x) * 200 + 100",
        lambda: {"x": np.array([[0, 3], [0, 0]], np.uint8)},
        HERE, "mismatch", ("any",), least=1,
    ),
    TorchBug(
        "torch-lerp-of-bools", 197105, "lerp of bools does not compile: it subtracts before it promotes",
        "def bug(x, y, w):\n    return torch.lerp(x, y, w)",
        lambda: {"x": np.array([True, False]), "y": np.array([True, True]), "w": np.array(0.3, F32)},
        HERE, "exception", ("lerp",), "codegen", least=1,
    ),
    TorchBug(
        "torch-sum-to-bool", 197106, "sum of halves to a bool gives C++ that does not compile",
        "def bug(x):\n    return torch.sum(x, dtype=torch.bool)",
        lambda: {"x": floats(0, 3, 4, dtype="float16")},
        HERE, "exception", ("sum",), "codegen", least=1,
    ),
    TorchBug(
        "torch-prod-to-bool", 197106, "prod to a bool fails an assertion of the generated code's writer",
        "def bug(x):\n    return torch.prod(x, dtype=torch.bool)",
        lambda: {"x": floats(0, 3, 4)},
        HERE, "exception", ("prod",), "codegen", least=1,
    ),
    TorchBug(
        "torch-scan-of-scalar", 193265, "cumsum of a constant without dims: an index out of range",
        "def bug(x):\n    return x + torch.full((), 5.0).cumsum(0)",
        lambda: {"x": floats(0, 3)},
        HERE, "exception", ("cumsum", "post_grad"), "codegen",
    ),
    TorchBug(
        "torch-log-softmax-scalar", 190418, "log_softmax of a product without dims: an index out of range",
        "def bug(x):\n    y = x.argmax().float()\n    return torch.log_softmax(y * y, -1)",
        lambda: {"x": floats(0, 3)},
        HERE, "exception", ("softmax", "joint_graph"), "codegen",
    ),
    TorchBug(
        "torch-shift-rows", 197829, "rows shifted in place through a clone are all the first one",
        "def bug(x):\n    x[1:] = x[:-1].clone()\n    return x",
        lambda: {"x": floats(0, 3, 16, 16)},
        HERE, "mismatch", ("clone", "setitem", "copy", "noop"), least=4, is_fed=True,
    ),
    TorchBug(
        "torch-index-put-flip", 198270, "a tensor written by index and then added to itself flipped",
        "def bug(x):\n    x.index_put_((torch.arange(x.size(0)),), x * 2.0)\n"
        "    x.add_(x.flip(0))\n    return x",
        lambda: {"x": floats(0, 4, 8)},
        HERE, "mismatch", ("index_put", "flip", "fusion"), least=3, is_fed=True, dims=(("x", 0),),
    ),
    TorchBug(
        "torch-view-then-change", 198101, "a view of another type is read after a later write",
        "def bug(x):\n    y = x.view(torch.int32) * 2\n    y.sub_(-4)\n"
        "    x[:, 2:5] = 2\n    return y.view(torch.int64)",
        lambda: {"x": np.arange(-12, 12).reshape(4, 6)},
        HERE, "mismatch", ("view",), least=4, is_fed=True,
    ),
    TorchBug(
        "torch-copy-then-change", 198131, "a copy of an input is taken after the input has changed",
        "def bug(x, y):\n    x[0:, :] = y[0:, :]\n    y.add_(1)\n    return y",
        lambda: {"x": np.zeros((3, 4), F32), "y": np.arange(12, dtype=F32).reshape(3, 4)},
        HERE, "mismatch", ("noop", "post_grad", "joint_graph", "pass_pattern", "slice"), least=3, is_fed=True,
    ),
    TorchBug(
        "torch-jacobian-of-halves", 194706, "derivatives of products of halves: C++ that does not compile",
        "def bug(x):\n    def f(x):\n        y = torch.mm(torch.prod(x) + x, torch.sum(x) + x)\n"
        "        return torch.sum(torch.mm(y, torch.sum(x) + x))\n    return torch.func.jacfwd(f)(x)",
        lambda: {"x": (np.arange(1, 10) / 10).astype(np.float16).reshape(3, 3)},
        HERE, "exception", ("prod", "sum"), "codegen", least=1,
    ),
    TorchBug(
        "torch-target-out-of-range", 193757, "binary_cross_entropy takes targets that eager refuses",
        "def bug(x, t):\n    return torch.nn.functional.binary_cross_entropy(x, t)",
        lambda: {"x": np.ones((4, 4), F32), "t": np.full((4, 4), 1.5, F32)},
        HERE, "mismatch", ("binary_cross_entropy",), least=1,
    ),
    TorchBug(
        "torch-onnx-right-shift", 191014, "a right shift of negative integers rounds towards zero",
        "def bug(x):\n    return x >> 1",
        lambda: {"x": np.array([-3, -4, 5])},
        HERE, "mismatch", ("rshift", "bitwise_right_shift"), least=1, target=TORCHSCRIPT,
    ),
    TorchBug(
        "torch-onnx-floor-division", 78442, "floor division of negative integers rounds towards zero",
        "def bug(x):\n    return x // 3",
        lambda: {"x": np.array([-7, -6, 5, 7])},
        HERE, "mismatch", ("floordiv", "floor_divide"), least=1, target=TORCHSCRIPT,
    ),
    TorchBug(
        "torch-onnx-divisor", 105349, "avg_pool2d with a divisor of its own divides by the window's size",
        "def bug(x):\n    return torch.nn.functional.avg_pool2d(x, 2, 2, divisor_override=3)",
        lambda: {"x": floats(0, 1, 1, 6, 6)},
        HERE, "mismatch", ("avg_pool2d",), least=1, target=DYNAMO,
    ),
    TorchBug(
        "torch-onnx-scatter-mean", 106373, "scatter_reduce to the mean takes in what it is told to leave out",
        "def bug(x, i, v):\n    return x.scatter_reduce(0, i, v, 'mean', include_self=False)",
        lambda: {"x": floats(0, 5), "i": np.array([1, 1]), "v": floats(1, 2)},
        HERE, "mismatch", ("scatter_reduce",), least=1, target=DYNAMO,
    ),
)  # fmt: skip
