"""The nearest file of settings, the environment, the command line; a file is data and runs nothing."""

import json
from pathlib import Path

import pytest

from tests.helpers.failing import healthy
from triage.cli import run
from triage.console.settings import KINDS, RUNNING, variable


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository in whose folder `deep/er` one works."""
    for key in KINDS:
        monkeypatch.delenv(variable(key), raising=False)
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "repo" / "deep" / "er")
    return tmp_path / "repo"


def configured(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, tuple[object, str]]:
    assert run(["config", "--json", *words]) == 0
    return {each["name"]: (each["value"], each["from"]) for each in json.loads(capsys.readouterr().out)}


def test_each_setting_says_where_it_comes_from(project, capsys, monkeypatch):
    path = project / "pyproject.toml"
    path.write_text('[tool.crux]\ntarget = "reference"\ntimeout = 7\nmemory = 512\ndatabase = "found.db"\n')
    monkeypatch.setenv("CRUX_MEMORY", "1024")
    found = configured(capsys, "--seed", "4")
    assert found["target"] == ("reference", str(path))
    assert found["timeout"] == (7.0, str(path))
    assert found["database"] == (str(project / "found.db"), str(path))
    assert found["memory"] == (1024, "CRUX_MEMORY")
    assert found["seed"] == (4, "command line")
    assert found["tolerance"] == ("auto", "default")
    assert found.keys() == KINDS.keys()


def test_the_nearest_file_with_settings_counts_and_none_outside_the_repository(project, capsys):
    (project.parent / "crux.toml").write_text("seed = 1\n")
    assert configured(capsys)["seed"] == (None, "default")
    (project / "crux.toml").write_text("seed = 2\n")
    (project / "deep" / "pyproject.toml").write_text("[tool.other]\nseed = 3\n")
    assert configured(capsys)["seed"] == (2, str(project / "crux.toml"))
    (project / "deep" / "pyproject.toml").write_text("[tool.crux]\nseed = 4\n")
    assert configured(capsys)["seed"] == (4, str(project / "deep" / "pyproject.toml"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *((f"{key} = true", "runs code") for key in sorted(RUNNING)),
        ('target = "ort@python=/bin/sh"', "@python=/bin/sh may say what to run"),
        ('target = "ort@anything=../here"', "may say what to run"),
        ('database = "../outside.db"', "leaves the folder"),
        ('known = "/etc/known.toml"', "leaves the folder"),
        ('oracles = "golden=/x"', "is no list of names"),
        ('timeout = "long"', "'long' is no int or float"),
        ("jobs = true", "True is no int"),
        ("tiemout = 3", "no such setting"),
        ("nonsense", "cannot be read as settings"),
    ],
)
def test_what_a_file_may_not_say_is_one_line(project, capsys, text, said):
    (project / "crux.toml").write_text(text + "\n")
    assert run(["check", "missing.onnx"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert run(["check", "--help"]) == 0  # help is there all the same


def test_a_target_of_the_settings_stands_in_for_cases_that_say_none(project, capsys):
    (project / "crux.toml").write_text('target = "reference"\n')
    healthy().save(Path("own"))
    Path("bare.onnx").write_bytes(healthy().program)
    assert run(["check", "own", "bare.onnx"]) == 0
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    assert [each["target"] for each in lines] == ["ort", "reference"]
