"""The short script makes the model that it claims to make, and is only shown where it shows the bug."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tensorcrux
from corpus.case import Case
from corpus.formats.onnx import parse
from corpus.target import Target
from oracles.numerics.compare import Tolerance
from oracles.run import Config, Phase, Run, Status
from oracles.verdict import Outcome
from tests.triage.failing import clip_exception
from triage.claims.claim import Claim, Expectation
from triage.projects import project_of
from triage.repro.model_code import NotExpressible, messages, normal_form
from triage.repro.short import array_code, helper_code, printed_by, short_script, shows
from triage.repro.source import Source


def made_by(code: str) -> onnx.ModelProto:
    """The model that a script's statements make."""
    found = {"np": np, "helper": helper, "numpy_helper": numpy_helper, "TensorProto": TensorProto}
    exec(code, found)
    return found["model"]


def without_what_nobody_reads(model: onnx.ModelProto) -> onnx.ModelProto:
    """The script leaves out names of nodes and inferred types: its proof tells whether the bug needs them."""
    model.ClearField("producer_name")
    for message in list(messages(model)):
        if isinstance(message, onnx.GraphProto):
            message.ClearField("value_info")
        if isinstance(message, onnx.NodeProto):
            message.ClearField("name")
            message.attribute.sort(key=lambda attribute: attribute.name)
    return normal_form(model)


def test_the_calls_of_onnx_helper_make_the_same_model_again():
    written = 0
    for case in tensorcrux.generate(60, ops=4, seed=11):
        model = parse(case.program)
        try:
            code = helper_code(model)
        except NotExpressible:
            continue
        written += 1
        assert without_what_nobody_reads(made_by(code)) == without_what_nobody_reads(model), code
    assert written >= 30


def test_names_and_strings_are_only_literals():
    case = clip_exception()
    model = parse(case.program)
    model.graph.name = '"""); import os; os.abort() #'
    assert made_by(helper_code(model)).graph.name == model.graph.name


@pytest.mark.parametrize(
    "array",
    [
        np.array(1.5, np.float32),
        np.array([[1, -2]], np.int8),
        np.zeros((0, 3), np.float64),
        np.full((3, 50), 7, np.uint16),
        np.array([True, False]),
        np.array([np.nan, np.inf, -np.inf], np.float16),
        np.array(["a'b", "\n"]),
        np.array([1 + 2j], np.complex64),
    ],
)
def test_an_array_is_made_again_from_its_text(array):
    again = eval(array_code(array), {"np": np})
    assert again.dtype == array.dtype
    assert again.shape == array.shape
    assert np.array_equal(again, array, equal_nan=array.dtype.kind == "f")


def test_what_stands_behind_each_label_is_told_apart():
    text = "a warning\nnone: [1\n 2]\nall: [1 3]\n"
    assert printed_by(text, ("none", "all")) == ["[1 2]", "[1 3]"]


def test_values_that_a_reference_gives_are_held_and_the_wrong_ones_must_be_printed() -> None:
    """The values differ by themselves, so what counts is that the target gives the wrong ones again."""
    right = Run(Config("numpy", backend="golden"), Status.OK, Phase.EXECUTE, {"y0": np.float32([1, 2])})
    wrong = Run(
        Config("default -O0 bytecode", (("pipeline", "default"),)),
        Status.OK,
        Phase.EXECUTE,
        {"y0": np.float32([0, 2])},
    )
    expectation = Expectation(project_of("tvm"), Outcome.MISMATCH, wrong, right, kind="value")
    claim = Claim(expectation, "a title", Tolerance(), 10.0, 1 << 30)
    case = Case("relax", b"", {}, Target("tvm"))
    text = short_script(case, claim, Source("# a module", ""))
    assert 'print("numpy:", np.array([1.0, 2.0], np.float32), flush=True)' in text
    assert shows(claim)(0, "numpy: [1. 2.]\ndefault -O0 bytecode: [0. 2.]")
    assert not shows(claim)(0, "numpy: [1. 2.]\ndefault -O0 bytecode: [1. 2.]")
