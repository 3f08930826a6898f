"""A backend of another distribution, as `docs/own-backend.md` builds it, works like those of crux."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from corpus.case import Case
from corpus.errors import UserError
from corpus.formats import find_format
from corpus.load import open_case
from corpus.target import Target
from generators.mixture import Plan, make_cases
from oracles.judge import Judge
from oracles.verdict import Outcome
from reducer.api import reduce_case
from reducer.course import Options
from tests.helpers.commands import completed
from tests.triage.toy_language import installed
from triage.bugs.failures import History
from triage.language import list_case
from triage.reports.report import write_report

PAGE = (Path(__file__).parents[2] / "docs/own-backend.md").read_text()
CRUX = "import sys; sys.path.append(sys.argv.pop(1)); from triage.cli import run; sys.exit(run(sys.argv[1:]))"


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return found[1]


@pytest.fixture
def site(tmp_path):
    """A folder with the guide's package, installed."""
    facts = tmp_path / "site" / "tinyc-0.1.dist-info"
    facts.mkdir(parents=True)
    name, value = re.findall(r"^(\w+) = \"(\w+)\"$", block("toml"), re.MULTILINE)[-1]
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: tinyc\nVersion: 0.1\n")
    (facts / "entry_points.txt").write_text(f"[tensorcrux.backends]\n{name} = {value}\n")
    (facts.parent / "tinyc.py").write_text(block("python"))
    return facts.parent


def crux(site: Path, *words: str) -> tuple[int, str, str]:
    done = completed([sys.executable, "-c", CRUX, site, *words])
    return done.returncode, done.stdout, done.stderr


def test_the_guides_backend_keeps_the_contract_and_its_bug_shows(site, tmp_path):
    code, text, _ = crux(site, "doctor", "--backend", "tinyc", "--json")
    found = {each["part"]: each for each in json.loads(text)}
    assert code == 0
    assert {name for name, each in found.items() if each["core"]} >= {"load", "runs a model", "outputs"}
    assert not found["project"]["works"]
    x, z = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4]) for name in "xz")
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["z"])], "g", [x], [z])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "m.onnx")
    code, text, _ = crux(site, "check", str(tmp_path / "m.onnx"), "--target", "tinyc", "--json")
    assert (code, json.loads(text)["outcome"]) == (1, "mismatch")


@pytest.mark.parametrize(
    ("right", "wrong", "part"),
    [
        ("raise NotImplementedError(node.op_type)", "continue", "unknown operator"),
        ('return "unsupported" if', 'return "" if', "unknown operator"),
        ("in outputs or [", "in [", "outputs"),
        ('    return "0.1"', "    return 0.1", "load"),
    ],
)
def test_doctor_names_the_clause_that_a_backend_breaks(site, right, wrong, part):
    path = site / "tinyc.py"
    assert right in path.read_text()
    path.write_text(path.read_text().replace(right, wrong))
    code, text, _ = crux(site, "doctor", "--backend", "tinyc", "--json")
    broken = [each["part"] for each in json.loads(text) if each["core"] and not each["works"]]
    assert (code, part in broken) == (1, True)


def test_a_broken_entry_point_is_named(site):
    (site / "tinyc.py").write_text("import nothing_of_that_name")
    code, _, error = crux(site, "doctor", "--backend", "tinyc")
    assert (code, error.count("\n")) == (2, 1)
    assert "crux: tinyc: its entry point tinyc fails" in error


# A language is what its folders say: a toy one goes from generation to a report by these alone

TOY = Target("toy")


@pytest.fixture(autouse=True, scope="module")
def toy() -> Iterator[None]:
    with installed():
        yield


def test_a_generated_program_is_judged_reduced_and_reported(tmp_path):
    cases = list(make_cases(Plan(strategy="toy", nodes=8), range(48)))
    with Judge(TOY) as judge:
        verdicts = [judge.verdict(case) for case in cases]
        assert {verdict.outcome for verdict in verdicts} == {Outcome.PASS, Outcome.MISMATCH}
        failing = next(case for case, each in zip(cases, verdicts, strict=True) if each.is_bug)
        least = reduce_case(failing, tmp_path / "least", Options(target=TOY))
        assert least.case.parsed.ops == ("neg", "abs")
        assert least.is_minimal
        assert ("ops", "neg abs") in least.signature.components
        report = write_report(least.case, judge, tmp_path / "report", History())
    assert report.ready, report.checks
    issue = (tmp_path / "report" / "issue.md").read_text()
    assert list_case(least.case).strip() in issue
    assert issue.startswith("# [neg + abs] -")


def test_a_case_of_it_is_saved_and_opened_as_any_other(tmp_path):
    (case,) = make_cases(Plan(strategy="toy", nodes=3), range(1))
    case.save(tmp_path / "case")
    assert Case.load(tmp_path / "case").case_id == case.case_id
    assert open_case(tmp_path / "case" / find_format("toy").program_file).format == "toy"


def test_a_compiler_that_does_not_run_it_is_a_users_mistake():
    with pytest.raises(UserError, match="target ort: runs no toy programs; choose another, such as toy"):
        Judge(Target("ort"), format="toy")
