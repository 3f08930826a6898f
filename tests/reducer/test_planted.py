"""Whatever is planted in a finished case of the regression corpus is found and removed again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from corpus.case import Case
from corpus.formats.onnx import parse
from corpus.onnx.graph import rename
from corpus.regression import Regression, load_regressions
from corpus.values import Tensor
from oracles.judge import Judge
from reducer.api import reduce_case
from reducer.options import Options

Planted = Iterator[Case]


def plant_node(case: Case) -> Planted:
    """A node on an input of its own, with an output of its own."""
    model = parse(case.program)
    model.graph.node.append(helper.make_node("Neg", ["planted"], ["grown"]))
    model.graph.input.append(helper.make_tensor_value_info("planted", TensorProto.FLOAT, [1]))
    model.graph.output.append(helper.make_tensor_value_info("grown", TensorProto.FLOAT, [1]))
    yield _case(case, model, {"planted": np.ones(1, np.float32)})


def plant_attribute(case: Case) -> Planted:
    """An attribute that says what would hold without it."""
    model = parse(case.program)
    versions = {each.domain: each.version for each in model.opset_import}
    for node in model.graph.node:
        schema = onnx.defs.get_schema(node.op_type, versions[node.domain], node.domain)
        for name in sorted(schema.attributes.keys() - {each.name for each in node.attribute}):
            if schema.attributes[name].default_value.type:
                fuller = onnx.ModelProto()
                fuller.CopyFrom(model)
                at = list(model.graph.node).index(node)
                fuller.graph.node[at].attribute.append(schema.attributes[name].default_value)
                yield _case(case, fuller, {})


def plant_dim(case: Case) -> Planted:
    """An axis of one input twice as long, which is declared so; other axes of its size with it, or not."""
    for name, value in case.inputs.items():
        if isinstance(value, np.ndarray):
            for axis in range(value.ndim):
                model = parse(case.program)
                info = next(each for each in model.graph.input if each.name == name)
                info.type.tensor_type.shape.dim[axis].dim_value *= 2
                for output in model.graph.output:
                    output.type.tensor_type.ClearField("shape")
                yield _case(case, model, {name: np.concatenate([value, value], axis)})


def plant_newer_set(case: Case) -> Planted:
    """ONNX's own operators of a newer set in which they are what they were."""
    model = parse(case.program)
    (item,) = (each for each in model.opset_import if not each.domain)
    before = _schemas(model, item.version)
    for version in range(onnx.defs.onnx_opset_version(), item.version, -1):
        if _schemas(model, version) == before:
            item.version = version
            yield _case(case, model, {})


def _schemas(model: onnx.ModelProto, version: int) -> list[int]:
    """Since when ONNX's own operators have been as they are in a version."""
    names = [node.op_type for node in model.graph.node if not node.domain]
    return [onnx.defs.get_schema(name, version).since_version for name in names]


def plant_unused_set(case: Case) -> Planted:
    """The import of a domain that no node is of."""
    model = parse(case.program)
    model.opset_import.add(domain="planted.domain", version=3)
    yield _case(case, model, {})


def plant_function(case: Case) -> Planted:
    """The last node as the body of a function, with an author's names in it."""
    model = parse(case.program)
    node = model.graph.node.pop()
    versions = [each for each in model.opset_import if each.domain == node.domain]
    call = helper.make_node("planted", list(filter(None, node.input)), node.output, domain="planted.domain")
    model.graph.node.append(call)
    names = {name: f"planted_{name}" for name in (*node.input, *node.output) if name}
    rename(node, lambda name: names[name])
    operands, results = list(filter(None, node.input)), node.output
    model.functions.append(
        helper.make_function("planted.domain", "planted", operands, results, [node], versions)
    )
    model.opset_import.add(domain="planted.domain", version=1)
    yield _case(case, model, {})


def _case(case: Case, model: onnx.ModelProto, inputs: dict[str, Tensor]) -> Case:
    program = model.SerializeToString(deterministic=True)
    return replace(case, program=program, inputs={**case.inputs, **inputs})


PLANTS = {
    "node": plant_node,
    "attribute": plant_attribute,
    "dim": plant_dim,
    "a newer operator set": plant_newer_set,
    "an operator set that is not used": plant_unused_set,
    "a function": plant_function,
}
REGRESSIONS = [
    pytest.param(
        each, id=each.name, marks=[] if each.name == "pad-into-maxpool-negative" else pytest.mark.slow
    )
    for each in load_regressions()
]


@pytest.mark.parametrize("plant", PLANTS.values(), ids=PLANTS)
@pytest.mark.parametrize("regression", REGRESSIONS)
def test_what_is_planted_in_a_finished_case_is_removed_again(
    judge: Judge, regression: Regression, plant: Callable[[Case], Planted], tmp_path: Path
) -> None:
    shown = judge.verdict(regression.case).symptom
    if shown is None:
        pytest.skip("the installed release does not show it")
    for planted in plant(regression.case):
        if _carried(planted) > _carried(regression.case) and judge.verdict(planted).symptom == shown:
            break
    else:
        pytest.skip("there is no place for one where the failure still shows")
    reduction = reduce_case(planted, tmp_path / "out", Options())
    assert reduction.steps
    assert reduction.is_minimal
    assert reduction.after.nodes <= len(parse(regression.case.program).graph.node)
    assert _carried(reduction.case) <= _carried(regression.case)


def _carried(case: Case) -> tuple[int, ...]:
    """Nodes, functions, elements that flow in, attributes, versions of operator sets."""
    model = parse(case.program)
    elements = sum(np.size(value) for value in case.inputs.values())
    elements += sum(int(np.prod(each.dims)) for each in model.graph.initializer)
    attributes = sum(len(node.attribute) for node in model.graph.node)
    versions = sum(each.version for each in model.opset_import)
    return len(model.graph.node), len(model.functions), elements, attributes, versions
