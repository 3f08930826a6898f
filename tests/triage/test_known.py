"""Known issues, each of which tags its own bug; what a compiler declares as its limit; what to do next."""

import json
import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from corpus.case import Case
from corpus.errors import UserError
from corpus.load import load_regressions
from corpus.target import Target
from oracles.judge import Judge
from oracles.naming import Signature, signature
from oracles.verdict import Mark
from oracles.worker.limits import form_of
from reducer.pass_sets import find_pass_set
from tests.helpers.commands import crux
from tests.helpers.failing import ORT, division_crash, healthy, verdict
from tests.helpers.models import case_of
from triage.bugs.failures import SEVERAL, limits, record_failure, record_reduction
from triage.bugs.known import (
    NOT_FILED,
    SHIPPED,
    add_own,
    known_issue,
    known_of_cluster,
    load_known,
    read_known,
)
from triage.bugs.overview import KNOWN, counted, next_step, overview_with_states, state_of, totals_of
from triage.console.options import StoreOptions
from triage.projects import project_of_package
from triage.store.artifacts import LastReport
from triage.store.database import Store, own_file

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


def test_every_entry_says_where_its_project_has_it_or_that_it_is_not_filed():
    for issue in read_known(SHIPPED):
        if issue.is_filed:
            assert ADDRESS.fullmatch(issue.issue), issue.id
            assert issue.issue.startswith(project_of_package(issue.package).issues), issue.id
        else:
            assert issue.issue == NOT_FILED, issue.id


@pytest.mark.slow
@pytest.mark.parametrize("regression", list(load_regressions()), ids=lambda each: each.name)
def test_a_case_of_the_corpus_is_tagged_as_its_own_bug(regression):
    if regression.package in ("openvino", "iree-base-compiler", "jaxlib"):
        pytest.importorskip(regression.package.partition("-")[0])
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
    ("releases", "name"), [((), "mine"), (("1.31.1",), "mine"), (("1.32.0",), "relu-clip-not-float")]
)
def test_a_users_entry_comes_first_and_expires_with_the_release_that_fixed_it(tmp_path, releases, name):
    database = tmp_path / "crux.db"
    own_file(database).write_text(OWN)
    found = known_issue(load_known(database), [RELU], releases)
    assert found.id == name


@pytest.mark.parametrize(
    "text",
    [
        "[a",
        "[a]\ntitle = 'no match'",
        "[a]\ntitle = 'x'\npackage = 'tvm'\nmatch = { op = '(' }",
        "[a]\ntitle = 'x'\npackage = 'tvm'\nmatch = { op = 'x' }\nwhatever = 'x'",
    ],
)
def test_a_file_that_cannot_be_used_is_the_users_mistake(tmp_path, text):
    path = tmp_path / "known.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=r"known\.toml"):
        read_known(path)


on_tvm = partial(case_of, target=Target("tvm"))


# What a compiler declares not to do: a table, one request for all, and what its own documents claim


@pytest.mark.parametrize(
    ("words", "form"),
    [
        ("Dynamic pads are not supported yet.", "dynamic pads"),
        ("TopK k must be a constant", "dynamic k"),
        ("Node Size_v12 cannot handle ShapeExpr inputs.", "ShapeExpr inputs"),
        ("LRN only supports 3D or 4D input", "other than 3D or 4D input"),
        ("Check failed: boom", ""),
    ],
)
def test_a_refusal_names_its_form(words, form):
    assert form_of(words) == form


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
    text = "g (float[2] x, int64[2] p) => (float[n] y) { t = Neg (x) y = Pad (t, p) }"
    return on_tvm(text, opset=18, x=np.ones(2, np.float32), p=np.array([1, 1]))


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


# Every list of bugs counts them alike and says what to do next


def bug(name: str = "C0001", state: str = "new", report: str = "") -> dict[str, object]:
    return {"id": name, "state": state, "report": report, "outdated": False}


@pytest.mark.parametrize(
    ("status", "known", "reduced", "ready", "state"),
    [
        ("new", "", 0, False, "not reduced"),
        ("new", "", 1, True, "ready"),
        ("new", "an-issue", 1, True, "known"),
        ("regressed", "an-issue", 1, True, "regressed"),
        ("wontfix", "", 0, False, "wontfix"),
    ],
)
def test_what_a_person_decided_goes_before_what_is_known_and_that_before_what_is_done(
    status, known, reduced, ready, state
):
    document = {"status": status, "known": known, "issue": "https://a.b/1", "reduced": reduced}
    assert state_of(document, LastReport(ready=ready)) == state


def test_a_known_bug_that_nobody_has_filed_is_one_to_file():
    document = {"status": "new", "known": "an-issue", "issue": NOT_FILED, "reduced": 1}
    assert [state_of(document, LastReport(ready=ready)) for ready in (False, True)] == ["new", "ready"]


def test_a_count_names_what_there_is_in_the_order_in_which_to_look():
    states = ["known", *["not reduced"] * 6, *["ready"] * 5, "known", "fixed"]
    assert counted(states) == "14 bugs: 5 new and ready, 6 not reduced yet, 2 known, 1 fixed"
    assert counted(["new"]) == "1 bug: 1 new"
    assert counted([]) == "0 bugs"
    assert [(each.state, each.count) for each in totals_of(["known", "new"])] == [("new", 1), ("known", 1)]


@pytest.mark.parametrize(
    ("bugs", "step"),
    [
        ([], "crux hunt"),
        ([bug(state="not reduced"), bug()], "crux reduce --all"),
        ([bug(), bug("C0002")], "crux report C0001 C0002"),
        ([bug(state="regressed", report="r/C0001")], "crux hunt"),
        (
            [bug(state="ready", report="r/C0001")],
            "file r/C0001/issue.md, then: crux triage mark C0001 filed URL",
        ),
        ([bug(state="known")], "crux hunt"),
    ],
)
def test_the_next_step_is_the_first_thing_left_to_do(bugs, step):
    assert next_step(bugs, StoreOptions()) == step


def test_a_file_says_since_when(tmp_path):
    path = tmp_path / "known.toml"
    path.write_text(
        "[a]\ntitle = 't'\npackage = 'onnxruntime'\nsince = '1.20'\nfixed = '1.30'\nsuppress = true\n"
        "match = { op = 'x' }\n"
    )
    (issue,) = read_known(path)
    assert [issue.is_alive_on(each) for each in ("1.19.2", "1.20.0", "1.29.1", "1.30.0", "")] == [
        False, True, True, False, True,
    ]  # fmt: skip
    assert issue.suppress


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


def test_an_entry_needs_an_address_and_a_reduced_failure(tmp_path):
    with Store(tmp_path / "crux.db") as store:
        with pytest.raises(UserError, match="no address"):
            known_of_cluster(store, reduced(store), "somewhere")
        other = record_failure(store, division_crash(1), verdict("another"))
        with pytest.raises(UserError, match="nothing of it is reduced"):
            known_of_cluster(store, other.cluster, "https://a.b/1")
