"""Pictures of wrong values and of releases, as a terminal shows them."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from onnx import TensorProto

from corpus.case import Case
from corpus.target import Target
from tests.helpers.failing import ORT, clip_exception, division_crash, model
from triage.pages.differences import describe_differences, draw_differences
from triage.views.listing import error_map, legend, release_line, release_text


def off(shape, **errors):
    """Zeros, and the same with errors at flat places."""
    actual = np.zeros(shape, np.float32)
    for place, error in errors.items():
        actual.reshape(-1)[int(place[1:])] = error
    return error_map(np.zeros(shape, np.float32), actual)


def test_a_sign_is_a_tenth_of_the_next_and_what_is_not_finite_has_its_own():
    rows = off((3, 4), _0=50, _1=5.1, _2=-0.06, _5=np.nan, _11=1e-30)
    assert rows == ["986.", ".X..", "...1"]
    assert legend(rows) == ". equal; 9 greatest, 8 a tenth of it; X not finite"


def test_errors_of_all_sizes_that_float64_holds_have_their_signs():
    actual = np.zeros(9)
    actual[[0, 8]] = 1e300, 1e-300
    assert error_map(np.zeros(9), actual) == ["9.......1"]


@pytest.mark.parametrize(
    ("shape", "rows", "columns"),
    [((100,), 2, 64), ((2000, 1), 16, 64), ((2, 3, 224, 224), 16, 64), ((5, 1, 3), 5, 3), ((9,), 1, 9)],
)
def test_any_tensor_fits_a_terminal_and_keeps_its_last_error(shape, rows, columns):
    made = off(shape, **{f"_{np.prod(shape) - 1}": 1})
    assert (len(made), len(made[0])) == (rows, columns)
    assert "".join(made).rstrip().endswith("9")


def test_few_values_and_other_shapes_have_no_map():
    assert off((8,), _0=1) == []
    assert error_map(np.zeros(9), np.zeros(10)) == []
    assert error_map(None, [np.zeros(9)]) == []


def test_a_bisection_is_a_line_of_releases():
    shows = {"1.19.2": "passes", "1.20.0": "wrong", "1.21.0": "crash", "1.22.0": "unsupported"}
    tried = [{"release": release, "shows": what} for release, what in shows.items()]
    line = release_line({"first_bad": "1.20.0", "tried": tried})
    assert release_text(line) == "o 1.19.2 -- x 1.20.0 -- ~ 1.21.0 -- ~ 1.22.0"
    assert release_line({}) == []


# Two cases side by side

FLOATS = (TensorProto.FLOAT, [1, 1, 4, 4])


def pooled(*, pads=(0, 0, 0, 0), relu=False, weight=0.5, names=("x", "y"), opset=17) -> Case:
    """MaxPool, a Mul with a weight and perhaps a Relu, under any names."""
    first, last = names
    nodes = [
        ("MaxPool", [first], ["p"], {"kernel_shape": [1, 1], "pads": list(pads)}),
        ("Mul", ["p", "w"], ["m"]),
    ]
    nodes += [("Relu", ["m"], [last])] if relu else [("Neg", ["m"], [last])]
    made = model(nodes, {first: FLOATS}, {last: FLOATS}, {"w": np.float32([weight])}, opset)
    return Case("onnx", made.SerializeToString(), {first: np.ones((1, 1, 4, 4), np.float32)}, ORT)


def test_a_case_is_the_same_as_itself():
    found = describe_differences(pooled(), pooled())
    assert (found["same_case"], found["same_but_for_names"], found["words"]) == (True, True, [])


def test_names_are_no_difference():
    found = describe_differences(pooled(), pooled(names=("in", "out")))
    assert (found["same_case"], found["same_but_for_names"], found["words"]) == (False, True, [])


@pytest.mark.parametrize(
    ("other", "word"),
    [
        (pooled(pads=(0, 0, 1, 1)), "node 0 MaxPool: attribute pads: [0, 0, 0, 0] → [0, 0, 1, 1]"),
        (pooled(weight=0.25), "weight only in B: float32[1] = [0.25]"),
        (pooled(relu=True), "only in B: node 2 Relu: float32[1,1,4,4]"),
        (pooled(opset=18), "opset: ai.onnx 17 → ai.onnx 18"),
        (replace(pooled(), target=Target.parse("ort@opt=basic")), "target: ort → ort@opt=basic"),
        (replace(pooled(), inputs={"x": np.zeros((1, 1, 4, 4), np.float32)}), "input 0 (x): float32"),
    ],
)
def test_each_difference_is_said_in_words(other, word):
    found = describe_differences(pooled(), other)
    assert [each for each in found["words"] if each.startswith(word)]


def test_operators_are_counted_on_either_side():
    found = describe_differences(clip_exception(), division_crash())
    assert (found["only_a"], found["only_b"]) == ({"Relu": 1, "Clip": 1}, {"Div": 1})


def test_pictures_mark_what_the_other_lacks(tmp_path):
    paths = draw_differences(pooled(), pooled(relu=True), tmp_path / "pictures")
    texts = [(tmp_path / "pictures" / name).read_text() for name in ("a.svg", "b.svg")]
    assert paths == [str(tmp_path / "pictures" / name) for name in ("a.svg", "b.svg")]
    for text, marked in zip(texts, ("Neg", "Relu"), strict=True):
        ElementTree.fromstring(text)
        assert re.findall(r'class="kept">.*?<text[^>]*>(\w+)<', text) == [marked]
