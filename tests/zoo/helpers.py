"""Models that converters write and torch does not: classifiers with maps, trees, strings, control flow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Inputs = dict[str, np.ndarray]
ML = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]


def _model(graph: onnx.GraphProto, opsets: Sequence[onnx.OperatorSetIdProto] = ML) -> onnx.ModelProto:
    return helper.make_model(graph, opset_imports=list(opsets), ir_version=9, producer_name="skl2onnx")


def _value(
    name: str, shape: Sequence[int | str | None], element: int = TensorProto.FLOAT
) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, element, shape)


def _weights(rng: np.random.Generator, **shapes: Sequence[int]) -> list[onnx.TensorProto]:
    return [
        numpy_helper.from_array(rng.normal(size=shape).astype("f4"), name) for name, shape in shapes.items()
    ]


def classifier(rng: np.random.Generator) -> tuple[onnx.ModelProto, Inputs]:
    """A scaler and a linear classifier: labels, and a sequence of maps from label to probability."""
    names = ["iris", "rose", "tulip"]
    numbers = {"coefficients": rng.normal(size=12).tolist(), "intercepts": rng.normal(size=3).tolist()}
    nodes = [
        helper.make_node("Scaler", ["x"], ["s"], domain="ai.onnx.ml", offset=[0.5] * 4, scale=[0.7] * 4),
        helper.make_node(
            "LinearClassifier", ["s"], ["label", "raw"], domain="ai.onnx.ml",
            classlabels_strings=names, post_transform="SOFTMAX", multi_class=1, **numbers,
        ),
        helper.make_node("Normalizer", ["raw"], ["p"], domain="ai.onnx.ml", norm="L1"),
        helper.make_node("ZipMap", ["p"], ["probabilities"], domain="ai.onnx.ml", classlabels_strings=names),
    ]  # fmt: skip
    maps = helper.make_map_type_proto(
        TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    )
    outputs = [
        _value("label", [None], TensorProto.STRING),
        helper.make_value_info("probabilities", helper.make_sequence_type_proto(maps)),
    ]
    graph = helper.make_graph(nodes, "classifier", [_value("x", [None, 4])], outputs)
    return _model(graph), {"x": rng.normal(size=(3, 4)).astype("f4")}


def forest(rng: np.random.Generator) -> tuple[onnx.ModelProto, Inputs]:
    """Two trees of a regressor after an imputer; its input has a missing value."""
    ids = [0, 1, 2] * 2
    nodes = [
        helper.make_node("Imputer", ["x"], ["i"], domain="ai.onnx.ml",
                         imputed_value_floats=[0.25], replaced_value_float=float("nan")),
        helper.make_node(
            "TreeEnsembleRegressor", ["i"], ["t"], domain="ai.onnx.ml", n_targets=1,
            nodes_treeids=[0, 0, 0, 1, 1, 1], nodes_nodeids=ids, nodes_featureids=[0, 0, 0, 2, 0, 0],
            nodes_values=[0.1, 0.0, 0.0, -0.3, 0.0, 0.0], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"] * 2,
            nodes_truenodeids=[1, 0, 0] * 2, nodes_falsenodeids=[2, 0, 0] * 2,
            target_treeids=[0, 0, 1, 1], target_nodeids=[1, 2, 1, 2], target_ids=[0] * 4,
            target_weights=[0.5, -1.5, 2.0, 0.75],
        ),
        helper.make_node("Exp", ["t"], ["e"]),
        helper.make_node("Mul", ["e", "w"], ["y"]),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "forest", [_value("x", [None, 3])], [_value("y", [None, 1])], _weights(rng, w=[1])
    )
    x = rng.normal(size=(4, 3)).astype("f4")
    x[1, 2] = np.nan
    return _model(graph), {"x": x}


def labels(rng: np.random.Generator) -> tuple[onnx.ModelProto, Inputs]:
    """Strings to numbers, one-hot, a product, and the class as a string again."""
    nodes = [
        helper.make_node("LabelEncoder", ["word"], ["code"], domain="ai.onnx.ml",
                         keys_strings=["a", "b", "c"], values_int64s=[0, 1, 2]),
        helper.make_node("OneHotEncoder", ["code"], ["hot"], domain="ai.onnx.ml", cats_int64s=[0, 1, 2]),
        helper.make_node("Flatten", ["hot"], ["flat"], axis=1),
        helper.make_node("MatMul", ["flat", "w"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["p"], axis=1),
        helper.make_node("ArgMax", ["p"], ["best"], axis=1, keepdims=0),
        helper.make_node("LabelEncoder", ["best"], ["name"], domain="ai.onnx.ml",
                         keys_int64s=[0, 1], values_strings=["no", "yes"]),
    ]  # fmt: skip
    outputs = [_value("name", [None], TensorProto.STRING), _value("p", [None, 2])]
    inputs = [_value("word", [None, 1], TensorProto.STRING)]
    graph = helper.make_graph(nodes, "labels", inputs, outputs, _weights(rng, w=[3, 2]))
    return _model(graph), {"word": np.array([["a"], ["c"], ["b"]], dtype=object)}


def gatherer(rng: np.random.Generator) -> tuple[onnx.ModelProto, Inputs]:
    """A Loop that carries a state and collects steps into a sequence, which is then concatenated."""
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["state", "w"], ["moved"]),
            helper.make_node("Tanh", ["moved"], ["next"]),
            helper.make_node("SequenceInsert", ["seen", "next"], ["more"]),
            helper.make_node("Identity", ["go"], ["on"]),
        ],
        "step",
        [
            _value("i", [], TensorProto.INT64),
            _value("go", [], TensorProto.BOOL),
            _value("state", [1, 4]),
            helper.make_tensor_sequence_value_info("seen", TensorProto.FLOAT, None),
        ],
        [
            _value("on", [], TensorProto.BOOL),
            _value("next", [1, 4]),
            helper.make_tensor_sequence_value_info("more", TensorProto.FLOAT, None),
        ],
    )
    nodes = [
        helper.make_node("SequenceEmpty", [], ["none"], dtype=TensorProto.FLOAT),
        helper.make_node("Loop", ["trips", "", "x", "none"], ["last", "all"], body=body),
        helper.make_node("ConcatFromSequence", ["all"], ["joined"], axis=0),
        helper.make_node("ReduceMean", ["joined"], ["mean"], axes=[0], keepdims=1),
        helper.make_node("Add", ["mean", "last"], ["y"]),
    ]
    weights = [*_weights(rng, w=[4, 4]), numpy_helper.from_array(np.array(3), "trips")]
    graph = helper.make_graph(nodes, "gatherer", [_value("x", [1, 4])], [_value("y", [1, 4])], weights)
    return _model(graph), {"x": rng.normal(size=(1, 4)).astype("f4")}
