"""Measurement: one node changed behind onnxruntime's back, what crux says of it and what it leaves of it.

`CRUX_NODES_MODELS` names entries of the zoo (all), `CRUX_SEEDED_ZOO` a folder to keep them in,
`CRUX_NODES_FAULTS` how many changes a model, `CRUX_NODES_KINDS` which kinds, `CRUX_NODES_SEED` the draw.
`CRUX_SEEDED_BENCH` names a folder with another `wrong_optimiser.py`, whose faults are taken in the place of
those of `wrong_nodes.py`, in exported models; `-k reduced` is for these. See BENCHMARKS.md.
"""

import importlib
import os
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median

import onnx
import pytest

from corpus.case import Case
from oracles.verdict import Outcome, Verdict
from reducer.api import reduce_case
from reducer.course import DoesNotFail, Options
from tests.bench import wrong_nodes
from tests.bench.seeding import OF_A_KIND, Fault, Planter, planting, tells, zoo_cases

pytestmark = [pytest.mark.bench, pytest.mark.timeout(0)]
SEEDED = os.environ.get("CRUX_SEEDED_BENCH", "")
NAMES = tuple(filter(None, os.environ.get("CRUX_NODES_MODELS", "").split(",")))
FAULTS = int(os.environ.get("CRUX_NODES_FAULTS", "4" if SEEDED else "3"))
KINDS = tuple(filter(None, os.environ.get("CRUX_NODES_KINDS", "").split(",")))
SEED = int(os.environ.get("CRUX_NODES_SEED", "5" if SEEDED else "1"))
FEW_NODES = 2


@pytest.fixture
def planter(monkeypatch: pytest.MonkeyPatch) -> Iterator[Planter]:
    monkeypatch.syspath_prepend(SEEDED)
    with planting(importlib.import_module("wrong_optimiser") if SEEDED else wrong_nodes) as opened:
        yield opened


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, Case]]:
    return list(zoo_cases(tmp_path_factory.mktemp("zoo"), NAMES, exported=bool(SEEDED)))


def test_seen(planter: Planter, cases: list[tuple[str, Case]], say) -> None:
    """How many wrong nodes are called a wrong result, by kind and in quantised models; how many are named."""
    seen: dict[str, Counter[bool]] = {}
    named: Counter[str] = Counter()
    of_a_kind = OF_A_KIND if SEEDED else 1
    for name, case in cases:
        faults = planter.faults(case, every=False, seed=SEED, of_a_kind=of_a_kind, only=KINDS)
        for fault in islice(faults, FAULTS):
            started = time.process_time()
            verdict = planter.judge.verdict(case)
            is_seen = verdict.outcome is Outcome.MISMATCH
            where = _named(planter, case, fault, verdict) if is_seen and SEEDED else ""
            named.update([where or "another"] if is_seen and SEEDED else [])
            for key in (fault.plan["kind"], "all", *(["quantised"] if _is_quantised(case) else [])):
                seen.setdefault(key, Counter())[is_seen] += 1
            word = f"seen   {where}" if is_seen else f"MISSED {verdict.title} {verdict.notes}"
            spent = time.process_time() - started
            say(f"{name}: {fault} at {fault.nodes[0].output[0]}: {word} {spent:.1f}")
        planter.plan = None
    for key, counts in seen.items():
        say(f"| {key} | {counts[True]} of {counts.total()} |")
    say(f"the first wrong tensor is of {dict(named)}")


def _named(planter: Planter, case: Case, fault: Fault, verdict: Verdict) -> str:
    explained = planter.judge.explain(case, verdict)
    located = explained.wrong.located if explained.wrong is not None else None
    if located is None:
        return ""
    planter.plan = None
    optimised = partial(planter.judge.executor.optimised, case, planter.judge.configs[1])
    return tells(located.tensor, fault, case, optimised)


def _is_quantised(case: Case) -> bool:
    return any("uantize" in node.op_type or "Integer" in node.op_type for node in case.parsed.graph.node)


@pytest.mark.skipif(not SEEDED, reason="CRUX_SEEDED_BENCH is unset")
def test_reduced(planter, cases, tmp_path, say):
    """Of a fault in every node of an operator: how many nodes are left, that operator among them."""
    good: Counter[bool] = Counter()
    checks = []
    for name, case in cases:
        fault = next(planter.faults(case, every=True), None)
        if fault is None:
            continue
        planter.plan = fault.plan
        left, count = _reduced(planter, case, tmp_path / name)
        planter.plan = None
        is_good = 0 < len(left) <= FEW_NODES and fault.nodes[0].op_type in left
        good[is_good] += 1
        checks.append(count)
        say(f"{'least' if is_good else 'NOT'} {name}: {fault}: {left} in {count}")
    say(f"{good[True]} of {good.total()} reduced; checks: median {median(checks)}, most {max(checks)}")


def _reduced(planter: Planter, case: Case, out: Path) -> tuple[list[str], int]:
    options = Options(target=planter.judge.target)
    try:
        done = reduce_case(case, out, options, judge=planter.judge)
    except DoesNotFail:
        return [], 0
    return [node.op_type for node in onnx.load(out / "model.onnx").graph.node], done.checks
