"""Measurements of programs of loops: how many mutants are sound, and pairs beside those of ONNX programs.

`CRUX_BENCH_SECONDS` (12) are the CPU seconds of each.
"""

import json
import os
import subprocess
import sys

import pytest

from corpus.tir.scopes import problems
from generators.language.values import RandomSource
from generators.tir.mutators import all_mutators
from generators.tir.programs import make_program, mutated_by
from oracles.tir.interpreter import interpret

pytestmark = pytest.mark.bench
SECONDS = float(os.environ.get("CRUX_BENCH_SECONDS", "12"))


def test_mutants_are_sound(capsys):
    tried = formed = defined = raw = raw_formed = 0
    for seed in range(60):
        base = make_program(seed, 8)
        for mutator in all_mutators():
            first = mutator.mutate(RandomSource(f"bench/{seed}/{mutator.name}"), base.module)
            raw, raw_formed = (
                raw + (first is not None),
                raw_formed + (first is not None and not problems(first)),
            )
            found = mutated_by((mutator,), RandomSource(f"bench/{seed}/{mutator.name}"), base.module, seed)
            if found != base.module:
                tried += 1
                formed += not problems(found)
                defined += interpret(found, dict(make_program(seed, 8).inputs), trials=0).is_defined
    with capsys.disabled():
        print(f"\n| mutants {tried} | well-formed {formed / tried:.1%} | defined {defined / tried:.1%} |")
        print(f"before anything is checked: {raw_formed / raw:.1%} of {raw} well-formed")


PAIRS = """
import json, sys, time
import numpy, tvm
from oracles.worker.tvm.tir.run import Cover
from oracles.worker.tvm.watch import instrumented
from generators.mixture import Plan, make_cases
from oracles.backends.tvm import _run
found, start, seed, tests = set(), time.process_time(), 0, 0
while time.process_time() - start < float(sys.argv[1]):
    for case in make_cases(Plan(strategy=sys.argv[2], nodes=8, passes_of="tvm"), range(seed, seed + 16)):
        pieces = set()
        settings = {"format": case.format, "passes": case.passes, "opt-level": 0}
        try:
            with instrumented(lambda: Cover(pieces)):
                _run(case.program, dict(case.inputs), settings, None, lambda phase: None)
        except Exception:
            pass
        tests += 1
        found |= {piece.replace("<", ">") for piece in pieces}
        if time.process_time() - start >= float(sys.argv[1]):
            break
    seed += 16
print(json.dumps([tests, len(found)]))
"""
"""Counts (pass, kind of node) pairs of programs that run one after the other, without isolation."""


@pytest.mark.timeout(0)
def test_pairs_beside_onnx_programs(capsys):
    told = {}
    for strategy in ("random", "tir"):
        command = [sys.executable, "-c", PAIRS, str(SECONDS), strategy]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        told[strategy] = json.loads(output.splitlines()[-1])
    with capsys.disabled():
        ratio = told["tir"][1] / told["random"][1]
        print(f"\n| ONNX {told['random'][1]} pairs in {told['random'][0]} tests | loops {told['tir'][1]} in")
        print(f" {told['tir'][0]} | {ratio:.1f} times as many in {SECONDS:.0f} CPU seconds |")
