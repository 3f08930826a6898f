"""Known issues: every bug of the regression corpus has an entry, which tags it and nothing else there."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from corpus.case import Case
from corpus.errors import UserError
from corpus.onnx.measure import measure
from corpus.regression import load_regressions
from corpus.target import Target
from oracles.judge import Judge
from oracles.naming.components import signature
from oracles.naming.signature import Signature
from reducer.pass_sets import find_pass_set
from tests.triage.failing import ORT, model
from triage.bugs.known import SHIPPED, known_issue, load_known, read_known
from triage.store.database import own_file

RELU = Signature.of(
    ("backend", "ort"),
    ("outcome", "exception"),
    ("site", "relu_clip_fusion.cc FuseReluClip::Apply"),
    ("message", "Unexpected data type for Clip '*' input of *"),
)
OWN = """
[mine]
title = "My own"
package = "onnxruntime"
fixed = "1.32.0"
match = { outcome = "exception", site = "relu_clip_fusion.cc .*" }
"""


def test_every_bug_of_the_corpus_has_an_entry():
    assert {each.name for each in load_regressions()} <= {issue.id for issue in read_known(SHIPPED)}


@pytest.mark.slow
@pytest.mark.parametrize("regression", list(load_regressions()), ids=lambda each: each.name)
def test_a_case_of_the_corpus_is_tagged_as_its_own_bug(regression):
    with Judge(regression.case.target or ORT, format=regression.case.format) as judge:
        verdict = judge.verdict(regression.case)
        if not verdict.is_bug:
            pytest.skip("the installed release does not show the bug")
        found = find_pass_set(judge, regression.case, verdict)
    shown = regression.case.measure
    named = signature(verdict, shown, regression.case, found.minimal if found else ())
    holding = [issue.id for issue in read_known(SHIPPED) if issue.holds_for(dict(named.components))]
    assert holding == [regression.name]


@pytest.mark.parametrize(
    ("releases", "name"),
    [((), "mine"), (("1.31.1",), "mine"), (("1.32.0",), "relu-clip-not-float"), (("",), "mine")],
)
def test_a_users_entry_comes_first_and_expires_with_the_release_that_fixed_it(tmp_path, releases, name):
    database = tmp_path / "crux.db"
    own_file(database).write_text(OWN)
    found = known_issue(load_known(database), [RELU], releases)
    assert found is not None
    assert found.id == name


def test_another_package_or_component_is_not_known():
    tvm = Signature.of(("backend", "tvm"), *RELU.components[1:])
    other = Signature.of(*RELU.components[:-1], ("message", "something else"))
    assert known_issue(read_known(SHIPPED), [tvm, other], ()) is None


@pytest.mark.parametrize(
    "text",
    [
        "[a",
        "a = 1",
        "[a]\ntitle = 'no match'",
        "[a]\ntitle = 'x'\npackage = 'tvm'\nmatch = {}",
        "[a]\ntitle = 'x'\npackage = 'tvm'\nmatch = { op = '(' }",
        "[a]\ntitle = 'x'\npackage = 'tvm'\nmatch = { op = 'x' }\nwhatever = 'x'",
    ],
)
def test_a_file_that_cannot_be_used_is_the_users_mistake(tmp_path, text):
    path = tmp_path / "known.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=r"known\.toml"):
        read_known(path)


TVM = [
    ("tvm-equal-bool", "Equal", {"x": (9, [2])}, {"y": (9, [2])}, np.zeros(2, bool)),
    ("tvm-relu-of-nan", "Relu", {"x": (1, [])}, {"y": (1, [])}, np.float32(np.nan)),
    ("tvm-integer-division-by-zero", "Div", {"x": (6, [])}, {"y": (6, [])}, np.int32(0)),
    ("tvm-reduce-mean-of-integers", "ReduceMean", {"x": (6, [1])}, {"y": (6, [1])}, np.zeros(1, np.int32)),
]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("tvm") is None, reason="TVM is not installed")
@pytest.mark.parametrize(("name", "operator", "inputs", "outputs", "value"), TVM, ids=lambda each: str(each))
def test_a_bug_of_tvm_is_tagged_as_what_it_is(name, operator, inputs, outputs, value):
    operands = ["x", "x"] if operator in ("Equal", "Div") else ["x"]
    made = model([(operator, operands, ["y"])], inputs, outputs)
    case = Case("onnx", made.SerializeToString(), {"x": np.asarray(value)}, Target("tvm"))
    with Judge(Target("tvm")) as judge:
        verdict = judge.verdict(case)
    if not verdict.is_bug:
        pytest.skip("the installed release does not show the bug")
    named = signature(verdict, measure(made), case)
    assert [issue.id for issue in read_known(SHIPPED) if issue.holds_for(dict(named.components))] == [name]
