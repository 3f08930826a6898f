"""Measurement: databases of many shards imported one after the other into one.

`CRUX_SHARDS` (20) databases of `CRUX_SHARD_FAILURES` (200) failures of 50 bugs each; a thousand of a
thousand are a million. They stand on twenty cases: what a case's files cost is not in it. The clusters must
be those of one database that met all failures itself.
"""

import os
import random
import resource
import shutil
import time
from itertools import chain
from pathlib import Path

import pytest

from tests.bench.bench_store import MADE, message, named
from tests.helpers.failing import healthy
from triage.clustering.grouping import regroup
from triage.clustering.similarity import group_of
from triage.store.clusters import BY_SIGNATURE, attach, keep_signature, load_signature, open_cluster
from triage.store.database import Store
from triage.store.merging import take_in

pytestmark = [pytest.mark.bench, pytest.mark.timeout(0)]
SHARDS = int(os.environ.get("CRUX_SHARDS", "20"))
FAILURES = int(os.environ.get("CRUX_SHARD_FAILURES", "200"))
BUGS, OF_EACH, CASES = 200, 50, 20


def with_bugs(path: Path, numbers: list[int]) -> Store:
    """A database that knows some of the bugs."""
    store = Store(path)
    with store.transaction():
        for number in numbers:
            draw = random.Random(f"bug {number}")
            found = named(draw)
            keep_signature(store, found, " ".join(group_of(found) or ()))
            attach(store, found.digest, open_cluster(store, message(draw)), BY_SIGNATURE, 1.0, "made")
    return store


def fill(store: Store, first: int, bugs: int) -> None:
    """Failures from a number on, in turn of each bug that the database knows, on a few cases."""
    cases = [store.add_case(healthy(number)) for number in range(CASES)]
    told = "json_object('line', printf('%0280d', n))"
    with store.transaction():
        store.write("CREATE TEMP TABLE few (place INTEGER PRIMARY KEY, id TEXT)")
        for place, case in enumerate(cases):
            store.write("INSERT INTO few VALUES (?, ?)", (place, case))
        of = f"(SELECT id FROM few WHERE place = n % {CASES})"
        made = MADE.replace("printf('%064x', n)", of).replace("printf('%0300d', n)", told)
        made = made.replace("'ort'", f"'ort@n=' || (n + {first})").replace("n % 1000", f"n % {bugs}")
        store.write(made, (FAILURES,))
        store.write("INSERT INTO origins SELECT id, 'seed:' || target FROM failures")


def bugs_of(shard: int) -> list[int]:
    return sorted((shard * 7 + number * 13) % BUGS for number in range(OF_EACH))


def groups(store: Store) -> dict[str, frozenset[str]]:
    """The signatures of each cluster, by the smallest of them."""
    found: dict[int, set[str]] = {}
    for row in store.rows("SELECT signature, cluster FROM aliases"):
        found.setdefault(row["cluster"], set()).add(row["signature"])
    return {min(each): frozenset(each) for each in found.values()}


def test_shards_are_imported_in_bounded_memory(tmp_path, say):
    spent, most, rows = 0.0, [], []
    with Store(tmp_path / "all.db") as whole:
        for shard in range(SHARDS):
            path = tmp_path / "shard" / "crux.db"
            path.parent.mkdir()
            with with_bugs(path, bugs_of(shard)) as store:
                fill(store, shard * FAILURES, OF_EACH)
            start = time.process_time()
            take_in(whole, path, regroup)
            rows.append(time.process_time() - start)
            most.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
            shutil.rmtree(path.parent)
        spent = sum(rows)
        assert whole.count("failures") == SHARDS * FAILURES
        known = sorted({*chain.from_iterable(map(bugs_of, range(SHARDS)))})
        with with_bugs(tmp_path / "one.db", known) as one:
            for row in one.rows("SELECT * FROM signatures"):
                regroup(one, load_signature(row))
            assert groups(whole) == groups(one)
    say(f"\n{SHARDS} shards of {FAILURES}: {spent:.0f} CPU s, {1000 * spent / SHARDS:.0f} ms a shard,")
    tenth = max(1, SHARDS // 10)
    say(f"{1000 * sum(rows[:tenth]) / tenth:.0f} ms of the first tenth,", end=" ")
    say(f"{1000 * sum(rows[-tenth:]) / tenth:.0f} ms of the last;", end=" ")
    say(f"{most[tenth - 1]:.0f} MB after the first tenth, {most[-1]:.0f} MB at the end")
