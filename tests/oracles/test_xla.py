"""XLA as a target: models lowered to jax on the CPU, held against un-optimised onnxruntime."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from corpus.errors import UserError
from corpus.target import Target
from oracles.backends import find_backend
from oracles.judge import Judge
from oracles.sandbox.executor import configs_of
from oracles.verdict import Config, Outcome, Phase, Run, Status
from oracles.worker.xla.module import changed_by, flags_of
from tests.helpers.commands import needs
from tests.helpers.models import case_of, of_many_types

ROOT = Path(__file__).parents[2]
XLA = Target("xla")
backend = find_backend("xla")
case = partial(case_of, opset=17, ir=8, target=XLA)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(XLA) as found:
        yield found


def test_it_compiles_at_the_highest_level_and_the_lowest_unless_one_is_asked_for():
    labels = [
        [each.label for each in configs_of(Target.parse(text), "onnx")] for text in ("xla", "xla@opt=1")
    ]
    assert [each[1:] for each in labels] == [["O3", "O0"], ["O1"]]
    with pytest.raises(UserError, match="@opt= is one of 3, 2, 1, 0"):
        configs_of(Target.parse("xla@opt=4"), "onnx")
    with pytest.raises(UserError, match="on the CPU only"):
        configs_of(Target.parse("xla:cuda"), "onnx")


def test_passes_are_disabled_by_name_and_read_from_what_xla_writes_out():
    assert flags_of({"level": 0, "disabled_passes": ("algsimp", "cse")}) == {
        "xla_allow_excess_precision": False,
        "xla_backend_optimization_level": 0,
        "xla_disable_hlo_passes": "algsimp,cse",
    }
    files = [
        "module_0000.main.0006.simplification.after_algsimp.before_sort-simplifier.txt",
        "module_0000.main.0002.simplification.after_pipeline-start.before_cse.txt",
        "module_0000.main.0004.simplification.after_cse.before_algsimp.txt",
        "module_0000.main.cpu_after_optimizations.txt",
    ]
    assert changed_by(files) == ["cse", "algsimp"]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("operator TfIdfVectorizer has no lowering to jax", "unsupported"),
        ("UNIMPLEMENTED: unhandled expression type", "unsupported"),
        ("INTERNAL: RET_CHECK failure", ""),
    ],
)
def test_it_says_itself_what_it_does_not_have(message, expected):
    run = Run(Config("O3"), Status.EXCEPTION, Phase.OPTIMISE, error="XlaRuntimeError", message=message)
    assert backend.classify(run) == expected


@needs("jax")
def test_it_lowers_more_than_120_operators_and_gives_every_one_of_its_own_a_function(judge):
    found = judge.executor.vocabulary()
    assert len(found) >= 120
    assert {"Conv", "Resize", "LSTM", "Loop", "QLinearConv", "LayerNormalization"} <= found


@needs("jax")
def test_every_type_comes_back_as_it_is_declared(judge):
    verdict = judge.verdict(of_many_types(judge.target))
    assert verdict.outcome is Outcome.PASS, verdict.title


SIZES = """g (float[2,3] x, int64[k] s) => (float[m,n] y) {
    one = Constant<value = int64[1] {1}>() t = Mul(s, one) y = Reshape(x, t) }"""
LOOP = """g (int64 n, float[2] x) => (float[2] y, float[k,2] all) {
    y, all = Loop(n, , x) <body = b (int64 i, bool c, float[2] v) => (bool c, float[2] w, float[2] s) {
        w = Add(v, v) s = Neg(w) }> }"""
IF = """g (bool c, float[2] x) => (float[2] y) {
    y = If(c) <then_branch = t () => (float[2] a) { a = Neg(x) },
               else_branch = e () => (float[2] b) { b = Exp(x) }> }"""


@needs("jax")
@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        (SIZES, {"x": np.ones((2, 3), "f4"), "s": np.int64([3, -1])}),
        (LOOP, {"n": np.int64(3), "x": np.float32([1, 2])}),
        (IF, {"c": np.bool_(True), "x": np.float32([1, 2])}),
        (IF, {"c": np.bool_(False), "x": np.float32([1, 2])}),
    ],
    ids=["computed sizes", "a loop", "a branch", "the other branch"],
)
def test_it_runs(judge, text, inputs):
    verdict = judge.verdict(case(text, **inputs))
    assert verdict.outcome is Outcome.PASS, verdict.title


@needs("jax")
@pytest.mark.parametrize(
    ("text", "inputs", "outcome"),
    [
        ("g (float[2] x) => (float[2] y) { y = Ceil(x) }", {"x": np.float32([1e-45, 1])}, Outcome.PASS),
        ("g (float[2] x) => (float[2] y) { y = LpNormalization<p=2, axis=0>(x) }",
         {"x": np.float32([3e-20, 4e-20])}, Outcome.PASS),
        ("""g (float[2] x) => (float y) { q, s, z = DynamicQuantizeLinear(x) e = Erf(s) y = Ceil(e) }""",
         {"x": np.float32([0, 0])}, Outcome.PASS),
        ("g (float[2] x) => (string[2] y) { y = Cast<to=8>(x) }", {"x": np.float32([0, 1])},
         Outcome.UNSUPPORTED),
        ("""g (float[2] x) => (float[2] y) { c = Constant<value = float {1e30}>()
            t = Mul(x, c) y = Mul(t, c) }""", {"x": np.float32([0, 1e-30])}, Outcome.MISMATCH),
    ],
    ids=[
        "numbers below the least normal one are left open",
        "their squares within a sum too",
        "the scale of zeros is left open",
        "no lowering",
        "constants multiplied first",
    ],
)  # fmt: skip
def test_what_it_does_with(judge, text, inputs, outcome):
    verdict = judge.verdict(case(text, **inputs))
    assert verdict.outcome is outcome, verdict.title


@needs("jax")
def test_the_passes_that_change_a_module_are_told(judge):
    given = case("g (float[2] x) => (float[2] y) { t = Add(x, x) y = Sub(t, x) }", x=np.ones(2, "f4"))
    (run,) = judge.runs(given, judge.configs[1:2], collect_log=True)
    passes = backend.passes
    assert run.is_ok
    assert passes.fired(run)
    assert set(passes.suspects(run)) <= set(passes.fired(run))
    (other,) = judge.runs(given, (passes.without(judge.configs[1], passes.suspects(run)),))
    assert other.is_ok, other.message


MODULE = """module { func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %a, %a : tensor<2xf32>
  return %0 : tensor<2xf32> } }"""
SCRIPT = f"""
import json, os, sys, numpy
sys.path.insert(0, {str(ROOT)!r})
from oracles.backends import xla
version, threads = xla.load(), len(os.listdir("/proc/self/task"))
from oracles.worker.xla.module import run_module
results = run_module({MODULE!r}, [numpy.float32([1, 2])], {{"level": 3}}, print)
print(json.dumps([threads, [each.tolist() for each in results]]))
"""


@needs("jax")
def test_its_import_starts_no_thread_and_a_module_of_text_runs_as_it_is():
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, env=environment, text=True, check=True
    )
    *phases, last = done.stdout.split("\n")[:-1]
    assert phases == ["optimise", "execute"]
    assert json.loads(last) == [1, [[2.0, 4.0]]]
