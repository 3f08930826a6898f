"""What a campaign of a million tests keeps: its database and memory over tests; nothing is compiled or run.

Programs of `mixed` are made once; what they cover is told again and again by the fuzzing loop of `crux fuzz`
with its lessons and its database, and every test covers shapes that none before it had, so that what is
learned grows for as long as it may. `CRUX_LONG_TESTS` says how many tests (1,000,000).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from generators.feedback import MOST_PIECES, NOTHING, CoverageSnapshot
from generators.fuzz import Tested as OneTest
from generators.fuzz import judge_cases
from generators.mixture import PLAN, make_tests
from oracles.run import Phase
from oracles.verdict import Outcome, Verdict
from tests.triage.failing import ORT
from triage.campaigns.coverage_sync import CoverageSync
from triage.campaigns.fuzzing import Fuzzer
from triage.campaigns.testers import Testers as SomeTesters
from triage.console.options import CaseOptions
from triage.store.database import Store

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3000)]
TESTS = int(os.environ.get("CRUX_LONG_TESTS", "1000000"))
RECORDED, NEW_SHAPES, MARKS = 2048, 2, 10
TABLES = ("lessons", "learned", "arms", "arm_costs", "runs", "refusals")


def recorded() -> list[OneTest]:
    """The tests of some programs, as if each had passed."""
    fine = Verdict(Outcome.PASS, Phase.EXECUTE, "")
    drawn = make_tests(PLAN, range(RECORDED), NOTHING)
    return list(judge_cases(drawn, lambda case, thorough: fine, float("inf")))


class Retelling(Fuzzer):
    """A fuzzer whose tester tells what was recorded, with shapes that are new."""

    told: list[OneTest]

    @property
    def _open(self) -> Callable[..., AbstractContextManager[SomeTesters]]:
        @contextmanager
        def testers(*_: object, **__: object) -> Iterator[SomeTesters]:
            yield SomeTesters([self._tester], "1")

        return testers

    def _tester(self, seeds: range, seconds: float, lesson: CoverageSnapshot | None) -> Iterator[OneTest]:
        for seed in seeds:
            old = self.told[seed % RECORDED]
            shapes = {f"Relu:({seed}, {each})": 1 for each in range(NEW_SHAPES)}
            yield replace(old, seed=seed, covered={**old.covered, **shapes})


def size(store: Store) -> int:
    """Bytes of the database with its log."""
    found = (Path(f"{store.path}{end}") for end in ("", "-wal"))
    return sum(path.stat().st_size for path in found if path.exists())


def memory() -> int:
    """Bytes of memory that this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_campaign_of_a_million_tests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told, begun = recorded(), memory()
    with Store(tmp_path / "crux.db") as store:
        with Retelling(store, CaseOptions(seed=0), ORT, "fuzz") as fuzzer, capsys.disabled():
            fuzzer.told = told
            before = time.process_time()
            print(
                "\ntests, ms of CPU a test since the last line, pieces learned, database MB, memory MB, rows"
            )
            for each in fuzzer.stretch(tests=TESTS):
                if each.tally.tests % (TESTS // MARKS):
                    continue
                now, rows = time.process_time(), {name: store.count(name) for name in TABLES}
                print(
                    f"  {each.tally.tests:,}: {1000 * (now - before) / (TESTS // MARKS):.3f},"
                    f" {fuzzer.coverage:,}, {size(store) / 1e6:.1f}, {(memory() - begun) / 1e6:.0f},"
                    f" {' '.join(f'{name} {count}' for name, count in rows.items())}",
                    flush=True,
                )
                before = time.process_time()
        before = time.process_time()
        again = CoverageSync(store, str(ORT), None)
        with capsys.disabled():
            print(f"  taken up again at {again.seed:,} in {time.process_time() - before:.1f} CPU s")
        assert again.seed == TESTS
        assert again.coverage <= MOST_PIECES + NEW_SHAPES * 16 * 128 + len(told) * 64
