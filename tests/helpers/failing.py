"""Failing cases for the tests: some that the installed onnxruntime shows, some made up."""

from __future__ import annotations

from functools import partial

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from corpus.case import Case
from corpus.target import Target
from corpus.tir.document import to_bytes
from corpus.tir.tree import Function, Module, Store
from corpus.tir.values import Binary, Buffer, Const, Load
from oracles.verdict import Config, Outcome, Phase, Run, Status, Symptom, Verdict
from tests.helpers.models import case_of

ORT = Target("ort")
on_ort = partial(case_of, target=ORT)


def model(nodes, inputs, outputs, constants=None, opset=17) -> ModelProto:
    """A model from node triples (operator, inputs, outputs) and arrays."""
    graph = helper.make_graph(
        [helper.make_node(op, list(ins), list(outs), **dict(*rest)) for op, ins, outs, *rest in nodes],
        "g",
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def division_crash(extra_nodes: int = 0) -> Case:
    """int64 minimum / -1: onnxruntime's kernel dies of SIGFPE. With nodes around it that do not matter."""
    nodes = [("Div", ["a", "b"], ["t0"])]
    nodes += [("Neg", [f"t{at}"], [f"t{at + 1}"]) for at in range(extra_nodes)]
    typed = (TensorProto.INT64, [4])
    made = model(nodes, {"a": typed, "b": typed}, {f"t{extra_nodes}": typed})
    low = np.array([np.iinfo(np.int64).min, 2, 3, 4], np.int64)
    inputs = {"a": low, "b": np.array([-1, 1, 1, 1], np.int64)}
    return Case("onnx", made.SerializeToString(), inputs, ORT, origin="seed:7")


def clip_exception() -> Case:
    """Relu and Clip of float64: a fusion raises, which the un-optimised session does not."""
    typed = (TensorProto.DOUBLE, [3])
    made = model(
        [("Relu", ["x"], ["r"]), ("Clip", ["r", "low"], ["y"])],
        {"x": typed},
        {"y": typed},
        {"low": np.array(-1.0)},
    )
    return Case("onnx", made.SerializeToString(), {"x": np.array([-1.0, 0.5, 2.0])}, ORT, origin="seed:8")


def healthy(number: int = 0) -> Case:
    """Passes; a different case for each number."""
    typed = (TensorProto.FLOAT, [3])
    made = model([("Add", ["x", "c"], ["y"])], {"x": typed}, {"y": typed}, {"c": np.float32([number] * 3)})
    inputs = {"x": np.array([1, 2, 3], np.float32)}
    return Case("onnx", made.SerializeToString(), inputs, ORT, origin=f"seed:{number}")


def verdict(message: str = "made up", outcome: Outcome = Outcome.EXCEPTION) -> Verdict:
    """A verdict that nobody gave: an exception at level `all` where `none` is fine."""
    fine = Run(Config("none", (("level", "none"),)), Status.OK, Phase.EXECUTE)
    bad = Run(
        Config("all", (("level", "all"),)), Status.EXCEPTION, Phase.OPTIMISE, error="Fail", message=message
    )
    symptom = Symptom(outcome, Phase.OPTIMISE, "Fail", "", message)
    return Verdict(outcome, Phase.OPTIMISE, f"Fail: {message}", symptom, (fine, bad))


def quotient(below: int) -> Case:
    """A TIR program, A[0] / B[0]: the processor ends the process where B[0] is 0."""
    first = Const(0)
    a, b, c = (Buffer(name, (Const(4),), "int32") for name in "ABC")
    value = Binary("div", Load("A", (first,), "int32"), Load("B", (first,), "int32"))
    module = Module({"main": Function((a, b, c), (Store("C", (first,), value),))})
    ones = np.ones(4, np.int32)
    return Case("tir", to_bytes(module), {"A": 7 * ones, "B": below * ones, "C": ones})
