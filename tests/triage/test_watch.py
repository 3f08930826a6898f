"""What new releases change: by tables, on the installed release, and on releases from wheels made here."""

import json
import shutil
from importlib.metadata import version
from xml.etree import ElementTree

import pytest

from corpus.formats.onnx import parse
from corpus.load import FOLDER, Regression, Shown, load_regressions
from corpus.onnx.check import checker_complaint
from corpus.target import order_of
from tests.helpers.commands import needs
from tests.helpers.failing import clip_exception, healthy
from tests.triage.test_bisect import index as index  # a fixture
from tests.triage.test_bisect import write_onnxruntime
from triage.cli import run
from triage.watching import Change, Seen, change

INSTALLED = version("onnxruntime")
PASSES: Shown = ("pass", "compare", "")


def row(text: str) -> list[Seen]:
    """A release a character: `.` passes, `?` cannot be run, another letter is a failure of that name."""
    found = []
    for at, sign in enumerate(text):
        shown = {".": PASSES, "?": ("unsupported", "import", "")}.get(sign, ("exception", "execute", sign))
        found.append(Seen(f"1.{at}", shown))
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x.", Change.FIXED),
        (".x", Change.REGRESSED),
        ("x.x", Change.REGRESSED),
        ("xy", Change.NEW),
        ("yxy", Change.FAILS),
        ("xx", Change.FAILS),
        ("..", Change.PASSES),
        (".", Change.PASSES),
        ("x", Change.UNKNOWN),
        ("?x", Change.UNKNOWN),
        ("x?.", Change.FIXED),
        ("x?", Change.SILENT),
    ],
)
def test_what_became_of_a_case(text, expected):
    *known, now = row(text)
    assert change(known, now) is expected
    assert (
        change([*reversed(known), *row(text + "....")[len(text) :]], now) is expected
    )  # later ones say nothing


def test_early_builds_come_before_the_release_and_late_ones_after_it():
    wanted = ["1.9", "1.32.0.dev20261120", "1.32.0.dev20261121", "1.32.0rc1", "1.32", "1.32.0.post1"]
    assert sorted(set(wanted), key=order_of) == wanted
    assert order_of("2.13.0+cpu") == order_of("2.13")


@pytest.mark.usefixtures("index")
def test_bugs_of_the_database_are_watched(tmp_path, capsys):
    clip_exception().save(tmp_path / "clip")
    database = ["--db", str(tmp_path / "w.db"), "--json"]
    assert run(["check", str(tmp_path / "clip"), *database]) == 1
    capsys.readouterr()
    assert run(["watch", "--no-corpus", "--release", INSTALLED, *database]) == 0
    (document,) = json.loads(capsys.readouterr().out)
    assert document["cases"] == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [(["--package", "requests"], "no backend runs it"), (["--release", "0.1"], "cannot be installed here")],
)
def test_what_cannot_be_watched_is_the_users_to_mend(words, told, index, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert run(["watch", "--no-corpus", *words]) == 2
    assert told in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.slow
def test_a_new_release_is_compared_with_the_one_before_and_watched_once(index, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    refuses = "if options.graph_optimization_level != UNOPTIMISED and {} in model: raise RuntimeError({!r})"
    told = "[ONNXRuntimeError] : 1 : FAIL : planted in this build"
    for number, word in {"98.0": b"NoSuchOperator", "99.0": b"Add"}.items():
        write_onnxruntime(index, number, refuses.format(word, told))
    healthy().save(tmp_path / "add")
    words = ["watch", str(tmp_path / "add"), "--no-corpus", "--json", "--db", str(tmp_path / "w.db")]
    assert run(words) == 1
    (document,) = json.loads(capsys.readouterr().out)
    assert (document["release"], document["regressed"]) == ("99.0", 1)
    assert document["changes"][0]["since"] == "98.0"
    assert "planted in this build" in document["changes"][0]["title"]
    assert run(words) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert run([*words, "--release", "99.0"]) == 1


# The regression corpus shows what it says, and a difference is told


CASES = list(load_regressions())


def _of(*packages: str) -> list[Regression]:
    """Those of these packages: torch takes ten seconds to start, others are not in the set-up."""
    return [each for each in CASES if each.package in packages]


@pytest.mark.parametrize("regression", CASES, ids=lambda regression: regression.name)
def test_every_case_of_the_corpus_is_small_and_sound(regression):
    if regression.case.format == "onnx":
        assert checker_complaint(parse(regression.case.program)) is None
    assert regression.case.measure.nodes <= 9  # the longest pattern of a fusion that is in the corpus
    assert regression.title
    assert regression.shown


@pytest.mark.parametrize(
    "cases",
    [
        _of("onnxruntime", "apache-tvm"),
        pytest.param(_of("torch"), marks=pytest.mark.slow),
        pytest.param(_of("openvino"), marks=needs("openvino")),
        pytest.param(_of("iree-base-compiler"), marks=needs("iree")),
        pytest.param(_of("jaxlib"), marks=needs("jax")),
    ],
    ids=["without torch", "torch", "openvino", "iree", "xla"],
)
def test_the_installed_release_shows_what_the_corpus_says_of_it(cases, tmp_path, capsys):
    report = tmp_path / "replay.xml"
    folders = [str(FOLDER / each.name) for each in cases]
    assert run(["replay", *folders, "--json", "--junit", str(report)]) == 0
    documents = json.loads(capsys.readouterr().out)
    documents = documents if isinstance(documents, list) else [documents]
    assert [each["case"] for each in documents] == [regression.name for regression in cases]
    assert [each["case"] for each in documents if each["status"] == "differs"] == []
    suite = ElementTree.parse(report).getroot()
    assert suite.get("tests") == str(len(cases))
    assert suite.get("failures") == "0"


def test_a_case_that_shows_something_else_is_a_difference_and_exit_code_1(tmp_path, capsys):
    folder = tmp_path / "mended"
    shutil.copytree(FOLDER / "relu-clip-not-float", folder)
    expected = folder / "expected.json"
    facts = json.loads(expected.read_text(encoding="utf-8"))
    facts["shown"] = {release: ["pass", "compare", ""] for release in facts["shown"]}
    expected.write_text(json.dumps(facts), encoding="utf-8")
    assert run(["replay", str(folder), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)[0]["status"] == "differs"


def test_a_folder_without_an_expectation_is_the_users_to_mend(tmp_path, capsys):
    folder = tmp_path / "case"
    shutil.copytree(FOLDER / "relu-clip-not-float", folder)
    (folder / "expected.json").unlink()
    assert run(["replay", str(folder)]) == 2
    assert "replay --record" in capsys.readouterr().err
    assert run(["replay", "--record", str(folder)]) == 0
    assert (folder / "expected.json").is_file()
