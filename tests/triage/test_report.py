import getpass
import hashlib
import json
import os
import socket
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpus.case import Case
from corpus.errors import UserError
from corpus.formats.onnx import parse
from oracles.numerics.compare import Tolerance
from oracles.sandbox.sandbox import Sandbox
from oracles.verdict import Config, Outcome, Phase, Run, Status, Symptom, Verdict, WrongResult
from reducer.pass_sets import PassSet
from tests.helpers.commands import processes_with, waited_for
from tests.helpers.failing import ORT, clip_exception, division_crash, healthy, model, on_ort
from tests.helpers.models import contents
from triage.bugs.failures import History
from triage.claim import expect
from triage.projects import project_of
from triage.reports import sentences
from triage.reports.checklist import sizes
from triage.reports.draft import vary_empty_dims
from triage.reports.report import write_report
from triage.repro.proving import SAYS, Proof, Proving
from triage.titles import operators_of, passes_tried, title_of
from triage.views.graph_picture import DrawnGraph
from triage.views.listing import describe_value, mermaid
from triage.views.rendering import as_cell, as_comment, private_words_in, scrub

REDUCED = History(
    reduction={"nodes_before": 40, "nodes_after": 1, "checks": 12, "minimal": True}, cluster="C0001"
)

ORT_PROJECT = project_of("ort")


def with_remarks(case: Case) -> Case:
    """The case as an exporter would leave it: paths, names and times in all free text."""
    made = parse(case.program)
    remark = f"{Path.home()}/secret.py, {getpass.getuser()}@{socket.gethostname()}"
    made.doc_string = made.graph.doc_string = made.graph.node[0].doc_string = remark
    made.producer_name = "an exporter"
    made.graph.node[0].metadata_props.add(key="stack", value=remark)
    return replace(case, program=made.SerializeToString(), origin=remark)


@pytest.fixture(scope="module")
def crash_report(crash_judge, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports") / "C0001"
    return write_report(with_remarks(division_crash()), crash_judge, folder, REDUCED)


def test_a_report_is_ready_when_its_script_showed_the_bug_every_time(crash_report):
    assert crash_report.ready
    assert crash_report.checks[0].text == "`repro.py` and `short.py` showed the bug in 4 of 4 fresh processes"


def test_the_pass_set_of_a_reduction_is_reused_for_its_own_case_target_and_release():
    found, case = PassSet(("A", "B"), "all", 5, fired=("A", "B", "C"), cures=("A",)), division_crash()
    found_on = {"case": case.case_id, "target": "ort", "release": "1.31.1"}
    history = History(reduction={"pass_set": {**found.to_json(), **found_on}})
    assert history.pass_set(case, ORT, "1.31.1") == found
    for other in (
        (case, ORT, "1.32.0"),
        (case, ORT.with_setting("opt", "basic"), "1.31.1"),
        (healthy(), ORT, "1.31.1"),
    ):
        assert history.pass_set(*other) is None


def test_a_report_has_its_files_and_their_sums(crash_report):
    files = contents(crash_report.folder)
    assert {"issue.md", "repro.py", "short.py", "model.onnx", "inputs.npz", "env.json"} <= files.keys()
    sums = [line.split("  ") for line in files.pop("SHA256SUMS").decode().splitlines()]
    assert {name: hashlib.sha256(content).hexdigest() for name, content in files.items()} == {
        name: digest for digest, name in sums
    }


def test_the_zip_holds_the_folder(crash_report):
    with zipfile.ZipFile(crash_report.archive) as archive:
        for name, content in contents(crash_report.folder).items():
            assert archive.read(f"C0001/{name}") == content


def test_the_same_report_again_is_the_same_bytes(crash_report, crash_judge, tmp_path):
    again = write_report(with_remarks(division_crash()), crash_judge, tmp_path / "C0001", REDUCED)
    assert again.archive.read_bytes() == crash_report.archive.read_bytes()


def test_no_file_names_a_person_or_a_machine(crash_report):
    host = socket.gethostname()
    secrets = [str(Path.home()), "secret.py", "an exporter", *([host] if len(host) >= 4 else [])]
    for path in crash_report.folder.iterdir():
        content = path.read_bytes()
        assert private_words_in(content) == []
        assert [word for word in secrets if word.encode() in content] == []


def test_the_issue_says_what_a_maintainer_asks_for(crash_report):
    text = (crash_report.folder / "issue.md").read_text()
    for heading in ("To reproduce", "OS Version", "ONNX Runtime Version or Commit ID", "Execution Provider"):
        assert f"### {heading}" in text
    assert text.startswith("# [Div] SIGFPE")
    assert "y: int64[4] = Div(a, b)" in text.replace("t0", "y")
    assert "[[" not in text.splitlines()[0]
    assert "- [x] no reduction step makes the model smaller (1-minimal)" in text
    assert "40 nodes and was reduced to 1 in 12 checks" in text
    assert all(f"| `{level}` |" in text for level in ("none", "basic", "extended", "all"))
    assert "oracles/sandbox/worker.py" not in text


@pytest.mark.parametrize(
    ("facts", "ticks"),
    [
        ({"minimal": True, "minimal_in_full": True}, [True]),
        ({"minimal": True, "minimal_in_full": False, "minimal_covers": "nodes"}, [True, False]),
        ({"minimal": False}, [False]),
        ({}, [False]),
    ],
    ids=["in full", "nodes alone", "cut off", "not reduced"],
)
def test_a_search_that_was_cut_off_ticks_nothing_of_what_it_did_not_ask(facts, ticks):
    history = History(reduction={"checks": 12, **facts} if facts else {})
    assert [each.holds for each in sizes(history, "model")] == ticks


def test_the_signature_and_the_environment_are_data(crash_report):
    environment = json.loads((crash_report.folder / "env.json").read_text())
    assert environment["packages"]["onnxruntime"]
    named = json.loads((crash_report.folder / "signature.json").read_text())
    assert named["digest"] == crash_report.signature
    assert "#0 " in (crash_report.folder / "trace.txt").read_text()


def test_the_folder_of_a_report_is_a_case(crash_report, crash_judge):
    case = Case.load(crash_report.folder)
    assert case.target == crash_judge.target
    assert crash_judge.verdict(case).symptom is not None


def test_a_case_without_a_bug_is_not_reported(crash_judge, tmp_path):
    with pytest.raises(UserError, match="shows no bug"):
        write_report(healthy(), crash_judge, tmp_path / "it", History())
    assert list(tmp_path.iterdir()) == []


NONE, ALL = Config("none", (("level", "none"),)), Config("all", (("level", "all"),))
THREE, OTHER = np.float32([1, 2, 3]), np.float32([1, 9, 3])


def mismatch(fine: Any = THREE, wrong: Any = OTHER, **symptom: str) -> Verdict:
    runs = tuple(
        Run(config, Status.OK, Phase.EXECUTE, {"y": value}) for config, value in ((NONE, fine), (ALL, wrong))
    )
    facts = {"kind": "value", "site": "optimised", **symptom}
    return Verdict(
        Outcome.MISMATCH,
        Phase.COMPARE,
        "wrong value of y",
        Symptom(Outcome.MISMATCH, Phase.COMPARE, **facts),
        runs,
    )


def exception(error: str, message: str, trace: str = "") -> Verdict:
    fine = Run(NONE, Status.OK, Phase.EXECUTE, {"y": np.float32([1])})
    failing = Run(ALL, Status.EXCEPTION, Phase.OPTIMISE, error=error, message=message, trace=trace)
    symptom = Symptom(Outcome.EXCEPTION, Phase.OPTIMISE, error)
    return Verdict(Outcome.EXCEPTION, Phase.OPTIMISE, message, symptom, (fine, failing))


def contradiction(told: str) -> Verdict:
    wrong = WrongResult("y", "un-optimised", "shape", contradiction=told)
    return replace(mismatch(kind="shape", site="Reduction", side="un-optimised"), wrong=wrong)


def chance() -> Verdict:
    given = mismatch(kind="nondeterministic", site="un-optimised")
    return replace(given, runs=tuple(replace(each, config=NONE) for each in given.runs))


QUOTED = "Invalid operand types for FCmp instruction\n  %9 = fcmp oeq i1 %5, %8, !dbg !37\n"


LLVM = f"LLVM module verification failed with the following errors: \n{QUOTED}"
WRAPPED = exception("BackendCompilerFailed", "backend='inductor' raised:\nGuardOnData: Could not extract")
REFUSED = exception("ValueError", "Dynamic pads are not supported yet.", "Error converting Op (Pad)\n")
CHANGED = exception("InputChanged", "tirx.Some changes the module that it is given")
ILL_FORMED = exception("IllFormed", "the module is ill-formed after FuseOps: x is used before it is bound")
LATER = mismatch([THREE, np.int64([1])], [THREE, np.int64([0])])


@pytest.mark.parametrize(
    ("given", "operators", "passes", "title"),
    [
        (mismatch(), "Mul", "", "[Mul] 9 instead of 2 at level all, not none"),
        (mismatch(), "Mul", "A", "[A] 9 instead of 2 for Mul"),
        (mismatch(), "Pow Exp Add Add Sqrt Div", "", "[Pow + Exp + Add + Sqrt + …] 9 instead of 2"),
        (mismatch(site="un-optimised"), "Mul", "", "[Mul] 2 instead of 9 without optimisation"),
        (mismatch([THREE]), "Mul", "", "[Mul] a tensor instead of a sequence"),
        (LATER, "min", "A", "[A] 0 instead of 1 for min"),
        (chance(), "Add", "", "[Add] results that change from run to run"),
        (contradiction("Sum gives [0] for [1]"), "Sum", "", "[Sum] gives [0] for [1]"),
        (WRAPPED, "take", "A", "[A] GuardOnData: Could not extract for take"),
        (REFUSED, "Slice Pad", "", "[Pad] ValueError: Dynamic pads are not supported yet. with Slice"),
        (
            exception("InternalError", LLVM),
            "Equal",
            "",
            "[Equal] InternalError: Invalid operand types for FCmp",
        ),
        (CHANGED, "store", "A", "[tirx.Some] changes the module that it is given"),
        (ILL_FORMED, "store", "A", "[FuseOps] the module is ill-formed after it: x is used before"),
    ],
)
def test_a_title_names_what_is_wrong_and_where(given, operators, passes, title):
    found = title_of(expect(given, Tolerance(), ORT_PROJECT), operators.split(), passes.split())
    assert found.startswith(title)
    assert "%9" not in found


@pytest.mark.parametrize("words", ["a word " * 40, "x" * 300, "line\nafter\nline " * 20])
def test_a_title_is_one_line_of_at_most_80_characters(words):
    expectation = expect(exception("Fail", words), Tolerance(), ORT_PROJECT)
    for operators, passes in ((["Relu"], []), ([f"Operator{n}" for n in range(9)], ["A", "B"])):
        title = title_of(expectation, operators, passes)
        assert len(title) <= 80
        assert "\n" not in title
        assert title.startswith("[")


def test_a_title_names_no_pass_without_which_the_failure_shows_all_the_same():
    searched = {"minimal": ["A"], "cures": []}
    assert passes_tried({"passes": ["A"], "pass_set": searched}) == ()
    assert passes_tried({"passes": ["A"], "pass_set": {**searched, "cures": ["A"]}}) == ("A",)


@pytest.mark.parametrize(
    ("node", "dims", "title"),
    [
        ("Cast <to = 7> (x)", [2], "Cast with to=int64"),
        ('Min (x, "")', [2], "Min with input 1 left out"),
        ("Abs (x)", [0, 2], "Abs with input 0 empty"),
        ("Clip (x, , b)", [2], "Clip"),
    ],
)
def test_a_title_names_what_is_special_of_a_single_operator(node, dims, title):
    text = f"g (float[{','.join(map(str, dims))}] x, float b) => (float[2] y) {{ y = {node} }}"
    assert operators_of(on_ort(text, x=np.zeros(dims, np.float32), b=np.float32(0))) == (title,)


def test_wrong_values_are_shown_side_by_side():
    (row,) = sentences.value_rows(expect(mismatch(), Tolerance(), ORT_PROJECT), Tolerance())
    assert (row.output, row.index, row.passing, row.failing) == ("y", "[1]", "2.0", "9.0")
    (row,) = sentences.value_rows(expect(LATER, Tolerance(), ORT_PROJECT), Tolerance())
    assert (row.output, row.passing, row.failing) == ("y#1", "1", "0")


def test_a_dim_of_0_is_varied_too(judge):
    case = on_ort("g (float[0,3] x) => (float[1,1] y) { y = ReduceMax (x) }", x=np.zeros((0, 3), np.float32))
    as_it_is, other = vary_empty_dims(case, judge.verdict(case), judge)
    assert (as_it_is.name, as_it_is.shows, other.name) == ("0", True, "2")


def test_what_ends_unlike_elsewhere_is_not_said_of_every_configuration():
    given = exception("Fail", "no kernel")
    failing = given.runs[1]
    expectation = replace(expect(given, Tolerance(), ORT_PROJECT), passing=None)
    other = replace(failing, phase=Phase.EXECUTE)
    assert "at every optimisation level" in sentences.happened(expectation, "ort", [failing, failing])
    assert "at optimisation level `all`" in sentences.happened(expectation, "ort", [failing, other])


def test_the_wrong_side_is_named():
    wrong = mismatch(site="un-optimised")
    expectation = expect(wrong, Tolerance(), ORT_PROJECT)
    assert "the un-optimised result is wrong" in sentences.happened(expectation, "onnxruntime")
    told = sentences.expected(expectation, wrong, Tolerance())
    assert told.startswith("The same values as at optimisation level `all`")
    rows = dict(sentences.level_rows(wrong.runs, expectation, Tolerance()))
    assert rows["all"] == "gives a result"
    assert rows["none"].startswith("**differs**: ")


def test_a_result_against_its_declaration_says_what_it_is_and_what_it_should_be():
    told = "ReduceSum gives [0] where its inputs fix [1]"
    given = contradiction(told)
    expectation = expect(given, Tolerance(), ORT_PROJECT)
    assert f"{told}." in sentences.happened(expectation, "onnxruntime")
    assert sentences.expected(expectation, given, Tolerance()).startswith("The shape that")


def test_the_reference_is_only_named_when_it_was_asked():
    presumed = replace(mismatch(), wrong=WrongResult("y", "optimised", "value"))
    for given, is_named in ((mismatch(), True), (presumed, False)):
        expectation = expect(given, Tolerance(), ORT_PROJECT)
        told = sentences.expected(expectation, given, Tolerance())
        assert ("reference evaluator agrees" in told) == is_named


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (f"{Path.home()}/models/a.onnx", "~/models/a.onnx"),
        ("/home/somebody/x.py", "~/x.py"),
        ("at 0x7f00deadbeef now", "at 0x… now"),
        ("2026-11-20 21:16:06.123 [E:onnxruntime]", "<time> [E:onnxruntime]"),
        ("node 17 of root", "node 17 of root"),
        ('File "/opt/lib/python3.11/site-packages/tvm/ir.py"', 'File "tvm/ir.py"'),
        ("[01:29:13] /src/block_builder.cc:67: Warning", "/src/block_builder.cc:67: Warning"),
    ],
)
def test_what_is_private_or_changes_each_time_is_taken_out(text, kept):
    assert scrub(text) == kept


def test_foreign_text_cannot_leave_its_place():
    assert as_cell("a|b\n<script>`") == "a\\|b &lt;script>'"
    assert as_comment("a\nimport os\r\x0b\u2028b") == "a import os   b"


def test_a_picture_quotes_its_labels():
    made = model([("Relu", ['x"];click'], ["y"])], {'x"];click': (1, [2])}, {"y": (1, [2])})
    assert "x#quot;];click" in mermaid(DrawnGraph(made.graph, {}))
    assert "i0 --> n0" in mermaid(DrawnGraph(made.graph, {}))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float32([[0.1, 2]]), "float32[1,2] = [[0.1, 2.0]]"),
        (np.zeros(100, np.int8), "int8[100] = all 0"),
        (np.array(3), "int64[] = 3"),
        ([np.float32([1])], "sequence of 1: float32[1] = [1.0]"),
        (None, "absent"),
    ],
)
def test_values_are_described_in_a_line(value, text):
    assert describe_value(value) == text


def test_an_exception_that_only_optimisation_raises_names_the_level_that_works(crash_judge, tmp_path):
    if not crash_judge.verdict(clip_exception()).is_bug:
        pytest.skip("the installed onnxruntime does not show the bug")
    report = write_report(clip_exception(), crash_judge, tmp_path / "it", History(), as_test=True)
    text = (report.folder / "issue.md").read_text()
    assert report.test == tmp_path / "it" / "test_relu_clip_exception.py"
    assert "class TestReluClipException(unittest.TestCase):" in report.test.read_text()
    assert "at optimisation level `none` the same model runs" in text
    assert "- [ ] the model is as small as it can be (it was not reduced)" in text


def test_a_wrong_result_is_shown_where_it_begins(crash_judge, tmp_path):
    nodes = "d = Div (one, x) m = Mul (d, x) y = Neg (m)"
    text = f"g (int32[2] x) => (int32[2] y) <int32 one = {{1}}> {{ {nodes} }}"
    case = on_ort(text, x=np.int32([2, 3]))
    if not crash_judge.verdict(case).is_bug:
        pytest.skip("the installed onnxruntime does not show the bug")
    text = (write_report(case, crash_judge, tmp_path / "report", History()).folder / "issue.md").read_text()
    assert "The first tensor that differs, in the order of the graph, is `m`, made by `Mul`." in text


def prove(script: str, seconds: float = 5.0, hidden: tuple[str, ...] = ()) -> Proof:
    with Proving(script, {}, "", seconds, 1 << 30, hidden=hidden) as proving:
        return proving.proof()


def test_a_script_does_without_the_packages_that_are_hidden_from_it():
    script = f"try:\n    import json\nexcept ImportError:\n    raise SystemExit('{SAYS}')\n"
    assert not prove(script).holds
    assert prove(script, hidden=("json",)).holds


def test_a_script_is_proven_without_the_right_to_write_elsewhere(tmp_path):
    target = tmp_path / "written"
    script = f"import sys\ntry:\n    open({str(target)!r}, 'w')\nexcept OSError:\n    sys.exit('{SAYS}')\n"
    proof = prove(script)
    facts = Sandbox("ort")
    with facts:
        confined = not facts.facts["containment"]["root"]
    assert proof.holds == confined
    assert target.exists() != confined


def test_a_script_that_does_not_end_is_ended_with_all_its_children(tmp_path, monkeypatch):
    monkeypatch.setattr("triage.repro.proving.GRACE_SECONDS", 0.5)
    marker = f"987.{os.getpid()}"
    script = f"import subprocess\nsubprocess.run(['sleep', '{marker}'])"
    proof = prove(script, seconds=0.1)
    assert (proof.shown, proof.holds) == (0, False)
    assert waited_for(lambda: not processes_with(marker))


def test_a_script_that_fails_by_itself_shows_no_bug():
    assert prove("raise KeyError('a slip')").shown == 0
