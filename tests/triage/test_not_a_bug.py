"""Of an invalid model a report says which node breaks which rule, by the path that the user gave."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from corpus.errors import UserError
from tests.triage.failing import healthy
from triage.cases.judging import Judges
from triage.console.options import CaseOptions
from triage.reports.by_name import report_word


def test_an_invalid_model_gets_a_page_for_its_owner(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="proj")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])],
        [numpy_helper.from_array(np.zeros((5, 4), np.float32), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "mine.onnx"
    path.write_bytes(model.SerializeToString())
    options = CaseOptions()
    with Judges(options) as judges:
        document = report_word(str(path), options, judges, tmp_path / "out")
    assert (document["state"], document["ready"]) == ("not a bug", False)
    text = Path(document["page"]).read_text()
    for words in (str(path), "Incompatible dimensions", "MatMul 'proj' -> y", "x: float32[2,3]"):
        assert words in text


def test_a_healthy_case_is_refused_by_the_word_that_named_it(tmp_path: Path) -> None:
    healthy().save(tmp_path / "fine")
    options = CaseOptions()
    with Judges(options) as judges, pytest.raises(UserError, match="fine: shows no bug on ort"):
        report_word(str(tmp_path / "fine"), options, judges, tmp_path / "out")
