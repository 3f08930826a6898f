"""`reduction.html`: a reduction on one page, made of what its folder holds and of the original."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from corpus.case import Case
from corpus.reading import write_fresh
from reducer.result import BLANK, read_result
from reducer.result import NAME as REDUCTION
from triage.language import list_case
from triage.views.curve import curve
from triage.views.drawn import drawn
from triage.views.graph_picture import MOST_WHOLE, GraphPicture, Shown
from triage.views.listing import describe_value
from triage.views.rendering import hash_of, render

NAME = "reduction.html"
MANY_NODES = 30
"""From here on an overview helps."""
MOST_LINES = 200
SCRIPT = """for (const box of document.querySelectorAll(".wide")) {
  const to = box.querySelector("svg").dataset;
  box.scrollTop = to.y - box.clientHeight / 2;
  box.scrollLeft = to.x - box.clientWidth / 2;
}"""
"""Brings the first kept node of a large picture into view; the page says all without it."""


def write_page(folder: Path, original: Case | None) -> None:
    """Draw the finished or interrupted reduction in a folder; without the original only what is left of it.

    The same bytes for the same reduction, whole or not at all.
    """
    facts = {**BLANK, **read_result(folder / REDUCTION)}
    page = _page(facts, Case.load(folder), original, has_script=(folder / "repro.py").is_file())
    write_fresh(folder / NAME, page)


def _page(facts: Mapping[str, Any], case: Case, original: Case | None, *, has_script: bool) -> str:
    before = _before(original, facts["kept"]) if original is not None else None
    return render(
        "reduction.html.j2",
        facts=facts,
        target=str(case.target or ""),
        after=_after(case),
        listing=_listing(case),
        inputs=[(name, describe_value(value)) for name, value in case.inputs.items()],
        before=before.original() if before else None,
        dots=before.dots() if before and len(before.nodes) > MANY_NODES else None,
        is_cut=before.is_cut if before else False,
        count=len(before.nodes) if before else 0,
        curves=curves(facts),
        symptom=[part.strip() for part in facts["symptom"].split(" | ")] if facts["symptom"] else [],
        operators=" → ".join(facts["ops"]) if len(facts["ops"]) <= 6 else "",
        has_script=has_script,
        script=SCRIPT,
        script_hash=hash_of(SCRIPT),
    )


def _after(case: Case) -> Shown | None:
    """The picture of a small program."""
    shown = drawn(case)
    if len(shown.graph.node) > MOST_WHOLE:
        return None
    return GraphPicture(shown.graph, shown.types, values=_values(case)).whole()


def _listing(case: Case) -> str:
    lines = list_case(case).splitlines()
    more = len(lines) - MOST_LINES
    return "\n".join([*lines[:MOST_LINES], *([f"… and {more:,} more lines"] if more > 0 else [])])


def _before(case: Case, kept: list[int]) -> GraphPicture:
    shown = drawn(case)
    return GraphPicture(shown.graph, shown.types, frozenset(kept))


def _values(case: Case) -> dict[str, str]:
    return {name: describe_value(value) for name, value in case.inputs.items()}


def curves(facts: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Nodes and bytes over checks."""
    return [(unit, curve(_points(facts, unit), facts["checks"])) for unit in ("nodes", "bytes")]


def _points(facts: Mapping[str, Any], unit: str) -> list[tuple[int, int]]:
    start = facts[f"{unit}_before"] + (facts["function_nodes_before"] if unit == "nodes" else 0)
    return [(0, start), *((point["check"], point[unit]) for point in facts["curve"])]
