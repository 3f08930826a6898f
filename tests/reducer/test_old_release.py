"""A bug that only an old release of onnxruntime shows, reduced by a target."""

import numpy as np
import pytest

from corpus.target import Target
from reducer.api import reduce_case
from reducer.course import DoesNotFail, Options
from tests.oracles.test_backends import environment
from tests.reducer.driving import case_of, model_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_it_reduces_on_a_target_with_the_old_interpreter(tmp_path):
    """Mul, Sigmoid and Mul of float64 between other nodes: their fusion has no kernel in that release.

    It fuses without the first Mul as well.
    """
    before = " ".join(f"a{at + 1} = {'Neg' if at % 2 else 'Sin'} (a{at})" for at in range(12))
    after = " ".join(f"b{at + 1} = {'Tanh' if at % 3 else 'Abs'} (b{at})" for at in range(12))
    gelu = "s = Mul (a12, c) t = Sigmoid (s) b0 = Mul (a12, t)"
    text = f"g (double[2,4] a0) => (double[2,4] b12) <double c = {{1.702}}> {{ {before} {gelu} {after} }}"
    case = case_of(model_of(text), {"a0": np.linspace(-1, 1, 8).reshape(2, 4)})
    with pytest.raises(DoesNotFail):
        reduce_case(case, tmp_path / "installed", Options())
    python = environment("1.20.1", "numpy>=2")
    reduction = reduce_case(case, tmp_path / "old", Options(target=Target.parse(f"ort@python={python}")))
    assert sorted(reduction.after.ops) == ["Mul", "Sigmoid"]
    assert reduction.is_minimal
    assert "QuickGelu" in reduction.verdict.title if reduction.verdict else False
