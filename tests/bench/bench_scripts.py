"""Measurement: scripts as people post them, run by `crux scrub`: what it takes for the failure, its cases.

`CRUX_SCRIPTS_BENCH` names a folder of issues and scripts to run besides; `CRUX_SCRIPTS_ONLY` is a pattern of
the styles to run.
"""

import os
import re
import time
from pathlib import Path

import pytest

from corpus.errors import UserError
from tests.bench.scripts_in_threads import posted
from triage.cases.scrubbing import take
from triage.cases.sources import Judges, judge_often
from triage.console.options import CaseOptions

pytestmark = pytest.mark.bench
MOST_CASES = 6


def scrubbed(path: Path, judges: Judges) -> tuple[str, str, str]:
    """What a script complains of, the target of the first case that fails so, and a line for a person."""
    try:
        taken = take(path, judges.options)
    except UserError as error:
        return "", "", str(error)
    judged = []
    for case in taken.cases[:MOST_CASES]:
        assert case.target is not None
        judged.append(judge_often(judges.of(case.target, case.format), case, 1)[1])
        if judged[-1]["bug"] and taken.fits(judged[-1]["outcome"]):
            break
    chosen = taken.likeliest(judged)
    told = (
        f"{len(taken.cases)} cases; {taken.complaint.title[:60]}; {chosen['title'][:60] if chosen else '-'}"
    )
    return taken.complaint.kind, chosen["target"].split("@")[0] if chosen else "", told


@pytest.mark.timeout(0)
def test_scripts_in_the_styles_of_threads(capsys, tmp_path):
    only, right, rows = os.environ.get("CRUX_SCRIPTS_ONLY", ""), 0, []
    with Judges(CaseOptions(trust=True)) as judges:
        for at, each in enumerate(posted()):
            if not re.search(only, each.style):
                continue
            path = tmp_path / f"{at}{each.suffix}"
            path.write_text(each.text)
            started = time.monotonic()
            kind, target, told = scrubbed(path, judges)
            is_right = (kind, target) == (each.kind, each.target)
            right += is_right
            rows.append(is_right)
            with capsys.disabled():
                mark = "taken" if is_right else f"NOT ({each.kind} {each.target} wanted: {kind} {target})"
                print(f"{time.monotonic() - started:5.0f} s  {each.style:50} {mark}; {told}", flush=True)
    with capsys.disabled():
        print(f"taken: {right} of {len(rows)}")


@pytest.mark.timeout(0)
@pytest.mark.skipif(
    "CRUX_SCRIPTS_BENCH" not in os.environ, reason="CRUX_SCRIPTS_BENCH names no folder of scripts"
)
def test_scripts_of_a_folder(capsys):
    with Judges(CaseOptions(trust=True)) as judges:
        for path in sorted(Path(os.environ["CRUX_SCRIPTS_BENCH"]).iterdir()):
            kind, target, told = scrubbed(path, judges)
            with capsys.disabled():
                print(f"{path.name:30} {kind or '-':10} {target or '-':10} {told}", flush=True)
