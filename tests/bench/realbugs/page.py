"""The score as one page: its table, what other tools leave, and each reduced bug as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from corpus.case import Case
from corpus.outputs import put
from reducer.result import BLANK, NAME, read_result
from tests.bench.realbugs.bug import Bug
from triage.pages.differences import curves, picture_of
from triage.views.rendering import template_of

PAGE = """{% autoescape true %}<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{{ bugs | length }} real bugs, reduced</title>
<style>
{% include "style.css.html.j2" %}
</style>
</head>
<body>
{% from "graph.html.j2" import draw_chart, graph %}
<main>
<header><h1>{{ bugs | length }} real bugs, reduced</h1></header>
<section><div class="table"><table>
<thead><tr>{% for each in heads %}<th>{{ each }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in rows %}
<tr>{% for each in row %}<td>{{ each }}</td>{% endfor %}</tr>
{% endfor %}
</tbody></table></div></section>
{% for each in bugs %}
<section>
<h2 id="{{ each.bug.id }}">{{ each.bug.id }}: {{ each.bug.title }}</h2>
<p class="soft"><a href="{{ each.bug.address }}">{{ each.bug.address }}</a>, on {{ each.bug.release }}:
{{ each.said }}</p>
<div class="two">
{% if each.picture %}
<div class="graph">{{ graph(each.picture, each.bug.id) }}</div>
{% endif %}
{% for unit, chart in each.curves %}
<div class="charts"><div>{{ draw_chart(chart, unit) }}<p class="soft">{{ unit }} over checks</p></div></div>
{% endfor %}
</div>
</section>
{% endfor %}
</main>
</body>
</html>
{% endautoescape %}"""


def write_page(
    folder: Path, bugs: Sequence[Bug], rows: Sequence[Mapping[str, Any]], table: Sequence[Sequence[str]]
) -> None:
    """`FOLDER/score.html`; the table is that of the terminal, its heads first."""
    shown = [_shown(folder / bug.id, bug, row) for bug, row in zip(bugs, rows, strict=True)]
    heads, *cells = table
    put(folder / "score.html", template_of(PAGE).render(bugs=shown, heads=heads, rows=cells))


def _shown(folder: Path, bug: Bug, row: Mapping[str, Any]) -> dict[str, Any]:
    least, facts = folder / "least", {"bug": bug, "said": row.get("check.title", "")}
    if not (least / NAME).exists():
        return {**facts, "picture": None, "curves": []}
    kept = {**BLANK, **read_result(least / NAME)}
    return {**facts, "picture": picture_of(Case.load(least)), "curves": curves(kept)[:1]}
