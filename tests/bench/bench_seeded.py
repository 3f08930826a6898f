"""Measurement: wrong optimisers planted into the models of the zoo, and what crux sees of them.

`CRUX_SEEDED_BENCH` names the folder with `make_python.py` and `wrong_optimiser.py`; `CRUX_SEEDED_MODELS` the
entries of the zoo (all), `CRUX_SEEDED_ZOO` a folder to keep them in, `CRUX_SEEDED_FAULTS` how many a model.
`-k seen` and `-k reduced` are the two measurements. See BENCHMARKS.md.
"""

import importlib.util
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from types import ModuleType

import onnx
import pytest

from corpus.case import Case
from corpus.load import open_case
from corpus.target import Target
from oracles.judge import Judge
from oracles.verdict import Outcome, Verdict
from reducer.api import DoesNotFail, reduce_case
from reducer.course import Options
from tests.bench.seeding import Fault, Planter, tells

pytestmark = [pytest.mark.bench, pytest.mark.timeout(0)]
BENCH = Path(os.environ.get("CRUX_SEEDED_BENCH", "/nowhere"))
NAMES = os.environ.get("CRUX_SEEDED_MODELS", "").split(",")
FAULTS = int(os.environ.get("CRUX_SEEDED_FAULTS", "4"))
FEW_NODES = 2

needs_bench = pytest.mark.skipif(
    not (BENCH / "make_python.py").is_file(), reason="CRUX_SEEDED_BENCH is unset"
)


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    kept = os.environ.get("CRUX_SEEDED_ZOO")
    return Path(kept) if kept else tmp_path_factory.mktemp("zoo")


@pytest.fixture(scope="module")
def planter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planter]:
    folder = tmp_path_factory.mktemp("wrong")
    subprocess.run([sys.executable, BENCH / "make_python.py", folder], check=True, stdout=subprocess.DEVNULL)
    target = Target.parse(f"ort@python={folder / 'bin' / 'python'}")
    with Judge(target) as judge:
        yield Planter(judge, folder / "plan.json", _wrong_optimiser())


def _wrong_optimiser() -> ModuleType:
    spec = importlib.util.spec_from_file_location("wrong_optimiser", BENCH / "wrong_optimiser.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cases(zoo: Path) -> Iterator[tuple[str, Case]]:
    """The chosen models that torch has exported."""
    pytest.importorskip("onnxscript")
    from tests.zoo.models import ZOO, build

    for entry in ZOO:
        if entry.net is not None and (NAMES == [""] or entry.name in NAMES):
            yield entry.name, open_case(build(entry, zoo))


@needs_bench
def test_seen(planter, zoo, capsys):
    """How many faults are called a wrong result, and of how many the node is named."""
    seen: Counter[bool] = Counter()
    named: Counter[str] = Counter()
    for name, case in cases(zoo):
        for fault in islice(planter.faults(case, every=False), FAULTS):
            verdict = planter.judge.explain(case, planter.judge.verdict(case))
            is_seen = verdict.outcome is Outcome.MISMATCH
            seen[is_seen] += 1
            where = _named(planter, case, fault, verdict) if is_seen else ""
            named.update([where or "another"] if is_seen else [])
            with capsys.disabled():
                print(_line("seen" if is_seen else "MISSED", name, fault, verdict, where), flush=True)
        planter.plant(None)
    with capsys.disabled():
        print(f"seen: {seen[True]} of {seen.total()}; the first wrong tensor is of {dict(named)}")


def _named(planter: Planter, case: Case, fault: Fault, verdict: Verdict) -> str:
    located = verdict.wrong.located if verdict.wrong is not None else None
    if located is None:
        return ""
    planter.plant(None)
    optimised = partial(planter.judge.executor.optimised, case, planter.judge.configs[1])
    return tells(located.tensor, fault, case, optimised)


def _line(word: str, name: str, fault: Fault, verdict: Verdict, where: str) -> str:
    located = verdict.wrong.located if verdict.wrong is not None else None
    found = f"{located.op} {located.node} ({where or 'ANOTHER'})" if located else verdict.title[:60]
    return f"{word:6} {name}: {fault} at {fault.nodes[0].name or fault.nodes[0].output[0]}: {found}"


@needs_bench
def test_reduced(planter, zoo, tmp_path, capsys):
    """Of a fault in every node of an operator: how many nodes are left, that operator among them."""
    good: Counter[bool] = Counter()
    checks = []
    for name, case in cases(zoo):
        fault = next(planter.faults(case, every=True), None)
        if fault is None:
            continue
        planter.plant(fault.plan)
        left, count = _reduced(planter, case, tmp_path / name)
        planter.plant(None)
        is_good = 0 < len(left) <= FEW_NODES and fault.nodes[0].op_type in left
        good[is_good] += 1
        checks.append(count)
        with capsys.disabled():
            print(f"{'least' if is_good else 'NOT'} {name}: {fault}: {left} in {count}", flush=True)
    with capsys.disabled():
        print(f"{good[True]} of {good.total()} reduced; checks: median {median(checks)}, most {max(checks)}")


def _reduced(planter: Planter, case: Case, out: Path) -> tuple[list[str], int]:
    options = Options(target=planter.judge.target)
    try:
        done = reduce_case(case, out, options, judge=planter.judge)
    except DoesNotFail:
        return [], 0
    return [node.op_type for node in onnx.load(out / "model.onnx").graph.node], done.checks
