"""What a compiler declares not to do: a table, one request for all, and what its own documents claim."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto

from corpus.case import Case
from corpus.target import Target
from oracles.judge import Judge
from oracles.verdict import Mark
from oracles.worker.limits import claim_of, documents_along, form_of
from tests.triage.failing import healthy, model, verdict
from tests.triage.test_cli import crux
from triage.bugs.failures import record_failure
from triage.bugs.limits import SEVERAL, limits
from triage.store.database import Store

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
DOCUMENTS = (
    "The importer retains dynamic shapes upon import, and folds what it can.",
    "Pads the tensor.\n\nHandles constant axes only.",
    "Not all kernels support dynamic pads.",
)


@pytest.mark.parametrize(
    ("words", "form"),
    [
        ("Dynamic pads are not supported yet.", "dynamic pads"),
        ("Only constant axes currently supported", "dynamic axes"),
        ("TopK k must be a constant", "dynamic k"),
        ("Node Size_v12 cannot handle ShapeExpr inputs.", "ShapeExpr inputs"),
        ("LRN only supports 3D or 4D input", "other than 3D or 4D input"),
        ("past state for key and value is not currently supported", "past state for key and value"),
        ("Squeeze with symbolic axes not supported", "symbolic axes"),
        ("Check failed: boom", ""),
    ],
)
def test_a_refusal_names_its_form(words, form):
    assert form_of(words) == form


def test_a_claim_is_about_the_form_and_without_reservation():
    assert claim_of("dynamic dim", DOCUMENTS) == DOCUMENTS[0]
    assert claim_of("symbolic shapes", DOCUMENTS) == DOCUMENTS[0]
    assert claim_of("dynamic pads", DOCUMENTS) == ""
    assert claim_of("dynamic axes", DOCUMENTS) == ""
    assert claim_of("", DOCUMENTS) == ""


def test_documents_are_read_along_the_way_of_an_exception():
    with pytest.raises(AttributeError) as raised:
        _ = [each.missing for each in ("",)]  # a frame without a constant of its own
    assert any("compiler declares" in text for text in documents_along(raised.value, ""))


def declared(words: str, head: str = ""):
    shown = verdict(words)
    failing = replace(shown.runs[-1], trace=f"{head}Traceback (most recent call last):\n")
    mark = Mark.LIMIT.value
    return replace(shown, runs=(shown.runs[0], failing), notes=(mark,), marks={Mark.LIMIT: mark})


def test_the_table_has_a_row_for_each_operator_and_form(tmp_path):
    pads = "Dynamic pads are not supported yet."
    with Store(tmp_path / "crux.db") as store:
        for number, (words, head) in enumerate(
            [
                (pads, "Error converting operator Pad\n"),
                (pads, "Error converting operator Pad\n"),
                ("Node n cannot handle ShapeExpr inputs.", "reached operator Neg\n"),
                ("Only constant axes currently supported", ""),
            ]
        ):
            record_failure(store, healthy(number), declared(words, head))
        record_failure(store, healthy(9), verdict("boom"))
        found = limits(store)
    rows = [(each.operator, each.form, each.count) for each in found]
    assert rows == [("Neg", "ShapeExpr inputs", 1), ("Pad", "dynamic pads", 2), (SEVERAL, "dynamic axes", 1)]


def dynamic_pads() -> Case:
    types = {"x": (FLOAT, [2]), "p": (INT64, [2])}
    made = model([("Neg", ["x"], ["n"]), ("Pad", ["n", "p"], ["y"])], types, {"y": (FLOAT, ["n"])}, opset=18)
    inputs = {"x": np.ones(2, np.float32), "p": np.array([1, 1])}
    return Case("onnx", made.SerializeToString(), inputs, Target("tvm"))


def dynamic_dim() -> Case:
    nodes = [("SplitToSequence", ["x", "s"], ["q"]), ("SequenceLength", ["q"], ["y"])]
    made = model(nodes, {"x": (FLOAT, ["n"])}, {"y": (INT64, [])}, {"s": np.array(2)}, opset=18)
    return Case("onnx", made.SerializeToString(), {"x": np.ones(4, np.float32)}, Target("tvm"))


def test_a_limit_that_the_compilers_own_documentation_contradicts_stays_a_bug():
    pytest.importorskip("tvm")
    with Judge(Target("tvm")) as judge:
        limit, bug = judge.verdict(dynamic_pads()), judge.verdict(dynamic_dim())
    assert Mark.LIMIT in limit.marks
    assert bug.is_bug
    assert Mark.LIMIT not in bug.marks
    assert any("retains dynamic shapes" in note for note in bug.notes)


@pytest.mark.slow
def test_all_limits_are_one_request(tmp_path):
    pytest.importorskip("tvm")
    dynamic_pads().save(tmp_path / "pads")
    assert crux(tmp_path, "check", "pads", "--target", "tvm", "--db", "crux.db").returncode == 1
    (row,) = json.loads(crux(tmp_path, "triage", "limits", "--db", "crux.db", "--json").stdout)
    assert (row["operator"], row["form"]) == ("Pad", "dynamic pads")
    done = crux(tmp_path, "report", "--limits", "--db", "crux.db", "-o", "out", "--json")
    (request,) = json.loads(done.stdout)
    folder = tmp_path / request["folder"]
    text = (folder / "issue.md").read_text()
    assert "Feature request" in text
    assert "Dynamic pads are not supported yet." in text
    assert "Neg" not in text  # reduced before it is shown
    assert (folder / "models" / "pad-dynamic-pads.onnx").is_file()


def test_a_request_without_limits_is_the_users_mistake(tmp_path):
    with Store(tmp_path / "crux.db") as store:
        record_failure(store, healthy(), verdict("boom"))
    done = crux(tmp_path, "report", "--limits", "--db", "crux.db")
    assert done.returncode == 2
    assert "declared a limit" in done.stderr
