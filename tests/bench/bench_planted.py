"""Measurement: clusters of wrong results, scored by the fault that was planted in a small compiler.

Each failing program is reduced, named and put into a database as any failure is. See BENCHMARKS.md.
"""

from collections import Counter, defaultdict

import pytest

from corpus.target import Target
from oracles.judge import Judge
from reducer.api import reduce_case
from reducer.course import Options
from tests.bench.bench_triage import b_cubed, pairwise
from tests.bench.planted_cases import FRAGMENTS, planted_case
from triage.bugs.failures import record_failure, record_reduction
from triage.reductions.explained import name_reduced
from triage.store.database import Store

pytestmark = pytest.mark.bench
SEEDS = 6
TARGET = Target("planted")


@pytest.mark.timeout(0)
@pytest.mark.parametrize("knows_passes", [True, False], ids=["passes known", "passes unknown"])
def test_clusters_of_planted_faults(capsys, tmp_path, knows_passes, plant):
    plant("planted")
    labels, found, names = {}, {}, {}
    with Judge(TARGET) as judge, Store(tmp_path / "crux.db") as store:
        for fault, fragment in FRAGMENTS.items():
            for seed in range(SEEDS):
                case = planted_case(fault, fragment, seed)
                verdict = judge.verdict(case)
                if not verdict.is_bug:
                    continue
                key = f"{fault}/{seed}"
                labels[key] = fault
                done = reduce_case(case, tmp_path / key.replace("/", "-"), Options(target=TARGET))
                passes = done.passes.minimal if done.passes and knows_passes else ()
                names[key] = name_reduced(done.case, done.verdict, passes)
                failure = record_failure(store, case, verdict)
                found[key] = record_reduction(
                    store, failure, done.case, done.verdict, names[key], done.to_json()
                ).id
        rows = {int(row["id"]): row["cluster"] for row in store.rows("SELECT id, cluster FROM failures")}
    found = {key: rows[number] for key, number in found.items()}
    with capsys.disabled():
        show(labels, found, names)


def show(labels, found, names):
    precision, recall, f1 = pairwise(labels, found)
    print(f"\n{len(labels)} failing programs of {len(set(labels.values()))} planted faults")
    print("| Precision | Recall | F1 | B-cubed F1 |\n|---|---|---|---|")
    print(f"| {precision:.3f} | {recall:.3f} | {f1:.3f} | {b_cubed(labels, found):.3f} |")
    by_fault, by_cluster = defaultdict(Counter), defaultdict(Counter)
    for key, fault in labels.items():
        by_fault[fault][found[key]] += 1
        by_cluster[found[key]][fault] += 1
    for name, counts in [*by_fault.items(), *by_cluster.items()]:
        if len(counts) > 1:
            print(f"{name}: {dict(counts)}")
            for key in labels:
                if name in (labels[key], found[key]):
                    print(f"    {key}: {names[key]}")
