"""Relax programs beside imported ones and around patterns; never asserted.

`-k hold`: operators, dtypes, ranks, neighbours, passes that change something and in what way, of as many
programs each, with those made a CPU-second. `-k met`: TVM's operators in 2,000 programs. `-k run`: how many
of 150 run un-optimised. `-k change`: which of TVM's passes change one of 200 imported programs.
"""

import base64
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from corpus.case import Case, Remark
from corpus.target import Target
from generators.feedback import BLOCK
from generators.mixture import Plan, make_cases, make_tests
from generators.mutations.modes import Mode
from oracles.judge import Judge
from oracles.worker.tvm.passes import PASSES
from tests.bench import nnsmith
from tests.helpers.campaigns import taught
from tests.helpers.commands import completed

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3000)]

ROOT = Path(__file__).parents[2]
BENCH = Path(__file__).parent
COUNT = int(os.environ.get("CRUX_BENCH_PROGRAMS", "64"))
NODES, SEED, STRIDE = 10, 8_300_000, 10
"""Every tenth program is looked at: the strategies of `mixed` come in blocks of seeds."""
LONG = 25
"""Bindings of a typed program that holds as many calls as an imported one of `NODES` nodes."""


@dataclass
class Made:
    """Programs of one way of making them, and the CPU seconds that one took."""

    name: str
    cases: list[Case]
    each: float


def of_strategy(strategy: str, nodes: int = NODES) -> Made:
    plan = Plan(strategy, Mode.STRICT, nodes=nodes, sequences=False)
    before = time.process_time()
    drawn = list(islice(make_tests(plan, range(SEED, SEED + STRIDE * COUNT)), STRIDE * COUNT))
    spent = time.process_time() - before
    name = strategy if nodes == NODES else f"{strategy}, {nodes} bindings"
    return Made(name, [each.case for each in drawn][::STRIDE], spent / len(drawn))


def of_nnsmith(folder: Path) -> Made:
    programs, moments = nnsmith.made(folder, nodes=NODES, models=COUNT, seconds=60)
    return Made("NNSmith", [each.as_case(0) for each in programs], moments[-1] / len(programs))


def looked(cases: list[Case]) -> list[dict[str, Any]]:
    """Ask what each holds and which passes change it, in processes of TVM's."""
    items = [{"format": each.format, "program": base64.b64encode(each.program).decode()} for each in cases]
    done = subprocess.run(
        [sys.executable, str(BENCH / "relax_looks.py")],
        input="".join(json.dumps(item) + "\n" for item in items).encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "TVM_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def effects_of(answers: list[dict[str, Any]]) -> set[str]:
    return {json.dumps([name, *kinds]) for each in answers for name, kinds in each.get("pass", {}).items()}


def distinct(answers: list[dict[str, Any]], key: str) -> int:
    return len({one for each in answers for one in each.get(key, ())})


def fired(made: Made, answers: list[dict[str, Any]]) -> str:
    """Say how many placed patterns fire (ours), and on how many programs one does (OATest's)."""
    pairs = zip(made.cases, answers, strict=True)
    told = [(case.remarks(Remark.PATTERN), each.get("pass", {})) for case, each in pairs if "op" in each]
    placed = [(name, changed) for names, changed in told for name in names]
    around = [names for names in told if names[0]]
    if not placed:
        return ""
    here = sum(name in changed for name, changed in placed)
    programs = sum(any(name in changed for name in names) for names, changed in around)
    return f", {here} of {len(placed)} patterns fire, one on {programs} of {len(around)}"


def line_of(made: Made) -> str:
    answers = looked(made.cases)
    good = [each for each in answers if "op" in each]
    failed = Counter(each["failed"] for each in answers if "failed" in each)
    effects, cpu = len(effects_of(good)), len(answers) * made.each + sum(each["cpu"] for each in answers)
    sizes = " ".join(f"{distinct(good, key):5}" for key in ("op", "dtype", "rank", "edge", "pass"))
    calls = sum(each["calls"] for each in good)
    return (
        f"{made.name:26} {len(good):3} of {len(answers):3} modules, {calls:5} calls, {sizes}, "
        f"{effects:5} (pass, kinds), {60 * effects / cpu:5.0f} a CPU-minute, {1 / made.each:6.0f} made a "
        f"CPU-second, {dict(failed)}{fired(made, answers)}"
    )


def of_high_order() -> Made:
    """Programs of a campaign that learns which passes fire together."""
    plan = Plan("relax_high_order", Mode.STRICT, nodes=NODES, sequences=False)
    with Judge(Target("tvm")) as judge:
        blocks = list(taught(plan, judge, -(-COUNT // BLOCK), SEED))
    cases = [case for cases, _ in blocks for case in cases]
    return Made("relax_high_order", cases[:COUNT], sum(spent for _, spent in blocks) / len(cases))


def of_patterns(name: str, source: Path | None = None) -> Made:
    plan = Plan("relax_patterns", Mode.STRICT, nodes=NODES, source=source, sequences=False)
    list(make_tests(plan, range(1)))  # reads the patterns
    before = time.process_time()
    cases = [each.case for each in make_tests(plan, range(SEED, SEED + COUNT))]
    return Made(name, cases, (time.process_time() - before) / len(cases))


def test_what_programs_hold_and_which_passes_change_them(say, tmp_path):
    pytest.importorskip("tvm_ffi", reason="tvm is not installed")
    ways: list[Callable[[], Made]] = [
        lambda: of_strategy("relax"),
        lambda: of_strategy("mixed"),
        *([lambda: of_nnsmith(tmp_path)] if nnsmith.PYTHON else []),
        lambda: of_strategy("relax", LONG),
        lambda: of_patterns("relax_patterns"),
        of_high_order,
        lambda: of_strategy("random"),
        lambda: of_strategy("coverage"),
    ]
    say(f"\n{COUNT} programs of {NODES} nodes each, TVM: operators, by dtype, by rank, edges, passes")
    for way in ways:
        say(line_of(way()))


def of_seeds(start: int, count: int) -> Iterator[Case]:
    plan = Plan("relax", Mode.STRICT, nodes=NODES, sequences=False)
    return (each.case for each in make_tests(plan, range(start, start + count)))


def test_which_passes_change_a_module_that_was_imported(say):
    pytest.importorskip("tvm_ffi", reason="tvm is not installed")
    plan = Plan("random", Mode.STRICT, nodes=NODES, passes_of="tvm")
    answers = looked(list(make_cases(plan, range(60_000_000, 60_000_200))))
    changing = {name for each in answers for name in each.get("pass", ())}
    lowered = [name for name in PASSES if name.startswith(("tirx.", "s_tir."))]
    for kind, names in {"Relax": PASSES.keys() - lowered, "tirx and s_tir": {*lowered}}.items():
        never = sorted(names - changing)
        say(f"\n{kind}: {len(names) - len(never)} of {len(names)}; never: {' '.join(never)}")


LIST = "import tvm.relax; print(*tvm.ir.Op.list_op_names())"


def test_how_many_of_tvms_operators_are_met(say):
    pytest.importorskip("tvm_ffi", reason="tvm is not installed")
    done = completed([sys.executable, "-c", LIST], check=True)
    known = {name for name in done.stdout.split() if name.startswith("relax.")}
    text = b"".join(each.program for each in of_seeds(SEED, 2_000)).decode("utf-8", "replace")
    met = {name for name in known if f'"{name}"' in text}
    say(f"\n{len(met)} of {len(known)} operators; not met: {' '.join(sorted(known - met))}")


def test_how_many_programs_run_un_optimised(say):
    pytest.importorskip("tvm_ffi", reason="tvm is not installed")
    with Judge(Target("tvm"), format="relax") as judge:
        runs = [judge.runs(case, judge.configs[:1])[0] for case in of_seeds(94_000_000, 150)]
    failed = Counter(run.message.partition("\n")[0][:80] for run in runs if not run.is_ok)
    say(f"\n{sum(run.is_ok for run in runs)} of {len(runs)} run; {dict(failed)}")
