"""Known issues: every bug of the regression corpus has an entry, which tags it and nothing else there."""

from __future__ import annotations

import importlib.util
import re

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
from tests.triage.failing import ORT, division_crash, model, verdict
from triage.bugs.failures import record_failure, record_reduction
from triage.bugs.known import (
    NOT_FILED,
    SHIPPED,
    add_own,
    known_issue,
    known_of_cluster,
    load_known,
    read_known,
)
from triage.bugs.overview import KNOWN, UNREPORTED, overview_with_states
from triage.commands.triage import mark_cluster
from triage.console.options import StoreOptions
from triage.projects import project_of_package
from triage.store.database import Store, own_file
from triage.store.names import cluster_name

RELU = Signature.of(
    ("backend", "ort"),
    ("outcome", "exception"),
    ("site", "relu_clip_fusion.cc FuseReluClip::Apply"),
    ("message", "Unexpected data type for Clip '*' input of *"),
)
ADDRESS = re.compile(r"https://github\.com/[\w.-]+/[\w.-]+/issues/\d+")
OWN = """
[mine]
title = "My own"
package = "onnxruntime"
fixed = "1.32.0"
match = { outcome = "exception", site = "relu_clip_fusion.cc .*" }
"""


def test_every_bug_of_the_corpus_has_an_entry():
    assert {each.name for each in load_regressions()} <= {issue.id for issue in read_known(SHIPPED)}


def test_every_entry_says_where_it_is_filed_or_that_it_is_not():
    for issue in read_known(SHIPPED):
        assert issue.issue == NOT_FILED or ADDRESS.fullmatch(issue.issue), issue.id
        assert issue.is_filed == (issue.issue != NOT_FILED)


def test_an_address_is_of_the_project_whose_bug_it_is():
    for issue in read_known(SHIPPED):
        if issue.is_filed:
            assert issue.issue.startswith(project_of_package(issue.package).issues), issue.id


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


FACTS = {"minimal": True, "nodes_before": 2, "nodes_after": 1, "checks": 3, "passes": []}


def reduced(store: Store) -> int:
    """A cluster of one reduced failure, whose signature has characters that regular expressions read."""
    failure = record_failure(store, division_crash(), verdict("first"), release="1.31.1")
    named = Signature.of(*RELU.components[:-1], ("message", "a (b) [c] + *"))
    return record_reduction(store, failure, division_crash(), verdict("first"), named, FACTS).cluster


def test_a_users_entry_for_a_cluster_matches_it_and_names_its_thread(tmp_path):
    address = "https://github.com/microsoft/onnxruntime/issues/7"
    with Store(tmp_path / "crux.db") as store:
        cluster = reduced(store)
        add_own(store.path, known_of_cluster(store, cluster, address))
        (entry,) = read_known(own_file(store.path))
        (document,) = overview_with_states(store, load_known(store.path))
    assert (entry.package, entry.issue, entry.seen) == ("onnxruntime", address, ("1.31.1",))
    assert (document["known"], document["issue"], document["state"]) == (entry.id, address, KNOWN)
    with pytest.raises(UserError, match="has an entry"):
        add_own(tmp_path / "crux.db", entry)


def test_a_known_bug_that_nobody_has_filed_is_to_file(tmp_path):
    with Store(tmp_path / "crux.db") as store:
        add_own(store.path, known_of_cluster(store, reduced(store), NOT_FILED))
        (document,) = overview_with_states(store, load_known(store.path))
    assert (document["issue"], document["state"]) == (NOT_FILED, UNREPORTED)


def test_an_entry_needs_an_address_and_a_reduced_failure(tmp_path):
    with Store(tmp_path / "crux.db") as store:
        with pytest.raises(UserError, match="no address"):
            known_of_cluster(store, reduced(store), "somewhere")
        other = record_failure(store, division_crash(1), verdict("another"))
        with pytest.raises(UserError, match="nothing of it is reduced"):
            known_of_cluster(store, other.cluster, "https://a.b/1")


def test_a_cluster_is_marked_with_its_thread_from_the_command_line(tmp_path):
    options = StoreOptions(db=tmp_path / "crux.db", json=True)
    with Store(options.database) as store:
        name = cluster_name(reduced(store))
    mark_cluster(options, name, issue="https://github.com/microsoft/onnxruntime/issues/7")
    (entry,) = read_known(own_file(options.database))
    assert entry.issue.endswith("/7")
    with pytest.raises(UserError, match="give a state, or --issue"):
        mark_cluster(options, name)


def test_another_file_of_entries_comes_before_the_users_own(tmp_path):
    named = tmp_path / "shared.toml"
    named.write_text(OWN.replace("[mine]", "[shared]"))
    own_file(tmp_path / "crux.db").write_text(OWN)
    assert [each.id for each in load_known(tmp_path / "crux.db", named)][:2] == ["shared", "mine"]
