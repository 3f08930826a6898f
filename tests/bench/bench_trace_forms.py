"""Measurement: clusters of a campaign's own failure texts, each put into forms that others print them in.

`CRUX_FORMS_BENCH` names a database and `CRUX_FORMS_LABELS` a JSON file, {failure: cause}, of a campaign that
the rules were not written on. By a rule, nothing is chosen: of each labelled exception the whole text in two
of the forms in turn, up to `MOST` texts, causes in turns.
"""

from __future__ import annotations

import html
import itertools
import json
import os
from collections import defaultdict
from pathlib import Path

import pytest

from tests.bench.bench_triage import METHODS, b_cubed, pairwise
from triage.store.database import Store
from triage.store.failures import list_failures, verdict_of

pytestmark = pytest.mark.bench
DATABASE, LABELS = os.environ.get("CRUX_FORMS_BENCH", ""), os.environ.get("CRUX_FORMS_LABELS", "")
MOST = 40


def pytest_form(text):
    """What pytest prints of an exception: each line of the error behind an `E`."""
    return "\n".join(["    def test_model():", ">       session.run(None, feeds)", *_behind("E   ", text)])


def container_log(text):
    """A container's log: stream and time before each line."""
    return "\n".join(f"2026-11-22T16:04:{at % 60:02d}.1Z stderr F {line}" for at, line in _numbered(text))


def quoted(text):
    """A text as a reply to an issue quotes it."""
    return "\n".join(["> I get this since the update:", "> ```", *_behind("> ", text), "> ```"])


def json_line(text):
    """One line of a structured log."""
    return json.dumps({"level": "error", "logger": "serving", "msg": text})


def actions_log(text):
    """A step's log of GitHub's runners, with a colour for errors."""
    lines = (f"2026-11-22T16:04:{at % 60:02d}.1234567Z {line}" for at, line in _numbered(text))
    return "\n".join(
        [*lines, "2026-11-22T16:05:00.0000000Z \x1b[31m##[error]Process completed with exit code 1."]
    )


def junit(text):
    """A failure in a report of tests."""
    body = html.escape(text)
    return f'<testcase classname="m" name="t"><failure message="failed">{body}</failure></testcase>'


def logger(text):
    """What `logging` writes of an exception: a line of its own before, its time once."""
    return f"2026-11-22 16:04:01,120 ERROR serve [worker-3]: request 812 failed\n{text}"


def boxed(text):
    """A box around each line, as rich draws it."""
    width = max((len(line) for line in text.splitlines()), default=0)
    inner = [f"│ {line.ljust(width)} │" for line in text.splitlines()]
    return "\n".join([f"╭─ Error {'─' * width}╮", *inner, f"╰{'─' * width}╯"])


def listed(text):
    """A code block within a list of a report: each line set in."""
    return "\n".join(["1. run the model", "", *_behind("        ", text)])


def windows(text):
    """A console of Windows: its paths and ends of lines."""
    return text.replace("/", "\\").replace("\n", "\r\n")


def prefixed(text):
    """What a runner of many processes puts before each line: rank and program."""
    return "\n".join(_behind("[rank0][serve]: ", text))


def tabbed(text):
    """A log of fields: time, level, logger, and the line in quotes."""
    return "\n".join(f'16:04:01\tERROR\tserve\t"{line}"' for line in text.splitlines())


FORMS = (pytest_form, container_log, quoted, json_line)
LATER_FORMS = (actions_log, junit, logger, boxed)
LAST_FORMS = (listed, windows, prefixed, tabbed)
"""Each written after the rules that read the ones before."""


def _behind(prefix, text):
    return [prefix + line for line in text.splitlines()]


def _numbered(text):
    return enumerate(text.splitlines())


@pytest.mark.skipif(not (DATABASE and LABELS), reason="CRUX_FORMS_BENCH and CRUX_FORMS_LABELS are not set")
@pytest.mark.parametrize("forms", [FORMS, LATER_FORMS, LAST_FORMS], ids=["first", "later", "last"])
def test_texts_of_a_campaign_in_other_forms(capsys, forms):
    labels, texts = read(json.loads(Path(LABELS).read_text()), forms)
    with capsys.disabled():
        print(f"\n{len(texts)} texts of {len(set(labels.values()))} causes in {len(forms)} forms")
        print("| Method | Precision | Recall | F1 | B-cubed F1 |\n|---|---|---|---|---|")
        for method, cluster in METHODS.items():
            found = cluster(texts)
            figures = (*pairwise(labels, found), b_cubed(labels, found))
            print(f"| {method} | {' | '.join(f'{figure:.3f}' for figure in figures)} |")


def read(causes, forms):
    """The labels and the texts by name: failures of each cause in turns, in the order in which they came."""
    by_cause = defaultdict(list)
    with Store(Path(DATABASE)) as store:
        for failure in list_failures(store):
            if failure.name in causes and (text := text_of(verdict_of(store, failure.id))):
                by_cause[causes[failure.name]].append((failure.name, text))
    turns = itertools.chain.from_iterable(itertools.zip_longest(*by_cause.values()))
    labels, texts = {}, {}
    for place, (name, text) in enumerate(filter(None, turns)):
        for form in (forms[place % len(forms)], forms[(place + 1) % len(forms)]):
            if len(texts) < MOST:
                key = f"ort131.{name}.{form.__name__}"
                labels[key], texts[key] = causes[name], form(text)
    return labels, texts


def text_of(verdict):
    """What the failing run said: its traceback with the exception's own line; nothing of a wrong result."""
    failing = next((run for run in verdict["runs"] if run["status"] != "ok"), None)
    if verdict["outcome"] != "exception" or failing is None or not failing["error"]:
        return ""
    trace = failing["trace"].rstrip()
    head = f"onnxruntime.capi.onnxruntime_pybind11_state.{failing['error']}: {failing['message']}"
    return trace if failing["message"][:60] in trace else f"{trace}\n{head}"
