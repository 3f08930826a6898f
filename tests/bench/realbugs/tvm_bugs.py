"""Bugs of TVM's ONNX importer and code generator, on the installed release, as small as they were told."""

import numpy as np

from tests.bench.realbugs.bug import Bug

HERE = ("0.27.0.post1", "0.27.0.post1")
NAN, INF = np.float32("nan"), np.float32("inf")


def _told(
    id: str, thread: int, title: str, node: str, x: list[float], culprits: tuple[str, ...],
) -> Bug:  # fmt: skip
    """A bug of one node `node` from `x` to `y`."""
    model = f"g (float[{len(x)}] x) => (float[{len(x)}] y) {{ {node} }}"
    inputs = {"x": np.array(x, np.float32)}
    return Bug(id, thread, title, model, lambda: inputs, HERE, "mismatch", culprits, least=1, opset=18,
               tracker="tvm", target="tvm", is_hosted=False)  # fmt: skip


TVM = (
    _told("tvm-sign-nan", 19543, "Sign of NaN is 0", "y = Sign(x)", [NAN, 9, -9, NAN], ("Sign",)),
    _told("tvm-relu-nan", 19572, "Relu of NaN is 0", "y = Relu(x)", [NAN, 1, NAN, -2], ("Relu",)),
    Bug("tvm-min-nan", 19540, "Min of NaN and a number is the number",
        "g (float[2] x, float[2] z) => (float[2] y) { y = Min(x, z) }",
        lambda: {"x": np.array([NAN, 4], np.float32), "z": np.array([7, 5], np.float32)},
        HERE, "mismatch", ("Min",), least=1, opset=18, tracker="tvm", target="tvm", is_hosted=False),
    Bug("tvm-div-by-zero", 19541, "integer Div by 0 ends the process",
        "g (int32[2] x, int32[2] z) => (int32[2] y) { y = Div(x, z) }",
        lambda: {"x": np.array([1, 2], np.int32), "z": np.array([0, 1], np.int32)},
        HERE, "crash", ("Div",), least=1, opset=14, tracker="tvm", target="tvm", is_hosted=False),
    Bug("tvm-resize-nearest", 19500, "a nearest Resize rounds another way than it is asked to",
        "g (float[1,1,3,3] x) => (float[1,1,4,4] y) <float[4] s = {1, 1, 1.5, 1.5}>"
        ' { y = Resize<mode="nearest", coordinate_transformation_mode="half_pixel",'
        ' nearest_mode="round_prefer_floor">(x, , s) }',
        lambda: {"x": np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)},
        HERE, "mismatch", ("Resize",), least=1, opset=13, tracker="tvm", target="tvm", is_hosted=False),
)  # fmt: skip
