"""`index.html`: every bug of a database on one page, without a network and without running anything."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpus.case import Case
from oracles.naming.names import names_of_case
from triage.bugs.known import KnownIssue
from triage.bugs.overview import overview
from triage.pages.reduction import MANY_NODES, curves
from triage.store.artifacts import REDUCTION_KEPT, find_artifact, last_report
from triage.store.clusters import BY_SYMPTOM, clusters, signatures_of
from triage.store.database import Store
from triage.store.failures import get_failure, sightings_of, verdict_of
from triage.store.names import failure_name, find_cluster, representative
from triage.store.runs import run_totals
from triage.views.bars import Bars, over_time
from triage.views.drawn import drawn
from triage.views.graph_picture import MOST_WHOLE, Dots, GraphPicture, Shown
from triage.views.listing import describe_value, list_case
from triage.views.marked_text import Piece, shown_text
from triage.views.privacy import scrub
from triage.views.rendering import hash_of, render

NAME = "index.html"
SCRIPT = """const centre = box => {
  const to = box.querySelector("svg").dataset;
  box.scrollTop = to.y - box.clientHeight / 2;
  box.scrollLeft = to.x - box.clientWidth / 2;
};
document.querySelectorAll(".wide").forEach(centre);
for (const part of document.querySelectorAll("details"))
  part.addEventListener("toggle", () => part.querySelectorAll(".wide").forEach(centre));"""
"""Brings the first kept node of a large picture into view; the page says all without it."""
Cells = Mapping[tuple[str, str], int]


@dataclass(frozen=True)
class Look:
    """What is drawn of one bug: its smallest case, the original, how it was reduced."""

    nodes: int
    listing: str
    inputs: tuple[tuple[str, str], ...]
    after: Shown | None
    before: Shown | None
    dots: Dots | None
    count: int
    text: tuple[Piece, ...]
    title: str
    failure: str
    curves: tuple[tuple[str, Any], ...]
    reduction: Mapping[str, Any]


@dataclass(frozen=True)
class Bug:
    """One cluster: its document, when and where it was seen, why its signatures are one, its look."""

    facts: Mapping[str, Any]
    first_seen: str
    last_seen: str
    seen: Cells
    why: tuple[tuple[str, str], ...]
    report: str
    look: Look


def write_bug_page(
    store: Store, folder: Path, issues: tuple[KnownIssue, ...], only: Collection[str] = ()
) -> Path:
    """Write the page of these clusters, or all, whole or not at all; its path."""
    bugs = [_bug(store, facts) for facts in overview(store, issues) if not only or facts["id"] in only]
    columns = sorted({column for bug in bugs for column in bug.seen})
    page = render(
        "bugs.html.j2",
        bugs=bugs,
        columns=columns,
        totals=_totals(store),
        time=_time(store, only),
        name=store.path.name,
        script=SCRIPT,
        script_hash=hash_of(SCRIPT),
    )
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / f"{NAME}.tmp"
    fresh.write_text(page, encoding="utf-8")
    os.replace(fresh, folder / NAME)
    return folder / NAME


def _totals(store: Store) -> Mapping[str, int]:
    return run_totals(store)


def _time(store: Store, only: Collection[str]) -> Bars | None:
    """New clusters over time."""
    return over_time([each.created for each in clusters(store) if not only or each.name in only])


def _bug(store: Store, facts: Mapping[str, Any]) -> Bug:
    cluster = find_cluster(store, str(facts["id"]))
    assert cluster is not None
    sightings, report = sightings_of(store, cluster), last_report(store, cluster)
    return Bug(
        facts=facts,
        first_seen=sightings.first,
        last_seen=sightings.last,
        seen=sightings.counts,
        why=_why(store, cluster),
        report=Path(report).name,
        look=_look(store, representative(store, cluster)),
    )


def _why(store: Store, cluster: int) -> tuple[tuple[str, str], ...]:
    """Each signature in words, and how it came here."""
    return tuple(
        (" · ".join(f"{name}: {text}" for name, text in each.signature.components), each.why)
        for each in signatures_of(store, cluster)
        if each.how != BY_SYMPTOM
    )


def _look(store: Store, number: int) -> Look:
    failure = get_failure(store, number)
    case, original = store.load_case(failure.best_case), store.load_case(failure.case_id)
    kept = find_artifact(store, REDUCTION_KEPT, failure_name(number))
    facts: dict[str, Any] = json.loads(kept) if kept else {}
    before = _before(original, facts)
    return Look(
        nodes=case.measure.nodes,
        listing=list_case(case),
        inputs=tuple((name, describe_value(value)) for name, value in case.inputs.items()),
        after=_picture(case),
        before=before.original() if before else None,
        dots=before.dots() if before and len(before.nodes) > MANY_NODES else None,
        count=len(before.nodes) if before else 0,
        text=tuple(_text(verdict_of(store, number), names_of_case(case))),
        title=failure.title,
        failure=failure.name,
        curves=tuple(curves(facts)) if facts else (),
        reduction=facts,
    )


def _picture(case: Case) -> Shown | None:
    shown = drawn(case)
    if len(shown.graph.node) > MOST_WHOLE:
        return None
    values = {name: describe_value(value) for name, value in case.inputs.items()}
    return GraphPicture(shown.graph, shown.types, values=values).whole()


def _before(original: Case, facts: Mapping[str, Any]) -> GraphPicture | None:
    if not facts:
        return None
    shown = drawn(original)
    return GraphPicture(shown.graph, shown.types, frozenset(facts["kept"]))


def _text(verdict: Mapping[str, Any], names: frozenset[str]) -> list[Piece]:
    """What the failing run said; of a wrong result the verdict's line."""
    failing = next((run for run in verdict["runs"][::-1] if run["status"] != "ok"), None)
    text = (failing or {}).get("message") or verdict["title"]
    return shown_text(scrub(text.strip()), names)
