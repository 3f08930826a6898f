"""A compiler as a project is one file; with its backend it is all that a ready report takes."""

import numpy as np
import pytest
from onnx import TensorProto

from corpus.case import Case
from corpus.errors import UserError
from corpus.formats import format_names
from corpus.target import Target
from oracles.backends import backends
from oracles.judge import Judge
from tests.helpers.failing import model
from tests.triage.new_compiler import backend, project
from triage.bugs.history import History
from triage.projects import (
    GENERAL,
    project_of,
    project_of_module,
    project_of_package,
    projects,
    runner_of,
)
from triage.reports.report import write_report
from triage.views.rendering import template_of

DEFINED = ("CONFIGS =", "def package_version(", "def run(config, path)")
EVERY = sorted(projects().values(), key=lambda each: each.name)


@pytest.fixture
def imaginary(monkeypatch):
    """The compiler of two files, known as the others are."""
    monkeypatch.setitem(backends(), backend.NAME, backend.backend())
    monkeypatch.setitem(projects(), project.PROJECT.name, project.PROJECT)


def test_every_backend_that_runs_a_compiler_has_a_project():
    without = {name for name in backends() if project_of(name) is GENERAL}
    assert without == {"golden", "reference"}


@pytest.mark.parametrize("project", EVERY, ids=lambda each: each.name)
def test_a_project_names_its_package_its_issues_and_its_own_backends(project):
    assert projects()[project.name] is project
    assert {backends()[name].package for name in project.backends} == {project.package}
    assert project_of_package(project.package) is project
    assert project.issues.startswith("https://")
    assert len(set(project.packages)) == len(project.packages)
    assert project.varied == tuple(name for name in project.varied if name in project.backends)
    assert sum(project.weights.values()) == pytest.approx(1)


@pytest.mark.parametrize("project", EVERY, ids=lambda each: each.name)
def test_a_project_has_a_part_of_a_script_for_every_backend_and_says_what_it_is_imported_as(project):
    for name in project.backends:
        runner = runner_of(name, "onnx")
        assert runner.takes(name, "onnx")
        assert project_of_module(runner.module) is project
        assert template_of(runner.part)
        assert all(mark in runner.part for mark in DEFINED)


def test_variants_of_a_package_are_of_its_project_and_companions_are_not():
    assert project_of_package("onnxruntime-gpu").name == "onnxruntime"
    assert project_of_package("onnxruntime-training").name == "onnxruntime"
    assert project_of_package("numpy") is GENERAL


def test_a_target_without_a_project_has_no_script():
    assert all(project_of("reference").runner("reference", format) is None for format in format_names())
    with pytest.raises(
        UserError,
        match=r"repro\.py can be written for inductor, iree, openvino, ort, torch, torch-onnx, tvm, xla only",
    ):
        runner_of("reference", "onnx")


@pytest.mark.usefixtures("imaginary")
def test_a_compiler_of_two_files_has_reports_that_are_ready(tmp_path):
    typed = (TensorProto.FLOAT, [3])
    made = model([("Add", ["x", "w"], ["y"])], {"x": typed}, {"y": typed}, {"w": np.float32([1, 2, 3])})
    target = Target("imaginary")
    case = Case("onnx", made.SerializeToString(), {"x": np.float32([4, 5, 6])}, target)
    with Judge(target) as judge:
        report = write_report(case, judge, tmp_path / "it", History())
    assert report.ready, report.missing
    text = (tmp_path / "it/issue.md").read_text()
    assert text.startswith("# [Add] 4 instead of 5 with fast, not plain")
    assert "https://example.org/issues" in text
