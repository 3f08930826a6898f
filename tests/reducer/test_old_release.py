"""A bug that only an old release of onnxruntime shows, reduced by a target and by a command."""

import shlex
from pathlib import Path

import numpy as np
import pytest

from corpus.case import Case
from corpus.target import Target
from reducer.api import reduce_case
from reducer.course import DoesNotFail, Options
from tests.oracles.test_backends import environment
from tests.reducer.driving import case_of, model_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

CHECK = """
import os, sys
import numpy, onnxruntime
inputs = numpy.load(os.path.join(os.path.dirname(sys.argv[1]), "inputs.npz"))
options = onnxruntime.SessionOptions()
options.log_severity_level = 4
try:
    session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
    session.run(None, {each.name: inputs[each.name] for each in session.get_inputs()})
except Exception as error:
    sys.exit("Failed to find kernel for com.microsoft.QuickGelu" not in str(error))
sys.exit(1)
"""


@pytest.fixture(scope="module")
def python() -> Path:
    return environment("1.20.1", "numpy>=2")


@pytest.fixture
def case() -> Case:
    """Mul, Sigmoid and Mul of float64 between other nodes: their fusion has no kernel in that release.

    It fuses without the first Mul as well.
    """
    before = " ".join(f"a{at + 1} = {'Neg' if at % 2 else 'Sin'} (a{at})" for at in range(12))
    after = " ".join(f"b{at + 1} = {'Tanh' if at % 3 else 'Abs'} (b{at})" for at in range(12))
    gelu = "s = Mul (a12, c) t = Sigmoid (s) b0 = Mul (a12, t)"
    text = f"g (double[2,4] a0) => (double[2,4] b12) <double c = {{1.702}}> {{ {before} {gelu} {after} }}"
    return case_of(model_of(text), {"a0": np.linspace(-1, 1, 8).reshape(2, 4)})


def test_it_reduces_on_a_target_with_the_old_interpreter(case, python, tmp_path):
    reduction = reduce_case(case, tmp_path, Options(target=Target.parse(f"ort@python={python}")))
    assert sorted(reduction.after.ops) == ["Mul", "Sigmoid"]
    assert reduction.is_minimal
    assert "QuickGelu" in reduction.verdict.title if reduction.verdict else False


def test_it_reduces_by_a_command_that_calls_the_old_interpreter(case, python, tmp_path):
    script = tmp_path / "check.py"
    script.write_text(CHECK)
    check = f"{shlex.quote(str(python))} {shlex.quote(str(script))} {{}}"
    reduction = reduce_case(case, tmp_path / "out", Options(check=check, jobs=2))
    assert sorted(reduction.after.ops) == ["Mul", "Sigmoid"]
    assert reduction.is_minimal


def test_the_installed_release_does_not_show_it(case, tmp_path):
    with pytest.raises(DoesNotFail):
        reduce_case(case, tmp_path, Options())
