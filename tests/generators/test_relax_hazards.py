"""Relax programs of dangerous values in their modes, and a mixture for a target of several languages."""

from collections import Counter

import numpy as np
import pytest

from corpus.target import Target
from generators.feedback import LEAST, CoverageSnapshot, arm, shares_of_languages
from generators.language.emit import language_of
from generators.mixture import Plan, make_cases
from generators.mutations.modes import Mode
from generators.seeds import BLOCK
from oracles.judge import Judge
from oracles.verdict import SURVIVAL, Outcome

BESIDE = {name: language_of(name).strategies for name in ("relax", "tir")}


def _cases(mode: Mode, seeds: range):
    return list(make_cases(Plan("relax", mode, nodes=6, sequences=False), seeds))


def test_most_programs_of_a_mode_hold_what_it_stands_for():
    endangered = _cases(Mode.VULNERABLE, range(48))
    assert sum(SURVIVAL in case.settings for case in endangered) > 30
    assert len({note for case in endangered for note in case.notes if note.startswith("hazard")}) > 24
    values = [case.inputs.values() for case in _cases(Mode.NONFINITE, range(48))]
    assert sum(any(not np.isfinite(array).all() for array in each) for each in values) > 36


def test_values_that_are_not_finite_raise_no_false_alarm():
    pytest.importorskip("tvm_ffi", reason="tvm is not installed")
    with Judge(Target.parse("tvm"), format="relax", lower_levels=False) as judge:
        found = Counter(judge.verdict(case).outcome for case in _cases(Mode.NONFINITE, range(14, 20)))
    assert found[Outcome.MISMATCH] == 0
    assert found[Outcome.PASS] > 2


def test_each_language_of_a_target_gets_blocks_of_its_mixture():
    firsts = [make_cases(Plan(beside=BESIDE), range(at, at + 1)) for at in range(0, 40 * BLOCK, BLOCK)]
    formats = Counter(case.format for (case,) in firsts)
    assert min(formats[name] for name in ("onnx", "relax", "tir")) > 0.2 * 40


def test_a_language_that_yields_more_gets_more_and_none_less_than_the_least():
    tests = {arm(name, "strict"): 400 for name in ("random", "relax", "tir")}
    lesson = CoverageSnapshot(tried=tests, found={f"{arm('tir', 'strict')}\t{n}": 1 for n in range(20)})
    found = shares_of_languages(BESIDE, lesson)
    assert found["tir"] > 2 * found["relax"]
    assert min(found.values()) >= LEAST
    assert sum(found.values()) == pytest.approx(1.0)
