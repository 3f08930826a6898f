"""Pictures of wrong values and of releases, as a terminal shows them."""

import numpy as np
import pytest

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
