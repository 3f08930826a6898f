"""Models of others without inputs: how many get a verdict about the model, and what that takes.

    bin/test -m bench tests/bench/bench_inputs.py -s

`CRUX_MODELS` names a folder of `.onnx` files (`../shared/models/ort` if it is there).
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODELS = Path(os.environ.get("CRUX_MODELS", ROOT.parent / "shared/models/ort"))
NO_VERDICT = ("invalid", "undecided", "unsupported", "none")
LEAST, MEDIAN_SECONDS, MOST_SECONDS = 0.98, 2.0, 10.0

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3000)]


def check(path: Path) -> tuple[str, float]:
    """The outcome of one command, and the CPU seconds of it and of all that it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "triage.cli", "check", str(path), "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return json.loads(done.stdout or "{}").get("outcome", "none"), seconds


def test_models_of_others_get_a_verdict_about_the_model():
    if not MODELS.is_dir():
        pytest.skip(f"no models in {MODELS}; name a folder in CRUX_MODELS")
    found = {path.name: check(path) for path in sorted(MODELS.glob("*.onnx"))}
    outcomes = Counter(outcome for outcome, _ in found.values())
    seconds = [taken for _, taken in found.values()]
    given = 1 - sum(outcomes[each] for each in NO_VERDICT) / len(found)
    print(f"\n{len(found)} models: {given:.1%} get a verdict about the model, {dict(outcomes)}")
    print(f"CPU seconds: median {statistics.median(seconds):.2f}, most {max(seconds):.2f}")
    for name, (outcome, taken) in found.items():
        if outcome != "pass" or taken > MOST_SECONDS:
            print(f"  {name}: {outcome}, {taken:.2f} s")
    assert given >= LEAST
    assert statistics.median(seconds) <= MEDIAN_SECONDS
    assert max(seconds) <= MOST_SECONDS
