"""Measurement: cores of several nodes, planted in the models of the zoo, and the checks to reduce to them.

A command answers (`-k told`), or onnxruntime's results are wrong (`-k wrong`). `CRUX_CORES_MODELS` names
entries of the zoo, `CRUX_CORES_SEED` the draw, `CRUX_SEEDED_ZOO` a folder to keep them in. See BENCHMARKS.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from statistics import median

import numpy as np
import onnx
import pytest

import reducer.api
import reducer.session
from corpus.case import Case
from corpus.formats.onnx import parse
from oracles.verdict import Outcome
from reducer.api import Reduction, reduce_case
from reducer.course import Options
from reducer.engine.journal import Answer
from tests.bench import cores, wrong_nodes
from tests.bench.seeding import Planter, apart, planting, zoo_cases

pytestmark = [pytest.mark.bench, pytest.mark.timeout(0)]
USUAL = "bert-script,gpt-where,llama-script,mobilevit,queries,swin-script,vit,mamba-int8"
NAMES = os.environ.get("CRUX_CORES_MODELS", USUAL).split(",")
SEED = int(os.environ.get("CRUX_CORES_SEED", "1"))
COUNTS = (5, 6)


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, Case]]:
    return list(zoo_cases(tmp_path_factory.mktemp("zoo"), NAMES))


def drawn(name: str, case: Case) -> Iterator[tuple[int, Iterator[cores.Core]]]:
    for count in COUNTS:
        yield count, cores.draw(case.parsed, count, (SEED, name, count))


def test_told(cases, tmp_path, say, monkeypatch):
    """The answer is whether the core stands in the candidate."""
    rows = []
    for name, case in cases:
        for count, some in drawn(name, case):
            core = next(some)
            monkeypatch.setattr(reducer.session, "Command", lambda *settings, core=core: _told(core))
            out = tmp_path / f"{name}-{count}"
            rows.append((name, core, reduce_case(case, out, Options(check="in this process"))))
            say(row(*rows[-1]))
    say(summary(rows))


def _told(core: cores.Core):
    return lambda case: Answer(any(cores.matches(parse(case.program), core)))


def test_wrong(cases, tmp_path, say):
    """Optimised sessions give three times what the core's last node should."""
    rows = []
    with planting(tmp_path / "wrong", Path(wrong_nodes.__file__), Path(cores.__file__)) as planter:
        for name, case in cases:
            for count, some in drawn(name, case):
                core = next((each for each in islice(some, 20) if _shows(planter, case, each)), None)
                if core is not None:
                    options = Options(target=planter.judge.target)
                    done = reduce_case(case, tmp_path / f"{name}-{count}", options, judge=planter.judge)
                    rows.append((name, core, done))
                    say(row(*rows[-1]))
            planter.plant(None)
    say(summary(rows))


def _shows(planter: Planter, case: Case, core: cores.Core) -> bool:
    planter.plant({"core": core})
    plain, wrong = planter.judge.runs(case, planter.judge.configs[:2])
    moved, greatest = apart(plain.outputs, wrong.outputs) if plain.is_ok and wrong.is_ok else (0, 1)
    if not np.isfinite(moved) or moved < 0.05 * greatest:
        return False
    return planter.judge.verdict(case).outcome is Outcome.MISMATCH


def row(name: str, core: cores.Core, done: Reduction) -> str:
    left = [node.op_type for node in onnx.load_from_string(done.case.program).graph.node]
    word = "least" if len(left) <= len(core["ops"]) else "NOT"
    return f"{word:5} {name} {done.before.nodes} → {len(left)} in {done.checks} ({done.sweep_checks}): {left}"


def summary(rows: list[tuple[str, cores.Core, Reduction]]) -> str:
    good = sum(done.after.nodes <= len(core["ops"]) for _, core, done in rows)
    checks = [done.checks for *_, done in rows]
    return f"{good} of {len(rows)} at the least; checks: median {median(checks)}, most {max(checks)}"
