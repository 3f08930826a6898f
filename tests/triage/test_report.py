import getpass
import hashlib
import json
import os
import socket
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from corpus.case import Case
from corpus.errors import UserError
from corpus.formats.onnx import parse
from oracles.judge import Judge
from oracles.numerics.compare import Tolerance, describe
from oracles.sandbox.sandbox import Sandbox
from oracles.verdict import Config, Frame, Outcome, Phase, Run, Status, Symptom, Verdict, WrongResult
from reducer.pass_sets import PassSet
from tests.helpers.commands import processes_with, waited_for
from tests.helpers.failing import ORT, clip_exception, division_crash, healthy, model, on_ort
from triage.bugs.failures import History
from triage.claims.claim import essence, expect
from triage.claims.titles import operators_of, passes_tried, title_of
from triage.projects import project_of
from triage.reports import sentences
from triage.reports.checklist import sizes
from triage.reports.draft import vary_empty_dims
from triage.reports.issue import referee_did, short_output
from triage.reports.report import write_report
from triage.repro.proving import SAYS, Proof, Proving
from triage.views.graph_picture import DrawnGraph
from triage.views.listing import describe_value, list_model, mermaid
from triage.views.rendering import as_cell, as_code, as_comment, as_fence, private_words_in, scrub

FILES = [
    "ORIGIN.md",
    "SHA256SUMS",
    "case.json",
    "env.json",
    "graph.svg",
    "inputs.npz",
    "issue.md",
    "model.onnx",
    "reduction.json",
    "repro.py",
    "short.py",
    "signature.json",
    "trace.txt",
]
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
    found = PassSet(("A", "B"), "all", 5, fired=("A", "B", "C"), cures=("A",))
    case = division_crash()
    found_on = {"case": case.case_id, "target": "ort", "release": "1.31.1"}
    history = History(reduction={"pass_set": {**found.to_json(), **found_on}})
    assert history.pass_set(case, ORT, "1.31.1") == found
    assert history.pass_set(case, ORT, "1.32.0") is None
    assert history.pass_set(case, ORT.with_setting("opt", "basic"), "1.31.1") is None
    assert history.pass_set(clip_exception(), ORT, "1.31.1") is None
    assert History().pass_set(case, ORT, "1.31.1") is None


def test_a_report_has_its_files_and_their_sums(crash_report):
    assert sorted(path.name for path in crash_report.folder.iterdir()) == FILES
    for line in (crash_report.folder / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((crash_report.folder / name).read_bytes()).hexdigest() == digest


def test_the_zip_holds_the_folder(crash_report):
    with zipfile.ZipFile(crash_report.archive) as archive:
        for name in FILES:
            assert archive.read(f"C0001/{name}") == (crash_report.folder / name).read_bytes()


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
    for heading in (
        *("Describe the issue", "To reproduce", "Urgency", "Platform", "OS Version"),
        *("ONNX Runtime Installation", "ONNX Runtime Version or Commit ID", "ONNX Runtime API"),
        *("Architecture", "Execution Provider", "Execution Provider Library Version"),
    ):
        assert f"### {heading}" in text
    assert text.startswith("# [Div] SIGFPE")
    assert "y: int64[4] = Div(a, b)" in text.replace("t0", "y")
    assert "[[" not in text.splitlines()[0]
    assert "- [x] no reduction step makes the model smaller (1-minimal)" in text
    assert "40 nodes and was reduced to 1 in 12 checks" in text
    assert all(f"| `{level}` |" in text for level in ("none", "basic", "extended", "all"))
    assert "oracles/sandbox/worker.py" not in text


@pytest.mark.parametrize(
    ("facts", "lines"),
    [
        (
            {"minimal": True, "minimal_in_full": True},
            [(True, "no reduction step makes the model smaller (1-minimal)")],
        ),
        (
            {"minimal": True, "minimal_in_full": False, "minimal_covers": "no single node can go"},
            [
                (True, "no single node of the model can go (1-minimal: no single node can go)"),
                (
                    False,
                    "every other reduction step was asked to its end, too (`crux reduce --thorough` does)",
                ),
            ],
        ),
        (
            {"minimal": False},
            [(False, "the model is as small as it can be (the search was ended after 12 checks)")],
        ),
        ({}, [(False, "the model is as small as it can be (it was not reduced)")]),
    ],
)
def test_a_search_that_was_cut_off_ticks_nothing_of_what_it_did_not_ask(facts, lines):
    history = History(reduction={"checks": 12, **facts} if facts else {})
    assert [(each.holds, each.text) for each in sizes(history, "model")] == lines


def test_the_signature_and_the_environment_are_data(crash_report):
    environment = json.loads((crash_report.folder / "env.json").read_text())
    assert environment["packages"]["onnxruntime"]
    named = json.loads((crash_report.folder / "signature.json").read_text())
    assert named["digest"] == crash_report.signature


def test_the_folder_of_a_report_is_a_case(crash_report, crash_judge):
    case = Case.load(crash_report.folder)
    assert case.target == crash_judge.target
    assert crash_judge.verdict(case).symptom is not None


def test_a_case_without_a_bug_is_not_reported(crash_judge, tmp_path):
    with pytest.raises(UserError, match="shows no bug"):
        write_report(healthy(), crash_judge, tmp_path / "it", History())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_no_report_is_not_replaced(crash_judge, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match=r"thesis\.tex: is not as a report left it"):
        write_report(division_crash(), crash_judge, tmp_path / "mine", History())


def test_a_target_without_scripts_is_the_users_mistake(tmp_path):
    with Judge(replace(ORT, backend="reference")) as judge, pytest.raises(UserError, match=r"repro\.py"):
        write_report(healthy(), judge, tmp_path / "it", History())


NONE, ALL = Config("none", (("level", "none"),)), Config("all", (("level", "all"),))


def mismatch() -> Verdict:
    fine = Run(NONE, Status.OK, Phase.EXECUTE, {"y": np.float32([1, 2, 3])})
    wrong = Run(ALL, Status.OK, Phase.EXECUTE, {"y": np.float32([1, 9, 3])})
    symptom = Symptom(Outcome.MISMATCH, Phase.COMPARE, "value", "optimised")
    return Verdict(Outcome.MISMATCH, Phase.COMPARE, "wrong value of y", symptom, (fine, wrong))


def test_wrong_values_are_shown_side_by_side():
    expectation = expect(mismatch(), Tolerance(), ORT_PROJECT)
    (row,) = sentences.value_rows(expectation, Tolerance())
    assert (row.output, row.index, row.passing, row.failing) == ("y", "[1]", "2.0", "9.0")
    assert title_of(expectation, ["Mul"]) == "[Mul] 9 instead of 2 at level all, not none"
    assert title_of(expectation, ["Mul"], ["A"]) == "[A] 9 instead of 2 for Mul"


def test_a_title_tells_a_tensor_from_a_sequence():
    told = expect(mismatch(), Tolerance(), ORT_PROJECT)
    assert told.passing is not None
    of_sequences = replace(told.passing, outputs={"y": [np.float32([1, 2, 3])]})
    assert title_of(replace(told, passing=of_sequences), ["Mul"]).startswith(
        "[Mul] a tensor instead of a sequence"
    )


def test_a_title_names_no_pass_without_which_the_failure_shows_all_the_same():
    searched = {"minimal": ["A"], "cures": []}
    assert passes_tried({"passes": ["A"], "pass_set": searched}) == ()
    assert passes_tried({"passes": ["A"], "pass_set": {**searched, "cures": ["A"]}}) == ("A",)


@pytest.mark.parametrize("words", ["a word " * 40, "x" * 300, "line\nafter\nline " * 20])
def test_a_title_is_one_line_of_at_most_80_characters(words):
    expectation = expect(exception("Fail", words), Tolerance(), ORT_PROJECT)
    for operators, passes in (
        (["Relu"], []),
        ([f"Operator{n}" for n in range(9)], []),
        (["Relu"], ["A", "B"]),
    ):
        title = title_of(expectation, operators, passes)
        assert len(title) <= 80
        assert "\n" not in title
        assert title.startswith("[")


def test_of_a_sequence_the_item_that_differs_is_shown():
    given = mismatch()
    fine, wrong = given.runs
    same = np.float32([1])
    items = (
        replace(fine, outputs={"y": [same, np.int64([1])]}),
        replace(wrong, outputs={"y": [same, np.int64([0])]}),
    )
    expectation = expect(replace(given, runs=items), Tolerance(), ORT_PROJECT)
    (row,) = sentences.value_rows(expectation, Tolerance())
    assert (row.output, row.passing, row.failing) == ("y#1", "1", "0")
    assert title_of(expectation, ["min"], ["A"]) == "[A] 0 instead of 1 for min"


def test_of_a_long_output_the_exception_is_kept():
    frames = [f'  File "a.py", line {line}, in f' for line in range(30)]
    told = ["none: 0", "Traceback (most recent call last):", *frames, "module.Wrong: it is", *["more"] * 30]
    shown = short_output("\n".join(told)).splitlines()
    assert shown[0] == "module.Wrong: it is"
    assert (len(shown), shown[-1]) == (13, "...")


def test_warnings_of_the_machine_are_left_out_of_what_a_script_printed():
    log = "W1122 23:06:51.595000 2 torch/onnx/registration.py:107] torchvision is not installed\n"
    warned = "repro.py:16: UserWarning: Exporting a model while it is in training mode.\n  export(module)\n"
    assert short_output(f"eager: 1.0\n{warned}{log}dynamo: 0.5\n") == "eager: 1.0\ndynamo: 0.5"


def test_a_wrapped_exception_is_named_by_its_cause():
    told = "backend='inductor' raised:\nGuardOnData: Could not extract"
    given = exception("BackendCompilerFailed", told)
    title = title_of(expect(given, Tolerance(), ORT_PROJECT), ["take"], ["A"])
    assert title == "[A] GuardOnData: Could not extract for take"


def test_a_title_names_the_attributes_that_a_single_operator_has_left():
    cast = on_ort("g (float[2] x) => (int64[2] y) { y = Cast <to = 7> (x) }")
    assert operators_of(cast) == ("Cast with to=int64",)
    assert operators_of(clip_exception()) == ("Relu", "Clip")


@pytest.mark.parametrize(
    ("node", "dims", "title"),
    [
        ('Min (x, "")', [2], "Min with input 1 left out"),
        ("Abs (x)", [0, 2], "Abs with input 0 empty"),
        ("Clip (x, , b)", [2], "Clip"),
    ],
)
def test_a_title_names_what_is_special_of_the_inputs_of_a_single_operator(node, dims, title):
    text = f"g (float[{','.join(map(str, dims))}] x, float b) => (float[2] y) {{ y = {node} }}"
    assert operators_of(on_ort(text, x=np.zeros(dims, np.float32), b=np.float32(0))) == (title,)


def exception(error: str, message: str, trace: str = "") -> Verdict:
    fine = Run(NONE, Status.OK, Phase.EXECUTE, {"y": np.float32([1])})
    failing = Run(ALL, Status.EXCEPTION, Phase.OPTIMISE, error=error, message=message, trace=trace)
    symptom = Symptom(Outcome.EXCEPTION, Phase.OPTIMISE, error)
    return Verdict(Outcome.EXCEPTION, Phase.OPTIMISE, message, symptom, (fine, failing))


def test_a_title_holds_no_code_of_llvm():
    quoted = "Invalid operand types for FCmp instruction\n  %9 = fcmp oeq i1 %5, %8, !dbg !37\n"
    message = f"LLVM module verification failed with the following errors: \n{quoted}"
    expectation = expect(exception("InternalError", message), Tolerance(), ORT_PROJECT)
    title = "[Equal] InternalError: Invalid operand types for FCmp instruction"
    assert title_of(expectation, ["Equal"]) == title
    assert "%9" not in essence(message)


def test_the_operator_that_the_trace_names_stands_first():
    given = exception("ValueError", "Dynamic pads are not supported yet.", "Error converting Op (Pad)\n")
    title = title_of(expect(given, Tolerance(), ORT_PROJECT), ["Slice", "Pad"])
    assert title == "[Pad] ValueError: Dynamic pads are not supported yet. with Slice"


@pytest.mark.parametrize(
    ("error", "message", "title"),
    [
        (
            "InputChanged",
            "tirx.Some changes the module that it is given",
            "[tirx.Some] changes the module that it is given",
        ),
        (
            "IllFormed",
            "the module is ill-formed after FuseOps: x is used before it is bound",
            "[FuseOps] the module is ill-formed after it: x is used before it is bound",
        ),
    ],
)
def test_what_a_check_between_passes_says_is_no_exception_of_the_compiler(error, message, title):
    given = exception(error, message)
    expectation = expect(given, Tolerance(), ORT_PROJECT)
    assert title_of(expectation, ["store"], ["A"]) == title
    assert sentences.happened(expectation, "tvm 1.0") == f"With tvm 1.0 {message}."
    assert "module" in sentences.expected(expectation, given, Tolerance())
    assert sentences.level_rows(given.runs, expectation, Tolerance()) == []


def test_a_dim_of_0_is_varied_too(judge):
    text = "g (float[0,3] x) => (float[1,1] y) { y = ReduceMax (x) }"
    case = on_ort(text, x=np.zeros((0, 3), np.float32))
    verdict = judge.verdict(case)
    (as_it_is, other) = vary_empty_dims(case, verdict, judge)
    assert (as_it_is.name, as_it_is.shows) == ("0", True)
    assert (other.name, other.shows) == ("2", not verdict.is_bug)
    assert vary_empty_dims(clip_exception(), verdict, judge) == ()


def test_what_ends_unlike_elsewhere_is_not_said_of_every_configuration():
    given = exception("Fail", "no kernel")
    failing = given.runs[1]
    expectation = replace(expect(given, Tolerance(), ORT_PROJECT), passing=None)
    other = replace(failing, phase=Phase.EXECUTE)
    assert "at every optimisation level" in sentences.happened(expectation, "ort", [failing, failing])
    assert "at optimisation level `all`" in sentences.happened(expectation, "ort", [failing, other])


def test_the_wrong_side_is_named():
    given = mismatch()
    wrong = replace(given, symptom=replace(given.symptom, site="un-optimised"))
    expectation = expect(wrong, Tolerance(), ORT_PROJECT)
    assert title_of(expectation, ["Mul"]) == "[Mul] 2 instead of 9 without optimisation"
    assert "the un-optimised result is wrong" in sentences.happened(expectation, "onnxruntime")
    told = sentences.expected(expectation, wrong, Tolerance())
    assert told.startswith("The same values as at optimisation level `all`")
    assert told.endswith("evaluator agrees.")
    rows = dict(sentences.level_rows(wrong.runs, expectation, Tolerance()))
    assert rows["all"] == "gives a result"
    assert rows["none"].startswith("**differs**: ")


def test_strings_are_quoted_so_that_an_empty_one_is_seen():
    found = describe("y", np.array(["a", "b"]), np.array(["a", ""]), np.array([False, True]))
    assert found.details == "1 of 2 elements differ, most at [1]: '' against 'b' expected"


def test_of_many_operators_a_title_names_the_first():
    operators = ["Pow", "ReduceMean", "Add", "Add", "Sqrt", "Div", "Mul"]
    title = title_of(expect(mismatch(), Tolerance(), ORT_PROJECT), operators)
    assert title.startswith("[Pow + ReduceMean + Add + Sqrt + …] 9 instead of 2")


def test_a_result_against_its_declaration_says_what_it_is_and_what_it_should_be():
    given = mismatch()
    contradicted = replace(
        given,
        title="wrong shape of 'y': ReduceSum gives [0] where its inputs fix [1] (none)",
        symptom=replace(given.symptom, kind="shape", site="Reduction", side="un-optimised"),
        runs=given.runs[:1],
        wrong=WrongResult(
            "y", "un-optimised", "shape", contradiction="ReduceSum gives [0] where its inputs fix [1]"
        ),
    )
    expectation = expect(contradicted, Tolerance(), ORT_PROJECT)
    assert title_of(expectation, ["ReduceSum"]) == "[ReduceSum] gives [0] where its inputs fix [1]"
    assert "ReduceSum gives [0] where its inputs fix [1]." in sentences.happened(expectation, "onnxruntime")
    assert sentences.expected(expectation, contradicted, Tolerance()).startswith("The shape that")


def test_the_reference_is_only_named_when_it_was_asked():
    assert "reference evaluator agrees" in sentences.expected(
        expect(mismatch(), Tolerance(), ORT_PROJECT), mismatch(), Tolerance()
    )
    presumed = replace(mismatch(), wrong=WrongResult("y", "optimised", "value"))
    assert "reference" not in sentences.expected(
        expect(presumed, Tolerance(), ORT_PROJECT), presumed, Tolerance()
    )


def test_what_our_worker_found_itself_is_told_in_its_words_alone():
    words = "tirx.AnnotateEntryFunc changes the module that it is given"
    trace = (
        "Traceback (most recent call last):\n"
        '  File "~/oracles/worker/tvm/tir/run.py", line 53, in checked_passes\n'
        '    raise InputChanged(f"{name} changes the module that it is given")\n'
        f"oracles.worker.tvm.tir.run.InputChanged: {words}\n"
    )
    assert sentences.without_worker(trace) == f"{words}\n"


def test_native_frames_stand_in_the_trace():
    frames = (Frame("lib.so", 0x1234, "Kernel::Compute"), Frame("lib.so", 0x99))
    crashed = Run(
        ALL, Status.CRASH, Phase.EXECUTE, signal=11, frames=frames, trace="Fatal Python error: x\n\n"
    )
    verdict = Verdict(
        Outcome.CRASH, Phase.EXECUTE, "crash", None, (Run(NONE, Status.OK, Phase.EXECUTE), crashed)
    )
    text = sentences.trace_text(expect(verdict, Tolerance(), ORT_PROJECT), [])
    assert "#0  lib.so+0x1234 Kernel::Compute" in text
    assert "Fatal Python error" not in text
    assert "SIGSEGV" in text


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
    assert as_fence("```\n# heading\n```") == "````\n```\n# heading\n```\n````"
    assert as_code("a`b``c") == "```a`b``c```"
    assert as_cell("a|b\n<script>`") == "a\\|b &lt;script>'"
    assert as_comment("a\nimport os\r\x0b\u2028b") == "a import os   b"


@pytest.mark.parametrize(
    ("outputs", "said"), [({}, ""), ({"A": np.zeros(1)}, " It gives `A = float64[1] = [0.0]`.")]
)
def test_the_results_of_a_reference_are_told_where_there_are_any(outputs, said):
    reference = Run(Config("interpreter"), Status.OK, Phase.EXECUTE, outputs=outputs)
    assert referee_did(reference, "it") == said


def test_a_picture_quotes_its_labels():
    made = model([("Relu", ['x"];click'], ["y"])], {'x"];click': (1, [2])}, {"y": (1, [2])})
    assert "x#quot;];click" in mermaid(DrawnGraph(made.graph, {}))
    assert "i0 --> n0" in mermaid(DrawnGraph(made.graph, {}))


def test_a_listing_has_the_types_that_were_not_declared():
    made = model([("Relu", ["x"], ["t"]), ("Neg", ["t"], ["y"])], {"x": (1, [2])}, {"y": (1, [2])})
    assert "t: float32[2] = Relu(x)" in list_model(made)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float32([[0.1, 2]]), "float32[1,2] = [[0.1, 2.0]]"),
        (np.array(["a"]), "string[1] = ['a']"),
        (np.zeros(100, np.int8), "int8[100] = all 0"),
        (np.zeros((0, 3)), "float64[0,3] = []"),
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


def test_what_the_judge_has_just_shown_is_not_judged_again(crash_judge, tmp_path):
    case, heard = division_crash(), []
    told = crash_judge.verdict(case)
    folders = [tmp_path / name / "it" for name in ("asked", "told")]
    write_report(case, crash_judge, folders[0], REDUCED, said=heard.append)
    assert "judging it again" in heard
    heard.clear()
    write_report(case, crash_judge, folders[1], REDUCED, said=heard.append, told=told)
    assert "judging it again" not in heard
    assert (folders[0] / "SHA256SUMS").read_text() == (folders[1] / "SHA256SUMS").read_text()


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


def test_results_that_change_from_run_to_run_are_said_to_do_so():
    runs = [Run(NONE, Status.OK, Phase.EXECUTE, {"y": np.float32([number])}) for number in (1, 2)]
    symptom = Symptom(Outcome.MISMATCH, Phase.COMPARE, "nondeterministic", "un-optimised")
    expectation = expect(
        Verdict(Outcome.MISMATCH, Phase.COMPARE, "t", symptom, tuple(runs)), Tolerance(), ORT_PROJECT
    )
    assert list(expectation.configs) == ["none", "none, again"]
    assert title_of(expectation, ["Add"]) == "[Add] results that change from run to run"
    assert sentences.value_rows(expectation, Tolerance()) == []


def test_a_script_that_fails_by_itself_shows_no_bug():
    assert prove("raise KeyError('a slip')").shown == 0
