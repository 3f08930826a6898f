"""A compiler as a project is one file; `test_own_backend` has a ready report of one."""

import pytest

from corpus.errors import UserError
from corpus.formats import format_names
from oracles.backends import backends
from oracles.verdict import Config, Phase, Run, Status
from tests.helpers.failing import division_crash
from triage.bugs.failures import History
from triage.projects import (
    GENERAL,
    find_form,
    project_of,
    project_of_module,
    project_of_package,
    projects,
    runner_of,
)
from triage.reports.draft import vary_dtypes
from triage.titles import bracketed, in_short, in_words
from triage.views.rendering import template_of

DEFINED = ("CONFIGS =", "def package_version(", "def run(config, path)")
EVERY = sorted(projects().values(), key=lambda each: each.name)


@pytest.mark.parametrize(
    ("phase", "setting", "may_be_reader", "labels"),
    [
        (Phase.OPTIMISE, "executor", True, {"relax:transform"}),
        (Phase.OPTIMISE, "pipeline", False, {"tir:transform"}),
        (Phase.IMPORT, "executor", True, {"frontend:onnx"}),
        (Phase.EXECUTE, "executor", False, set()),
    ],
)
def test_tvms_labels_name_the_part_that_may_be_to_blame(phase, setting, may_be_reader, labels):
    run = Run(Config("default", ((setting, "default"),)), Status.EXCEPTION, phase)
    found = set(project_of("tvm").labels(run, may_be_reader))
    assert found & {"relax:transform", "tir:transform", "frontend:onnx"} == labels
    assert found >= {"needs-triage", "type:bug"}


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
    with pytest.raises(UserError, match=r"repro\.py can be written for inductor, iree, .* xla only"):
        runner_of("reference", "onnx")


# Whose form a report fills, what it calls a configuration, and what it varies

BASELINE = Config("ort none", (("level", "none"),), backend="ort")
ALL = Config("all", (("level", "all"),))
TVM = Config("default -O3 bytecode", (("pipeline", "default"), ("opt-level", 3), ("executor", "bytecode")))
INDUCTOR = Config("inductor", (("backend", "inductor"),))
EAGER = Config("eager", (("backend", "eager"),))


def test_a_backend_of_nobody_has_the_general_form():
    assert find_form("", "new") is find_form("general", "ort") is GENERAL


def test_a_form_that_nobody_has_is_the_users_mistake():
    with pytest.raises(UserError, match=r"known are iree, .*, general"):
        find_form("jax", "ort")


@pytest.mark.parametrize(
    ("config", "backend", "words", "short"),
    [
        (ALL, "ort", "at optimisation level `all`", "all"),
        (BASELINE, "tvm", "with un-optimised onnxruntime", "onnxruntime"),
        (TVM, "tvm", "with the `default` pipeline, LLVM `-O3`, VM", "default -O3 bytecode"),
        (INDUCTOR, "inductor", 'with `torch.compile(backend="inductor")`', "inductor"),
        (EAGER, "torch", "in eager mode", "eager"),
    ],
)
def test_a_configuration_is_called_what_its_maintainers_call_it(config, backend, words, short):
    assert (in_words(config, project_of(backend)), in_short(config)) == (words, short)


def test_a_failure_is_looked_for_in_the_types_of_its_family(crash_judge):
    case = division_crash()
    found = {each.name: each.shows for each in vary_dtypes(case, crash_judge.verdict(case), crash_judge)}
    assert sorted(found) == ["int32", "int64", "int8", "uint8"]
    assert found["int64"] is True
    assert found["uint8"] is not True


def test_only_what_crux_made_is_called_generated():
    assert History(origins=("seed:7", "seed:9")).is_generated
    assert not History(origins=("seed:7", "/models/mine.onnx")).is_generated
    assert not History().is_generated
    assert "found by" in History(origins=("seed:7",)).sentences()
    assert "the reporter's" in History().sentences()


@pytest.mark.parametrize(
    ("effect", "title"),
    [
        (
            "ReduceSumSquare gives [4,4,12,0,1] where it should give [4,4,12]",
            "ReduceSumSquare gives [4,4,12,0,1]",
        ),
        ("wrong values", "wrong values for Div"),
        (
            "Fail: Type 'tensor(int32)' of input (w1) of operator (QuantizeLinear) is invalid",
            "Type 'tensor(int32)' of input (w1) of operator",
        ),
    ],
)
def test_a_title_that_is_cut_ends_where_something_whole_is_said(effect: str, title: str) -> None:
    head = "Scan with axes=[-4, 4]"
    assert bracketed(head, effect, "for Div") == f"[{head}] {title}"
