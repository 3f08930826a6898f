"""Bugs of TVM's ONNX importer and code generator, on the installed release, as small as they were told."""

import numpy as np

from tests.bench.realbugs.bug import TVM_RELEASES, Bug, Inputs, floats

FIRST, MIDDLE, LAST = TVM_RELEASES
NAN = np.float32("nan")
THREE = np.arange(12, dtype=np.float32).reshape(3, 4)


def _told(
    id: str, thread: int, title: str, node: str, x: list[float], culprits: tuple[str, ...],
    since: str = FIRST, result: str = "",
) -> Bug:  # fmt: skip
    """A bug of one node `node` from `x` to `y`, which has x's type or is `result`."""
    model = f"g (float[{len(x)}] x) => ({result or f'float[{len(x)}]'} y) {{ {node} }}"
    inputs = {"x": np.array(x, np.float32)}
    return Bug(id, thread, title, model, lambda: inputs, (since, LAST), "mismatch", culprits, least=1,
               opset=18, tracker="tvm", target="tvm", is_hosted=False)  # fmt: skip


def _imported(
    id: str, thread: int, title: str, model: str, inputs: Inputs, last: str, outcome: str, culprit: str,
    phase: str = "", least: int = 1, change: int = 0,
) -> Bug:  # fmt: skip
    """A bug of the importer, which the first release has; within its host."""
    return Bug(id, thread, title, model, lambda: inputs, (FIRST, last), outcome, (culprit,), phase,
               least=least, opset=18, change=change, tracker="tvm", target="tvm")  # fmt: skip


TVM = (
    _told("tvm-sign-nan", 19543, "Sign of NaN is 0", "y = Sign(x)", [NAN, 9, -9, NAN], ("Sign",),
          MIDDLE),
    _told("tvm-relu-nan", 19572, "Relu of NaN is 0", "y = Relu(x)", [NAN, 1, NAN, -2], ("Relu",)),
    Bug("tvm-min-nan", 19540, "Min of NaN and a number is the number",
        "g (float[2] x, float[2] z) => (float[2] y) { y = Min(x, z) }",
        lambda: {"x": np.array([NAN, 4], np.float32), "z": np.array([7, 5], np.float32)},
        (FIRST, LAST), "mismatch", ("Min",), least=1, opset=18, tracker="tvm", target="tvm", is_hosted=False),
    Bug("tvm-div-by-zero", 19541, "integer Div by 0 ends the process",
        "g (int32[2] x, int32[2] z) => (int32[2] y) { y = Div(x, z) }",
        lambda: {"x": np.array([1, 2], np.int32), "z": np.array([0, 1], np.int32)},
        (FIRST, LAST), "crash", ("Div",), least=1, opset=14, tracker="tvm", target="tvm", is_hosted=False),
    Bug("tvm-resize-nearest", 19500, "a nearest Resize rounds another way than it is asked to",
        "g (float[1,1,3,3] x) => (float[1,1,4,4] y) <float[4] s = {1, 1, 1.5, 1.5}>"
        ' { y = Resize<mode="nearest", coordinate_transformation_mode="half_pixel",'
        ' nearest_mode="round_prefer_floor">(x, , s) }',
        lambda: {"x": np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)},
        (FIRST, LAST), "mismatch", ("Resize",), least=1, opset=13, tracker="tvm", target="tvm",
        is_hosted=False),
    _told("tvm-argmax-nan", 19558, "ArgMax passes over a NaN", "y = ArgMax<axis=0, keepdims=0>(x)",
          [2, NAN, 7, 4, 1], ("ArgMax",), result="int64"),
    _told("tvm-reduce-max-nan", 19572, "ReduceMax passes over a NaN that is not the last",
          "y = ReduceMax<keepdims=0>(x)", [NAN, 1], ("ReduceMax", "max"), MIDDLE, "float"),
    Bug("tvm-clip-nan", 19533, "Clip to a NaN is no clip, and of a NaN is the least",
        "g (float[5] x, float lo, float hi) => (float[5] y) { y = Clip(x, lo, hi) }",
        lambda: {"x": np.array([0.5, -3, 4.5, 11, NAN], np.float32), "lo": np.float32(0), "hi": NAN},
        (MIDDLE, LAST), "mismatch", ("Clip",), least=1, opset=17, change=19847, tracker="tvm", target="tvm",
        is_hosted=False),
    _imported("tvm-min-of-constants", 20117, "Min of two constants is not imported",
              "g (float[2] x) => (float[2] y) <float[2] a = {1, 2}, float[2] b = {3, 4}>"
              " { m = Min(a, b) y = Add(x, m) }",
              {"x": floats(0, 2)}, MIDDLE, "exception", "Min", "import"),
    _imported("tvm-gather-elements-negative", 20217, "negative indices of GatherElements read before it",
              "g (float[3,4] x, int64[3,4] i) => (float[3,4] y) { y = GatherElements<axis=1>(x, i) }",
              {"x": THREE, "i": np.full((3, 4), -1)}, MIDDLE, "mismatch", "GatherElements"),
    _imported("tvm-gather-nd-negative", 20217, "GatherND reads before the tensor by negative indices",
              "g (float[3,4] x, int64[2,2] i) => (float[2] y) { y = GatherND(x, i) }",
              {"x": THREE, "i": np.array([[-1, -1], [0, -2]])}, MIDDLE, "mismatch", "GatherND"),
    _imported("tvm-scatter-nd-negative", 20217, "ScatterND writes before the tensor by negative indices",
              "g (float[3,4] x, int64[2,1] i, float[2,4] u) => (float[3,4] y) { y = ScatterND(x, i, u) }",
              {"x": THREE, "i": np.array([[-1], [0]]), "u": THREE[:2] + 20}, MIDDLE, "crash", "ScatterND",
              "execute"),
    _imported("tvm-top-k-indices", 19972, "the indices of TopK are imported as int32",
              "g (float[3,6] x) => (int64[3,2] y) <int64[1] k = {2}, int64 d = {2}>"
              " { v, i = TopK(x, k) y = Div(i, d) }",
              {"x": floats(0, 3, 6)}, FIRST, "exception", "TopK", "import", 2, 19973),
    _imported("tvm-shape-as-indices", 20176, "a Shape that is Gather's indices is not imported",
              "g (float[2,3] x, float[6] w) => (float[2] y) { s = Shape(x) y = Gather(w, s) }",
              {"x": floats(0, 2, 3), "w": floats(1, 6)}, MIDDLE, "exception", "Gather", "import", 2, 20179),
)  # fmt: skip
