"""Measurement: a database of a million failures. See BENCHMARKS.md.

`CRUX_STORE_BENCH` is the number of failures, a million when unset.
"""

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from statistics import median

import pytest

from oracles.naming import Signature
from tests.helpers.failing import healthy, verdict
from triage.bugs.failures import record_failure, record_reduction
from triage.bugs.known import load_known
from triage.bugs.overview import overview
from triage.clustering.similarity import group_of
from triage.console.output import emit
from triage.store.clusters import BY_SIGNATURE, attach, keep_signature, open_cluster
from triage.store.database import Store
from triage.store.failures import find_clusters, list_failures

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]
FAILURES = int(os.environ.get("CRUX_STORE_BENCH", "1000000"))
BUGS = 1000
WORDS = [f"{first}{second}" for first in ("input", "shape", "axis", "type", "node") for second in range(60)]
OPS = [f"Op{number}" for number in range(40)]
NUMBERS = "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)"
CASES = f"""{NUMBERS} INSERT INTO cases
    SELECT printf('%064x', n), 'onnx', n, 'seed:' || n, n % 997, '{{}}', '' FROM numbers"""
MADE = f"""{NUMBERS} INSERT INTO failures (case_id, target, outcome, title, symptom, verdict, signature,
        cluster, status, reduced_case, release, first_seen, last_seen)
    SELECT printf('%064x', n), 'ort', 'exception', 'Fail: ' || title, 'exception | ' || title,
        printf('%0300d', n), signature, clusters.id, iif(n % 3, 'new', 'reduced'),
        iif(n % 3, NULL, printf('%064x', n)), '1.' || (20 + n % 12) || '.0', n, n
    FROM numbers JOIN clusters ON clusters.id = 1 + n % {BUGS} JOIN aliases ON cluster = clusters.id"""
REDUCED = f"""{NUMBERS} INSERT INTO reductions (failure, reduced_case, status, document, finished)
    SELECT n, printf('%064x', n), 'reduced',
        json_object('nodes_before', n % 300, 'nodes_after', 2, 'checks', 20, 'ops', json_array('Relu'),
                    'passes', json_array('Pass' || (n % {BUGS}))), ''
    FROM numbers WHERE n % 3 = 0"""


def message(draw: random.Random) -> str:
    return " ".join(draw.choices(WORDS, k=draw.randint(8, 25)))


def named(draw: random.Random) -> Signature:
    """A signature as an exception of onnxruntime has it, unlike the others in its words."""
    site = f"{draw.choice(WORDS)}.cc {draw.choice(WORDS).title()}::Compute"
    components = (("backend", "ort"), ("outcome", "exception"), ("phase", "optimise"), ("site", site))
    return Signature.of(*components, ("op", draw.choice(OPS)), ("message", message(draw)))


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Iterator[Store]:
    """A thousand bugs, each the cause of as many failures; every third failure is reduced."""
    draw = random.Random("a million failures")
    path = tmp_path_factory.mktemp("store") / "crux.db"
    with Store(path) as opened, opened.transaction():
        for _ in range(BUGS):
            found = named(draw)
            keep_signature(opened, found, " ".join(group_of(found) or ()))
            attach(opened, found.digest, open_cluster(opened, message(draw)), BY_SIGNATURE, 1.0, "made")
        for statement in (CASES, MADE, REDUCED):
            opened.write(statement, (FAILURES,))
        opened.write("INSERT INTO origins SELECT id, 'seed:' || id FROM failures")
    with Store(path) as opened:
        yield opened


def seconds(act: Callable[[], object], repeat: int = 5) -> tuple[float, float]:
    """Median and worst of CPU time, the first time apart from the others being warm."""
    taken = []
    for _ in range(repeat):
        start = time.process_time()
        act()
        taken.append(time.process_time() - start)
    return median(taken), max(taken)


def test_a_large_database(store, say):
    draw = random.Random("new ones")
    count = iter(range(10**9))

    def list_clusters() -> None:
        with redirect_stdout(StringIO()):
            emit(overview(store, load_known(store.path)), as_json=True, show=lambda documents: "")

    def record(text: Callable[[], str]) -> None:
        record_failure(store, healthy(10**6 + next(count)), verdict(text()))

    waiting = iter(list_failures(store, status="new", most=100))

    def reduce() -> None:
        record_reduction(store, next(waiting), healthy(next(count)), verdict(), named(draw), {})

    def known() -> None:
        record(lambda: "the same")

    def fresh() -> None:
        record(lambda: message(draw))

    rows = {
        "list the clusters, as JSON": list_clusters,
        "record a failure of a known symptom": known,
        "record a failure of a new symptom": fresh,
        "give a reduced failure with a new signature its cluster": reduce,
        "search for two words": lambda: find_clusters(store, "shape12 axis7"),
    }
    size = sum(path.stat().st_size for path in store.path.parent.glob("crux.db*") if path.is_file())
    say(f"\n{FAILURES:,} failures of {BUGS} bugs, {size / 1e6:.0f} MB")
    say("| | CPU ms, median | most |\n|---|---|---|")
    for name, act in rows.items():
        middle, worst = seconds(act)
        say(f"| {name} | {1000 * middle:.1f} | {1000 * worst:.1f} |")
