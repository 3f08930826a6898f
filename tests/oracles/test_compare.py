"""Comparing values: the order of kinds, the tolerance, what equals what."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from oracles.numerics.compare import Tolerance, compare, compare_outputs, distance

LOOSE = Tolerance()
F = np.float32


@pytest.mark.parametrize(
    ("expected", "actual", "kind"),
    [
        (np.zeros(2, F), np.zeros(2, np.float64), "dtype"),
        (np.zeros(2, F), np.zeros((2, 1), F), "shape"),
        (np.array([1, np.nan], F), np.array([np.nan, 1], F), "nan"),
        (np.array([1.0], F), np.array([1.02], F), "value"),
        (np.array([1.0], F), np.array([np.inf], F), "value"),
        (np.array([np.inf], F), np.array([-np.inf], F), "value"),
        (np.array([np.inf], F), np.array([1.0], F), "value"),
        (np.array([100]), np.array([101]), "value"),
        (np.array([True]), np.array([False]), "value"),
        (np.array(["a"]), np.array(["b"]), "value"),
        (np.array([1.0], ml_dtypes.bfloat16), np.array([1.5], ml_dtypes.bfloat16), "value"),
        (np.array([1], ml_dtypes.int4), np.array([2], ml_dtypes.int4), "value"),
        (np.zeros(1, F), None, "presence"),
        ([np.zeros(1, F)], np.zeros(1, F), "dtype"),
        ([np.zeros(1, F)], [np.zeros(1, F)] * 2, "shape"),
        ([np.zeros(1, F)], [np.ones(1, F)], "value"),
    ],
)
def test_what_differs_has_a_kind(expected, actual, kind):
    found = compare("y", expected, actual, LOOSE)  # type: ignore[arg-type]
    assert found is not None
    assert found.kind == kind


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (np.array([1.0], F), np.array([1.009], F)),
        (np.array([0.0], F), np.array([0.0009], F)),
        (np.array([np.nan, np.inf], F), np.array([np.nan, np.inf], F)),
        (np.array([0.0], F), np.array([-0.0], F)),
        (np.array(["a", "bc"]), np.array(["a", "bc"], dtype="<U9")),
        (np.array([1.0], ml_dtypes.bfloat16), np.array([1.0078], ml_dtypes.bfloat16)),
        (np.zeros((0, 3)), np.zeros((0, 3))),
        (None, None),
        ([], []),
    ],
)
def test_what_lies_within_the_tolerance_is_equal(expected, actual):
    assert compare("y", expected, actual, LOOSE) is None  # type: ignore[arg-type]


def test_a_difference_says_where_it_starts_and_where_it_is_greatest():
    expected, actual = np.zeros((2, 3), F), np.zeros((2, 3), F)
    actual[0, 1], actual[1, 2] = 0.5, -7
    found = compare("y", expected, actual, LOOSE)
    assert found is not None
    assert (found.first, found.where, found.count, found.size) == ((0, 1), (1, 2), 2, 6)
    assert found.magnitude == 7
    assert "most at [1, 2]: -7.0 against 0.0" in str(found)


def test_a_shape_counts_before_a_value_of_an_earlier_output():
    expected = {"a": np.zeros(1, F), "b": np.zeros(1, F)}
    actual = {"a": np.ones(1, F), "b": np.zeros(2, F)}
    found = compare_outputs(expected, actual, LOOSE)
    assert found is not None
    assert (found.output, found.kind) == ("b", "shape")


def test_a_run_that_only_compiled_has_nothing_to_compare():
    assert compare_outputs({"a": np.zeros(1, F)}, {}, LOOSE) is None


def test_a_missing_output_differs():
    found = compare_outputs({"a": np.zeros(1, F)}, {"b": np.zeros(1, F)}, LOOSE)
    assert found is not None
    assert found.kind == "presence"


numbers = arrays.arrays(
    np.float32, arrays.array_shapes(max_dims=2, max_side=3), elements=st.floats(width=32, allow_nan=True)
)


@given(numbers)
def test_a_value_equals_its_copy(value):
    assert compare("y", value, value.copy(), Tolerance(0, 0)) is None
    assert not distance(value, value.copy()).any()


@given(numbers, st.data())
def test_a_changed_element_is_found(value, data):
    place = tuple(data.draw(st.integers(0, size - 1)) for size in value.shape)
    other = value.copy()
    other[place] = 1.0 if not abs(value[place] - 1.0) < 0.5 else 3.0
    found = compare("y", value, other, LOOSE)
    assert found is not None
    assert (found.where, found.count) == (place, 1)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int32, np.int8])
def test_integers_are_as_far_apart_as_they_are_however_large(dtype):
    limits = np.iinfo(dtype)
    left = np.array([limits.max, limits.min, limits.max], dtype)
    right = np.array([limits.max - 1, limits.min + 3, limits.min], dtype)
    assert distance(left, right).tolist() == [1.0, 3.0, float(int(limits.max) - int(limits.min))]
    assert distance(left[1], right[1]) == 3.0
