"""The page of all bugs, and their SARIF: made of what the database holds, without running anything."""

import json
import re
import shutil
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from onnx import TensorProto

from corpus.case import Case
from corpus.target import Target
from oracles.naming import Signature
from oracles.verdict import Config, Outcome, Phase, Run, Status, WrongResult
from reducer.api import reduce_case
from reducer.course import Options
from tests.helpers.commands import completed
from tests.helpers.counting import calls_of
from tests.helpers.failing import ORT, clip_exception, division_crash, healthy, model, verdict
from tests.helpers.pages import Page
from triage.bugs.failures import record_failure, record_reduction
from triage.bugs.known import SHIPPED, KnownIssue, read_known
from triage.clustering.grouping import mark
from triage.pages import bugs
from triage.pages.bugs import write_bug_page
from triage.pages.differences import NAME, describe_differences, draw_differences, write_page
from triage.pages.sarif import write_code_quality, write_sarif
from triage.store.artifacts import REDUCTION_KEPT, keep_artifact
from triage.store.database import Store
from triage.views.graph_layout import Box, Drawing, draw
from triage.views.listing import error_map, legend, release_line, release_text

HOSTILE = "Failed on '<script>alert(1)</script>' of shape {3,4}"
FACTS = {"nodes_before": 1, "nodes_after": 1, "checks": 9, "passes": [], "ops": ["Relu"], "minimal": True}


@pytest.fixture
def store(tmp_path):
    """Two bugs, one of them reduced, with the steps of its reduction."""
    with Store(tmp_path / "crux.db") as made:
        first = record_failure(made, clip_exception(), verdict(HOSTILE), release="1.31.1")
        record_failure(made, healthy(), verdict("another thing altogether went wrong"), release="1.30.0")
        named = Signature.of(("backend", "ort"), ("outcome", "exception"), ("message", "Failed on"))
        record_reduction(made, first, clip_exception(), verdict(HOSTILE), named, FACTS)
        steps = {"bytes_before": 200, "function_nodes_before": 0, "kept": [0], "curve": []}
        path = tmp_path / "reduction.json"
        path.write_text(json.dumps({**FACTS, **steps}))
        with made.transaction():
            keep_artifact(made, REDUCTION_KEPT, first.name, path)
        yield made


def test_the_page_is_whole_loads_nothing_and_what_a_model_says_cannot_leave_its_place(store, tmp_path):
    text = write_bug_page(store, tmp_path / "page", ()).read_text()
    found = Page(text)
    assert (found.loads, found.open) == ([], [])
    assert "url(" not in text
    assert "<script>alert" not in text
    assert "alert(1)" in text


def test_the_page_tells_of_every_bug_and_where_it_was_seen(store, tmp_path):
    text = write_bug_page(store, tmp_path / "page", ()).read_text()
    assert re.findall(r'<section class="bug" id="(\w+)"', text) == ["C0001", "C0002"]
    assert "<h1>2 bugs among 2 failures</h1>" in text
    assert "ort<br>1.30.0" in text
    assert "ort<br>1.31.1" in text
    assert '<td class="seen">1</td>' in text
    assert "reduced in 9 checks" in text


def test_the_page_of_one_bug_holds_no_other(store, tmp_path):
    text = write_bug_page(store, tmp_path / "page", (), only=("C0002",)).read_text()
    assert re.findall(r'<section class="bug" id="(\w+)"', text) == ["C0002"]


def test_rows_stand_by_what_is_to_be_done_with_one_action_each(store, tmp_path):
    mark(store, 2, "fixed", "1.32")
    text = write_bug_page(store, tmp_path / "page", ()).read_text()
    groups = re.findall(
        r'class="group"><th[^>]*><b>([\w ]+)</b>.*<code>(.*)</code>.*\n\n*<tr data-id="(\w+)"', text
    )
    assert groups == [
        ("To file", "crux report C0001 --db crux.db", "C0001"),
        ("Fixed", "nothing to file", "C0002"),
    ]


BROWSER = shutil.which("chromium-headless-shell") or shutil.which("chromium")


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
def test_in_a_browser_the_address_filters_and_marks(store, tmp_path):
    page = write_bug_page(store, tmp_path / "page", ()).resolve()
    address = f"{page.as_uri()}#q=c0002&marks=C0002,C0009&sort=-2"
    command = [str(BROWSER), "--no-sandbox", "--headless", "--dump-dom", address]
    shown = completed(command).stdout
    hidden = {name: "hidden" in rest for name, rest in re.findall(r'<tr data-id="(\w+)"([^>]*)>', shown)}
    assert hidden == {"C0001": True, "C0002": False}
    assert ">1 of 2<" in shown
    assert shown.count('aria-sort="descending"') == 1


def test_an_empty_database_has_a_page(tmp_path):
    with Store(tmp_path / "crux.db") as store:
        assert "No failure is in the database" in write_bug_page(store, tmp_path, ()).read_text()


def test_sarif_has_a_rule_a_bug_and_says_what_is_settled(store, tmp_path):
    mark(store, 2, "wontfix", "")
    path = tmp_path / "out" / "crux.sarif"
    write_sarif(store, path, read_known(SHIPPED), "1.0")
    (run,) = json.loads(path.read_text())["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert sorted(rules) == ["C0001", "C0002"]
    suppressed = {result["ruleId"] for result in run["results"] if result.get("suppressions")}
    assert suppressed == {"C0002"}
    assert all(result["ruleId"] in rules and result["message"]["text"] for result in run["results"])
    places = [result["locations"][0]["logicalLocations"][0] for result in run["results"]]
    assert {place["fullyQualifiedName"] for place in places} == {"seed:8", "seed:0"}


def test_the_place_of_a_result_is_a_valid_address_of_its_file(tmp_path):
    with Store(tmp_path / "crux.db") as store:
        record_failure(store, replace(healthy(0), origin="my models/a b%.onnx"), verdict("boom"))
        write_sarif(store, tmp_path / "crux.sarif", (), "1.0")
    (run,) = json.loads((tmp_path / "crux.sarif").read_text())["runs"]
    (place,) = run["results"][0]["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "my%20models/a%20b%25.onnx"
    assert place["physicalLocation"]["region"]["snippet"]["text"]


def test_code_quality_names_the_files_of_open_bugs(tmp_path):
    with Store(tmp_path / "crux.db") as store:
        record_failure(store, replace(healthy(0), origin="models/a.onnx"), verdict("boom"))
        record_failure(store, replace(healthy(1), origin="seed:3"), verdict("boom"))
        write_code_quality(store, tmp_path / "quality.json", ())
        (entry,) = json.loads((tmp_path / "quality.json").read_text())
        assert (entry["location"]["path"], entry["check_name"]) == ("models/a.onnx", "C0001")
        mark(store, 1, "wontfix", "")
        write_code_quality(store, tmp_path / "quality.json", ())
        assert json.loads((tmp_path / "quality.json").read_text()) == []


def test_a_known_issue_that_says_so_leaves_its_bugs_out(store, tmp_path):
    patterns = {"message": re.compile("Failed on.*")}
    issue = KnownIssue("mine", "t", "onnxruntime", {}, suppress=True, patterns=patterns)
    text = write_bug_page(store, tmp_path, (issue,)).read_text()
    assert re.findall(r'<section class="bug" id="(\w+)"', text) == ["C0002"]


def test_of_many_bugs_the_page_makes_what_comes_into_view(store, tmp_path, monkeypatch):
    monkeypatch.setattr(bugs, "MANY_BUGS", 1)
    text = write_bug_page(store, tmp_path / "page", ()).read_text()
    assert re.findall(r'<section class="bug" id="(\w+)"', text) == ["C0001", "C0002"]
    assert len(re.findall(r'<script type="text/plain" class="later">', text)) == 3  # the grid, and two bugs
    assert text.count("</script>") == 4  # none of what is kept ends early
    assert "<script>alert" not in text


def test_a_bisection_and_wrong_values_are_drawn(store, tmp_path):
    tried = [{"release": "1.19.2", "shows": "passes"}, {"release": "1.20.0", "shows": "wrong"}]
    told = {"first_bad": "1.20.0", "last_good": "1.19.2", "first_fixed": None, "tried": tried}
    store.log("bisected", "C0001", **told)
    values = [np.full(9, at) for at in range(2)]
    runs = [Run(Config("a"), Status.OK, Phase.EXECUTE, {"y": each}) for each in values]
    wrong = WrongResult("y", "optimised", "value", 1.0, first="y")
    record_failure(
        store, healthy(7), replace(verdict(outcome=Outcome.MISMATCH), runs=tuple(runs), wrong=wrong)
    )
    text = write_bug_page(store, tmp_path / "page", ()).read_text()
    assert 'aria-label="releases, the oldest first: 1.19.2 good, 1.20.0 bad"' in text
    assert text.count('width="1" height="1"') == 9


# What `reduction.html` shows, that it stands alone, and that its drawings are sound


@pytest.mark.parametrize("count", [40, 2000])
def test_the_page_of_a_reduction_is_whole_says_what_is_left_and_stays_small(tmp_path, count):
    case = division_crash(extra_nodes=count)
    reduce_case(case, tmp_path, Options(check="grep -q Div {}"))
    pages = []
    for _ in range(2):
        write_page(tmp_path, case)
        pages.append((tmp_path / NAME).read_text(encoding="utf-8"))
    found = Page(pages[0])
    assert (found.open, found.loads) == ([], [])
    assert not re.search(r"https?:|url\(|@import", pages[0])
    assert f"{count + 1:,} nodes reduced to 1: Div" in pages[0]
    assert pages[0].count('<g class="kept">') == 1
    assert len(pages[0]) < 150_000
    assert pages[0] == pages[1]


def test_a_graph_in_which_everything_reads_everything_is_drawn_in_so_many_calls():
    edges = [(source, target) for target in range(150) for source in range(target)]
    drawn: list[Drawing] = []
    calls = calls_of(lambda: drawn.append(draw([Box(60, 40)] * 150, edges)))
    assert len(drawn[0].routes) == len(edges)
    assert calls < 500_000  # 250,000 when it was written


# Pictures of wrong values and of releases, as a terminal shows them


def off(shape, **errors):
    """Zeros, and the same with errors at flat places."""
    actual = np.zeros(shape, np.float32)
    for place, error in errors.items():
        actual.reshape(-1)[int(place[1:])] = error
    return error_map(np.zeros(shape, np.float32), actual)


def test_a_sign_is_a_tenth_of_the_next_and_what_is_not_finite_has_its_own():
    rows = off((3, 4), _0=50, _1=5.1, _2=-0.06, _5=np.nan, _11=1e-30)
    assert rows == ["986.", ".X..", "...1"]
    assert legend(rows) == ". equal; 9 greatest, 8 a tenth of it; X not finite"


def test_a_bisection_is_a_line_of_releases():
    shows = {"1.19.2": "passes", "1.20.0": "wrong", "1.21.0": "crash", "1.22.0": "unsupported"}
    tried = [{"release": release, "shows": what} for release, what in shows.items()]
    line = release_line({"first_bad": "1.20.0", "tried": tried})
    assert release_text(line) == "o 1.19.2 -- x 1.20.0 -- ~ 1.21.0 -- ~ 1.22.0"
    assert release_line({}) == []


# Two cases side by side

FLOATS = (TensorProto.FLOAT, [1, 1, 4, 4])


def pooled(*, pads=(0, 0, 0, 0), relu=False, weight=0.5, names=("x", "y"), opset=17) -> Case:
    """MaxPool, a Mul with a weight and perhaps a Relu, under any names."""
    first, last = names
    nodes = [
        ("MaxPool", [first], ["p"], {"kernel_shape": [1, 1], "pads": list(pads)}),
        ("Mul", ["p", "w"], ["m"]),
    ]
    nodes += [("Relu", ["m"], [last])] if relu else [("Neg", ["m"], [last])]
    made = model(nodes, {first: FLOATS}, {last: FLOATS}, {"w": np.float32([weight])}, opset)
    return Case("onnx", made.SerializeToString(), {first: np.ones((1, 1, 4, 4), np.float32)}, ORT)


@pytest.mark.parametrize(("other", "same"), [(pooled(), True), (pooled(names=("in", "out")), False)])
def test_names_are_no_difference(other, same):
    found = describe_differences(pooled(), other)
    assert (found["same_case"], found["same_but_for_names"], found["words"]) == (same, True, [])


@pytest.mark.parametrize(
    ("other", "word"),
    [
        (pooled(pads=(0, 0, 1, 1)), "node 0 MaxPool: attribute pads: [0, 0, 0, 0] → [0, 0, 1, 1]"),
        (pooled(weight=0.25), "weight only in B: float32[1] = [0.25]"),
        (pooled(relu=True), "only in B: node 2 Relu: float32[1,1,4,4]"),
        (pooled(opset=18), "opset: ai.onnx 17 → ai.onnx 18"),
        (replace(pooled(), target=Target.parse("ort@opt=basic")), "target: ort → ort@opt=basic"),
        (replace(pooled(), inputs={"x": np.zeros((1, 1, 4, 4), np.float32)}), "input 0 (x): float32"),
    ],
)
def test_each_difference_is_said_in_words(other, word):
    found = describe_differences(pooled(), other)
    assert [each for each in found["words"] if each.startswith(word)]


def test_operators_are_counted_on_either_side():
    found = describe_differences(clip_exception(), division_crash())
    assert (found["only_a"], found["only_b"]) == ({"Relu": 1, "Clip": 1}, {"Div": 1})


def test_pictures_mark_what_the_other_lacks(tmp_path):
    paths = draw_differences(pooled(), pooled(relu=True), tmp_path / "pictures")
    texts = [(tmp_path / "pictures" / name).read_text() for name in ("a.svg", "b.svg")]
    assert paths == [str(tmp_path / "pictures" / name) for name in ("a.svg", "b.svg")]
    for text, marked in zip(texts, ("Neg", "Relu"), strict=True):
        ElementTree.fromstring(text)
        assert re.findall(r'class="kept">.*?<text[^>]*>(\w+)<', text) == [marked]
