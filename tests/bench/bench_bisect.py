"""Measurement: first bad and first fixed releases of labelled failures. See BENCHMARKS.md.

`CRUX_BISECT_BENCH` names a folder with a folder for each failure: a model, its inputs, and a `meta.json` with
package, version, verdict, confidence, and `by_version`: what some releases do with it (`same`: it shows).
"""

import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from corpus.target import Range, is_before
from triage.bisection.bisection import bisect_case, target_for
from triage.bisection.release_results import Settings
from triage.cases.sources import open_one
from triage.console.options import CaseOptions
from triage.console.status import PlainLines

pytestmark = [pytest.mark.bench, pytest.mark.timeout(7200)]
FOLDER = os.environ.get("CRUX_BISECT_BENCH", "")
CHANGING, STEADY = 15, 5
"""How many are drawn of those in which the releases differ, and of those in which all are the same."""


@pytest.mark.skipif(not FOLDER, reason="CRUX_BISECT_BENCH names no folder of labelled failures")
def test_first_bad_and_first_fixed_lie_where_the_labels_say(say):
    say("\n| Failure | Last good | First bad | First fixed | Releases tried | Inside |")
    say("|---|---|---|---|---|---|")
    inside = [_row(say, *each) for each in _sample()]
    say(f"{sum(inside)} of {len(inside)} inside the intervals")


def _sample() -> Iterator[tuple[Path, dict[str, Any]]]:
    rows = []
    for path in sorted(Path(FOLDER).glob("*/meta.json")):
        facts = json.loads(path.read_text())
        if facts["verdict"] == "bug" and facts["confidence"] != "low" and facts["by_version"]:
            rows.append((path.parent, facts))
    random.Random(20).shuffle(rows)
    changing = [row for row in rows if len({each["status"] for each in row[1]["by_version"].values()}) > 1]
    yield from changing[:CHANGING]
    yield from [row for row in rows if row not in changing][:STEADY]


def _row(say: Callable[..., None], folder: Path, facts: dict[str, Any]) -> bool:
    options = CaseOptions()
    case = open_one(str(folder), options)
    assert case.target is not None
    releases = list(facts["by_version"])
    asked = Range(releases[0], releases[-1])
    settings = Settings(facts["package"], asked, seen_on=facts["version"])
    found = bisect_case(case, options, settings, PlainLines())
    assert target_for(facts["package"], case.target) == case.target
    is_inside = _is_inside(found, facts)
    cells = [found[name] or "" for name in ("last_good", "first_bad", "first_fixed")]
    say(f"| {folder.name} | {' | '.join(cells)} | {len(found['tried'])} | {'yes' if is_inside else 'NO'} |")
    return is_inside


def _is_inside(found: dict[str, Any], facts: dict[str, Any]) -> bool:
    """Whether both releases lie between the labelled ones that differ, round the one that is labelled."""
    releases = list(facts["by_version"])
    is_same = [facts["by_version"][each]["status"] == "same" for each in releases]
    first = last = releases.index(facts["version"])
    while first > 0 and is_same[first - 1]:
        first -= 1
    while last + 1 < len(releases) and is_same[last + 1]:
        last += 1
    bad, fixed = found["first_bad"], found["first_fixed"]
    before = releases[first - 1] if first else ""
    if bad is None or is_before(releases[first], bad) or (before and not is_before(before, bad)):
        return False
    if last + 1 == len(releases) or fixed is None:
        return last + 1 == len(releases) and fixed is None
    return is_before(releases[last], fixed) and not is_before(releases[last + 1], fixed)
