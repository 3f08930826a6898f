"""Bugs of TVM's ONNX importer and code generator, on the installed release, as small as they were told."""

import numpy as np

from tests.bench.realbugs.bug import Bug

HERE = ("0.27.0.post1", "0.27.0.post1")
NAN, INF = np.float32("nan"), np.float32("inf")


def _told(
    id: str, thread: int, title: str, node: str, x: list[float], culprits: tuple[str, ...], *,
    to: str = "float", cause: str = "",
) -> Bug:  # fmt: skip
    """A bug of one node `node` from `x` to `y` of type `to`."""
    model = f"g (float[{len(x)}] x) => ({to}[{len(x)}] y) {{ {node} }}"
    inputs = {"x": np.array(x, np.float32)}
    return Bug(id, thread, title, model, lambda: inputs, HERE, "mismatch", culprits, least=1, opset=18, cause=cause,
               tracker="tvm", target="tvm", is_hosted=False)  # fmt: skip


TVM = (
    _told("tvm-sign-nan", 19543, "Sign of NaN is 0", "y = Sign(x)", [NAN, 9, -9, NAN], ("Sign",),
          cause="tvm-sign-nan"),
    _told("tvm-sign-nan-again", 19572, "Sign of NaN is 0, among others", "y = Sign(x)", [NAN, 1, NAN, -2],
          ("Sign",), cause="tvm-sign-nan"),
    _told("tvm-sinh-overflow", 19559, "Sinh overflows before its result does", "y = Sinh(x)",
          [88.85, 89, 89.2, -88.95], ("Sinh",)),
    _told("tvm-asinh-overflow", 19561, "Asinh of large numbers is inf", "y = Asinh(x)", [3e22, 5e25, -8e23],
          ("Asinh",)),
    _told("tvm-cast-nan-to-int8", 19542, "Cast to int8 clips what others wrap", "y = Cast<to=3>(x)",
          [300, 50, -50], ("Cast",), to="int8"),
    _told("tvm-cast-computed-nan", 18605, "a computed NaN becomes False", "a = Asin(x) y = Cast<to=9>(a)",
          [5, 0.5], ("Cast",), to="bool"),
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
