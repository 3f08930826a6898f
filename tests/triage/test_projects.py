"""A compiler as a project is one file; `test_own_backend` has a ready report of one."""

from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto

from corpus.errors import UserError
from corpus.formats import format_names
from corpus.onnx.check import checker_complaint
from oracles.backends import backends
from oracles.naming import Signature
from oracles.verdict import Config, Phase, Run, Status
from tests.helpers.failing import division_crash, model, verdict
from triage.bugs.failures import (
    History,
    bisection_of,
    history_of_folder,
    history_of_name,
    note_bisection,
    record_failure,
)
from triage.bugs.known import KnownIssue, Library
from triage.claims.titles import bracketed, in_short, in_words, only_with
from triage.projects import (
    GENERAL,
    find_form,
    project_of,
    project_of_module,
    project_of_package,
    projects,
    runner_of,
)
from triage.reports.draft import in_type, retyped, vary_dtypes
from triage.reports.issue import tried_releases
from triage.store.failures import MET, ROOT, add_origin
from triage.views.rendering import template_of

DEFINED = ("CONFIGS =", "def package_version(", "def run(config, path)")
EVERY = sorted(projects().values(), key=lambda each: each.name)


@pytest.mark.parametrize(
    ("setting", "label"), [("executor", "relax:transform"), ("pipeline", "tir:transform")]
)
def test_tvms_labels_name_the_level_of_the_program(setting, label):
    run = Run(Config("default", ((setting, "default"),)), Status.EXCEPTION, Phase.OPTIMISE)
    assert project_of("tvm").labels(run, False) == ("needs-triage", label, "type:bug")


@pytest.mark.parametrize(
    ("phase", "may_be_reader", "is_named"),
    [
        (Phase.IMPORT, True, True),
        (Phase.EXECUTE, True, True),
        (Phase.EXECUTE, False, False),
        (Phase.OPTIMISE, True, False),
    ],
)
def test_tvms_frontend_is_named_only_where_it_may_be_to_blame(phase, may_be_reader, is_named):
    run = Run(Config("default", (("executor", "bytecode"),)), Status.EXCEPTION, phase)
    assert ("frontend:onnx" in project_of("tvm").labels(run, may_be_reader)) is is_named


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


# Whose form a report fills, what it calls a configuration, and what it varies

BASELINE = Config("ort none", (("level", "none"),), backend="ort")
ALL = Config("all", (("level", "all"),))
TVM = Config("default -O3 bytecode", (("pipeline", "default"), ("opt-level", 3), ("executor", "bytecode")))
INDUCTOR = Config("inductor", (("backend", "inductor"),))
EAGER = Config("eager", (("backend", "eager"),))


@pytest.mark.parametrize(
    ("backend", "name"),
    [
        ("ort", "onnxruntime"),
        ("tvm", "tvm"),
        ("torch", "pytorch"),
        ("inductor", "pytorch"),
        ("new", "general"),
    ],
)
def test_a_backend_has_the_form_of_its_project(backend, name):
    assert find_form("", backend).name == name
    assert find_form("general", backend) is GENERAL


def test_a_form_that_nobody_has_is_the_users_mistake():
    with pytest.raises(UserError, match="known are iree, onnxruntime, openvino, pytorch, tvm, xla, general"):
        find_form("jax", "ort")
    assert all(project.issues for project in projects().values())


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


def test_a_title_says_what_it_takes_where_another_way_of_the_same_package_works():
    assert (
        only_with(ALL, Config("none", (("level", "none"),)), project_of("ort")) == " at level all, not none"
    )
    assert only_with(INDUCTOR, EAGER, project_of("inductor")) == " with inductor, not eager"
    assert only_with(TVM, BASELINE, project_of("tvm")) == ""


def test_a_model_in_another_type_is_a_valid_one():
    typed = (TensorProto.FLOAT, [2])
    nodes = [("Add", ["x", "w"], ["t"]), ("Cast", ["t"], ["y"], {"to": TensorProto.FLOAT})]
    made = retyped(model(nodes, {"x": typed}, {"y": typed}, {"w": np.float32([1, 2])}), 1, 11)
    assert checker_complaint(made) is None
    assert made.graph.initializer[0].data_type == made.graph.output[0].type.tensor_type.elem_type == 11


def test_the_least_integer_stays_the_least_in_other_types():
    low = np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max, -1, 7])
    assert in_type(low, TensorProto.INT8).tolist() == [-128, 127, -1, 7]
    assert in_type(np.float32([0.5]), TensorProto.DOUBLE).tolist() == [0.5]


def test_a_failure_is_looked_for_in_the_types_of_its_family(crash_judge):
    case = division_crash()
    found = {each.name: each.shows for each in vary_dtypes(case, crash_judge.verdict(case), crash_judge)}
    assert sorted(found) == ["int32", "int64", "int8", "uint8"]
    assert found["int64"] is True
    assert found["uint8"] is not True


def test_what_bisection_said_is_found_again_by_any_of_the_names(store):
    assert bisection_of(store, ("C0001", "F00001")) == {}
    unknown = {"last_good": None, "first_fixed": None, "tried": []}
    note_bisection(store, "F00001", {"first_bad": "1.20.0", **unknown})
    note_bisection(store, "C0001", {"first_bad": "1.21.0", **unknown})
    assert bisection_of(store, ("C0001", "F00001"))["first_bad"] == "1.21.0"
    assert bisection_of(store, ("F00001",))["first_bad"] == "1.20.0"


def test_the_releases_of_a_bisection_are_told_apart():
    tried = [{"release": "1.19", "shows": "passes"}, {"release": "1.20", "shows": "A"}]
    assert tried_releases({"first_bad": "1.20", "tried": tried}) == [("1.19", False), ("1.20", True)]
    assert tried_releases({}) == []


def test_only_what_crux_made_is_called_generated():
    assert History(origins=("seed:7", "seed:9")).is_generated
    assert not History(origins=("seed:7", "/models/mine.onnx")).is_generated
    assert not History().is_generated
    assert "found by" in History(origins=("seed:7",)).sentences()
    assert "the reporter's" in History().sentences()


def test_what_a_reduction_meets_came_from_where_its_failure_did(store):
    first = record_failure(store, division_crash(), verdict("first"))
    met = replace(division_crash(1), origin=MET.format(first.name))
    second = record_failure(store, met, verdict("second"))
    root = replace(division_crash(2), origin=ROOT.format(second.name))
    third = record_failure(store, root, verdict("third"))
    assert history_of_name(store, third.name).is_generated
    add_origin(store, first.id, "/models/mine.onnx")
    assert not history_of_name(store, third.name).is_generated


def test_a_folder_says_itself_where_its_program_came_from(tmp_path):
    for origin in ("seed:7", "/models/mine.onnx", ""):
        folder = tmp_path / (origin.replace("/", "_") or "none")
        replace(division_crash(), origin=origin).save(folder)
        assert history_of_folder(folder).is_generated == (origin == "seed:7")


def test_a_library_names_the_near_clusters_and_not_its_own():
    head = (("backend", "ort"), ("outcome", "exception"))
    one = Signature.of(*head, ("message", "Pads exceed the kernel of the pool"))
    near = Signature.of(*head, ("message", "Pads exceed the kernel of a pool"))
    far = Signature.of(*head, ("message", "there is no such operator set"))
    library = Library((), {"C0001": (near,), "C0002": (far,)})
    assert list(library.similar(one)) == ["C0001"]
    assert library.similar(one, own="C0001") == {}
    issue = KnownIssue("mine", "t", "onnxruntime", {}, fixed="2.0")
    assert Library((issue,)).known(one, "1.0") == issue
    assert Library((issue,)).known(one, "2.0") is None


@pytest.mark.parametrize(
    ("effect", "title"),
    [
        (
            "ReduceSumSquare gives [4,4,12,0,1] where it should give [4,4,12]",
            "ReduceSumSquare gives [4,4,12,0,1]",
        ),
        (
            "InvalidArgument: Invalid model. Node input 't0' is not a graph input",
            "Invalid model. Node input 't0' is not a graph input",
        ),
        ("wrong values", "wrong values for Div"),
        (
            "RuntimeError: Failed to find node output or a constant initializer producing output: y0.",
            "Failed to find node output or a constant initializer",
        ),
        (
            "InternalError: Minuend 's value is 0U and it's dtype is uint while Subtrahend's dtype is uint",
            "Minuend 's value is 0U and it's dtype is uint",
        ),
        (
            "Fail: For each axis, the scale and the zero point must be equal in size",
            "For each axis, the scale and the zero point",
        ),
        (
            "Fail: Type 'tensor(int32)' of input (w1) of operator (QuantizeLinear) is invalid",
            "Type 'tensor(int32)' of input (w1) of operator",
        ),
    ],
)
def test_a_title_that_is_cut_ends_where_something_whole_is_said(effect: str, title: str) -> None:
    head = "Scan with axes=[-4, 4]"
    assert bracketed(head, effect, "for Div") == f"[{head}] {title}"
