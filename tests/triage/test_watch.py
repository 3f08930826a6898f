"""What new releases change: by tables, on the installed release, and on releases from wheels made here."""

import json
import os
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from corpus.formats.onnx import parse
from corpus.load import FOLDER, Regression, Shown, load_regressions
from corpus.onnx.check import checker_complaint
from corpus.target import order_of
from tests.helpers.commands import ROOT, completed, crux_apart, needs
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
    wanted = [
        "1.9",
        "1.31.1",
        "1.32.0.dev20261120",
        "1.32.0.dev20261121",
        "1.32.0rc1",
        "1.32",
        "1.32.0.post1",
    ]
    assert sorted(set(wanted), key=order_of) == wanted
    assert order_of("2.13.0+cpu") == order_of("2.13")


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    """A case that fails now, under the names of what an earlier release is said to have shown."""
    for name, shown in {"regressed": PASSES, "fails": None, "new": ("crash", "execute", "")}.items():
        folder = tmp_path / "cases" / name
        shutil.copytree(FOLDER / "relu-clip-not-float", folder)
        facts = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
        facts["shown"] = {"0.0.1": list(shown or next(iter(facts["shown"].values())))}
        (folder / "expected.json").write_text(json.dumps(facts), encoding="utf-8")
    return tmp_path / "cases"


@pytest.mark.usefixtures("index")
def test_each_word_is_said_of_cases_on_the_installed_release_and_remembered(tmp_path, cases, capsys):
    common = ["--release", INSTALLED, "--no-corpus", "--json", "--db", str(tmp_path / "w.db")]
    found = {}
    for name in ("regressed", "fails", "new"):
        code = run(["watch", str(cases / name), *common, "--db", str(tmp_path / f"{name}.db")])
        (document,) = json.loads(capsys.readouterr().out)
        found[name] = document
        assert code == (name != "fails")
        assert (document["release"], document[name]) == (INSTALLED, 1)
    assert found["regressed"]["changes"][0]["since"] == "0.0.1"
    healthy().save(tmp_path / "fine")
    assert run(["watch", str(tmp_path / "fine"), *common]) == 0
    assert json.loads(capsys.readouterr().out)[0]["passes"] == 1


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
def test_without_a_network_there_is_one_line_and_exit_code_2(tmp_path):
    nowhere = "import os; os.environ.update(PIP_INDEX_URL='http://127.0.0.1:9/', PIP_EXTRA_INDEX_URL='')"
    done = crux_apart(tmp_path, "watch", setup=nowhere)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "cannot be reached" in done.stderr


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


def test_the_workflow_runs_commands_that_there_are():
    facts = yaml.safe_load((ROOT / "docs/watch/crux-watch.yml").read_text(encoding="utf-8"))
    assert set(facts[True]) == {"schedule", "workflow_dispatch"}  # `on` is a yes in YAML 1.1
    steps = facts["jobs"]["watch"]["steps"]
    assert all(("uses" in each) != ("run" in each) for each in steps)
    script = next(each["run"] for each in steps if each.get("name") == "Watch")
    done = completed(["bash", "-n"], input=script)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_workflow_s_step_ends_as_the_watch_does(tmp_path):
    facts = yaml.safe_load((ROOT / "docs/watch/crux-watch.yml").read_text(encoding="utf-8"))
    script = next(each["run"] for each in facts["jobs"]["watch"]["steps"] if each.get("name") == "Watch")
    tool = tmp_path / "bin" / "crux"
    tool.parent.mkdir()
    tool.write_text('#!/bin/sh\necho "$@" > "$HOME/words"\necho told >&2\nexit 1\n')
    tool.chmod(0o755)
    env = {"PATH": f"{tool.parent}:{os.environ['PATH']}", "HOME": str(tmp_path), "PACKAGE": "onnxruntime"}
    env |= {"CASES": "none", "RELEASE": "1.2", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    done = subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, env=env, capture_output=True)
    assert done.returncode == 1
    assert (tmp_path / "summary").read_text() == "told\n"
    assert (tmp_path / "words").read_text() == "watch --package onnxruntime --release 1.2 --json\n"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_the_units_are_ones_that_systemd_takes(tmp_path):
    for name in ("crux-watch.service", "crux-watch.timer"):
        text = (ROOT / "docs/watch" / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text.replace("%h/.local/bin/crux", "/bin/true"), encoding="utf-8")
    units = [str(tmp_path / name) for name in ("crux-watch.service", "crux-watch.timer")]
    done = completed(["systemd-analyze", "verify", "--man=no", *units])
    complaints = [line for line in done.stderr.splitlines() if "crux-watch" in line]
    assert (complaints, done.returncode) == ([], 0)


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
