"""Measurement: one node changed behind onnxruntime's back, and what crux says of it.

`CRUX_NODES_MODELS` names entries of the zoo (all), `CRUX_SEEDED_ZOO` a folder to keep them in,
`CRUX_NODES_FAULTS` how many changes a model, `CRUX_NODES_KINDS` which kinds, `CRUX_NODES_SEED` the draw.
See BENCHMARKS.md.
"""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from corpus.case import Case
from corpus.load import open_case
from corpus.target import Target
from oracles.judge import Judge
from oracles.verdict import Outcome
from tests.bench import cores, wrong_nodes
from tests.bench.seeding import Planter

pytestmark = [pytest.mark.bench, pytest.mark.timeout(0)]
NAMES = os.environ.get("CRUX_NODES_MODELS", "").split(",")
FAULTS = int(os.environ.get("CRUX_NODES_FAULTS", "3"))
KINDS = tuple(filter(None, os.environ.get("CRUX_NODES_KINDS", "").split(",")))
SEED = int(os.environ.get("CRUX_NODES_SEED", "1"))

HOOK = """
import sys, importlib.abc, importlib.util
class Find(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "onnxruntime":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module
        def exec_module(module):
            run(module)
            import wrong_nodes
            wrong_nodes.install()
        spec.loader.exec_module = exec_module
        return spec
sys.meta_path.insert(0, Find())
"""


def wrong_python(folder: Path) -> Path:
    """An interpreter whose onnxruntime optimises as `folder`/plan.json says."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    packages = next((folder / "lib").glob("python*")) / "site-packages"
    (packages / "base.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    (packages / "sitecustomize.py").write_text(HOOK)
    for module in (wrong_nodes, cores):
        shutil.copy(module.__file__, packages)
    (packages / "wrong_optimiser_plan.py").write_text(f"PATH = {str(folder / 'plan.json')!r}\n")
    (folder / "plan.json").write_text("null")
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def planter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planter]:
    folder = tmp_path_factory.mktemp("wrong")
    with Judge(Target.parse(f"ort@python={wrong_python(folder)}")) as judge:
        yield Planter(judge, folder / "plan.json", wrong_nodes)


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, Case]]:
    pytest.importorskip("onnxscript")
    from tests.zoo.models import ZOO, build

    kept = os.environ.get("CRUX_SEEDED_ZOO")
    folder = Path(kept) if kept else tmp_path_factory.mktemp("zoo")
    chosen = [each for each in ZOO if NAMES == [""] or each.name in NAMES]
    return [(entry.name, open_case(build(entry, folder))) for entry in chosen]


def test_seen(planter: Planter, cases: list[tuple[str, Case]], capsys: pytest.CaptureFixture[str]) -> None:
    """How many wrong nodes are called a wrong result, by kind and in quantised models."""
    seen: dict[str, Counter[bool]] = {}
    for name, case in cases:
        for fault in islice(planter.faults(case, every=False, seed=SEED, of_a_kind=1, only=KINDS), FAULTS):
            started = time.process_time()
            verdict = planter.judge.verdict(case)
            is_seen = verdict.outcome is Outcome.MISMATCH
            for key in (fault.plan["kind"], "all", *(["quantised"] if _is_quantised(case) else [])):
                seen.setdefault(key, Counter())[is_seen] += 1
            with capsys.disabled():
                word = "seen" if is_seen else "MISSED"
                at = (
                    f"at {fault.plan['node']}" if is_seen else f"{fault.plan} {verdict.title} {verdict.notes}"
                )
                print(f"{word:6} {name}: {fault} {at} {time.process_time() - started:.1f}", flush=True)
        planter.plant(None)
    with capsys.disabled():
        for key, counts in seen.items():
            print(f"| {key} | {counts[True]} of {counts.total()} |")


def _is_quantised(case: Case) -> bool:
    return any("uantize" in node.op_type or "Integer" in node.op_type for node in case.parsed.graph.node)
