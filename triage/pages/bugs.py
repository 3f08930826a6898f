"""`index.html`: every bug of a database on one page, without a network and without running anything."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpus.case import Case
from corpus.outputs import put
from corpus.reading import parse_json
from oracles.naming import Signature, names_of_case
from reducer.result import BLANK, result_of_json
from triage.bugs.failures import bisection_of, names_of
from triage.bugs.known import KnownIssue
from triage.bugs.overview import (
    CLOSED_LIST,
    FIXED_LIST,
    KNOWN,
    LIMITS,
    ORDER,
    next_step,
    overview_with_states,
    totals_of,
)
from triage.console.options import StoreOptions, next_command
from triage.language import list_case
from triage.pages.campaign import growth
from triage.pages.differences import MANY_NODES, curves
from triage.store.artifacts import REDUCTION_KEPT, find_artifact
from triage.store.campaigns import run_totals
from triage.store.clusters import BY_SYMPTOM, clusters, signatures_of
from triage.store.database import Store
from triage.store.failures import get_failure, release_results_of, verdict_of
from triage.store.names import failure_name, find_cluster, representative
from triage.views.charts import over_time
from triage.views.graph_picture import Dots, Shown, drawn, kept_picture, small_picture
from triage.views.listing import describe_values, release_line
from triage.views.rendering import Piece, hash_of, render, scrub, shown_text

KINDS = {
    "crash": "crash",
    "mismatch": "wrong value",
    "exception": "refusal",
    "timeout": "hang",
    "out-of-memory": "memory",
    "perf": "slow",
}
IMPORTING = "import"
MOST_IN_LINE, MOST_OF_NAME = 6, 16
MOST_BLAME = 40
OF_KERNEL = re.compile(r"(?:\w+::)*(\w+)(?:<.*>)?::(?:\1|Compute\w*|PrePack\w*)")
"""A kernel's constructor and methods: they refuse what the optimiser has left, and are no pass."""

OF_BINDING = re.compile(r"onnxruntime\.py ")
"""A frame of Python through which every call goes: it names nothing."""
OF_TYPE = re.compile(r":(?:u?int|float|bfloat|bool|string|complex)\w*")


@dataclass(frozen=True)
class Row:
    """The list's columns for one bug, besides its title."""

    kind: str
    blame: str
    part: str


def row_of(facts: Mapping[str, Any], signatures: Sequence[Signature]) -> Row:
    """The row of a cluster with these facts and signatures, the last of which knows most."""
    components = dict(signatures[-1].components) if signatures else {}
    outcome = next((str(each["outcome"]) for each in facts["failures"]), components.get("outcome", ""))
    part, blame = _blamed(components)
    return Row(KINDS.get(outcome, outcome), blame, part)


def _blamed(components: Mapping[str, str]) -> tuple[str, str]:
    """Whether a pass, a kernel or the importer is to blame, and which one."""
    ill_typed = components.get("ill-typed", "").rpartition(" of ")[2]
    if passes := components.get("passes", "") or components.get("rewritten", "") or ill_typed:
        return "pass", _short(passes)
    site = components.get("site", "") or components.get("frame", "") or components.get("frames", "")
    site = "" if OF_BINDING.match(site) else site
    named = components.get("op", "") or OF_TYPE.sub("", components.get("ops", ""))
    name = _short(site.split()[-1].removesuffix("::Apply") if site else named)
    if found := OF_KERNEL.fullmatch(name):
        return "kernel", found[1]
    if components.get("phase") == IMPORTING:
        return "importer", name
    if components.get("side") == "optimised" or components.get("phase") in ("optimise", "codegen"):
        return "pass" if site.endswith("::Apply") else "optimiser", name
    return "kernel", name


def _short(text: str, most: int = MOST_BLAME) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


NAME = "index.html"
MANY_BUGS = 200
"""Of more bugs the originals are not drawn, and most of the page is made as it comes into view."""
SCRIPT = """const centre = box => {
  const to = box.querySelector("svg").dataset;
  box.scrollTop = to.y - box.clientHeight / 2;
  box.scrollLeft = to.x - box.clientWidth / 2;
};
const seen = new IntersectionObserver(found => found.forEach(each => {
  if (!each.isIntersecting) return;
  seen.unobserve(each.target);
  centre(each.target);
}));
document.querySelectorAll(".wide").forEach(box => seen.observe(box));

const open = section => {
  const text = section.querySelector(":scope > .later");
  if (!text) return;
  section.insertAdjacentHTML("beforeend", text.textContent);
  text.remove();
  section.querySelectorAll(".wide").forEach(box => seen.observe(box));
};
const near = new IntersectionObserver(found => found.forEach(each => {
  if (each.isIntersecting) open(each.target);
}), {rootMargin: "800px"});
document.querySelectorAll(".later").forEach(text => near.observe(text.parentElement));

const rows = [...document.querySelectorAll(".list tr[data-state]")];
const place = new Map(rows.map((row, at) => [row, at]));
const heads = [...document.querySelectorAll(".list th[aria-sort]")];
const search = document.querySelector("#search"), state = document.querySelector("#state");
const left = document.querySelector("#left");
const address = () => new URLSearchParams(location.hash.slice(1));
const marked = () => new Set((address().get("marks") || "").split(",").filter(Boolean));
const order = by => {
  const at = Math.abs(by) - 1;
  const key = row => row.cells[at].dataset.key || row.cells[at].textContent.trim();
  return (a, b) => (by ? Math.sign(by) * key(a).localeCompare(key(b), undefined, {numeric: true}) : 0)
    || place.get(a) - place.get(b);
};
const show = () => {
  const found = address(), marks = marked(), by = Number(found.get("sort")) || 0;
  if (search.value !== (found.get("q") || "")) search.value = found.get("q") || "";
  state.value = found.get("state") || "";
  const words = search.value.toLowerCase().split(/\\s+/).filter(Boolean);
  for (const row of rows) {
    row.hidden = !((!state.value || row.dataset.state === state.value)
      && words.every(word => row.dataset.text.includes(word)));
    row.querySelector("input").checked = marks.has(row.dataset.id);
  }
  for (const body of document.querySelectorAll(".list tbody")) {
    const own = [...body.rows].slice(1);
    body.append(...own.sort(order(by)));
    body.hidden = own.every(row => row.hidden);
  }
  heads.forEach((head, at) => head.setAttribute("aria-sort",
    Math.abs(by) - 1 !== head.cellIndex ? "none" : by > 0 ? "ascending" : "descending"));
  const count = rows.filter(row => !row.hidden).length;
  left.textContent = count === rows.length ? "" : `${count} of ${rows.length}`;
};
const keep = (name, value) => {
  const found = address();
  if (value) found.set(name, value); else found.delete(name);
  history.replaceState(null, "", `#${found}`);
  show();
};
if (search) {
  search.addEventListener("input", () => keep("q", search.value));
  state.addEventListener("change", () => keep("state", state.value));
  heads.forEach(head => head.firstElementChild.addEventListener("click", () => {
    const by = head.cellIndex + 1;
    keep("sort", Number(address().get("sort")) === by ? -by : by);
  }));
  document.querySelectorAll("[data-only]").forEach(figure => figure.addEventListener("click", () =>
    keep("state", state.value === figure.dataset.only ? "" : figure.dataset.only)));
  rows.forEach(row => row.querySelector("input").addEventListener("change", event => {
    const marks = marked();
    if (event.target.checked) marks.add(row.dataset.id); else marks.delete(row.dataset.id);
    keep("marks", [...marks].join(","));
  }));
  document.addEventListener("click", event => {
    const to = event.target.closest('a[href^="#C"]');
    const bug = to && document.querySelector(to.getAttribute("href"));
    if (!bug) return;
    event.preventDefault();
    bug.scrollIntoView();
    bug.querySelector("h2").focus({preventScroll: true});
  });
  document.addEventListener("keydown", event => {
    if (event.key !== "/" || event.target.matches("input, select")) return;
    event.preventDefault();
    search.focus();
  });
  addEventListener("hashchange", show);
  show();
}"""
"""Brings the first kept node of a large picture into view; filters, sorts and marks the list of bugs.

What is filtered, sorted and marked stands in the address. The page says all without it.
"""
Cells = Mapping[tuple[str, str], int]


@dataclass(frozen=True)
class Look:
    """The pictures of one bug: its smallest case, the original, its reduction."""

    nodes: int
    line: str
    listing: str
    inputs: tuple[tuple[str, str], ...]
    after: Shown | None
    before: Shown | None
    dots: Dots | None
    count: int
    text: tuple[Piece, ...]
    errors: Sequence[str]
    releases: Sequence[tuple[str, str]]

    @property
    def marked(self) -> bool:
        """Whether the graph marks the first wrong tensor."""
        return self.after is not None and any(item.kind == "kept" for item, *_ in self.after.items)

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
    row: Row
    look: Look


def write_bug_page(
    store: Store, folder: Path, issues: tuple[KnownIssue, ...], only: Collection[str] = ()
) -> Path:
    """Write the page of these clusters, or all, whole or not at all; its path."""
    chosen = [facts for facts in overview_with_states(store, issues) if not only or facts["id"] in only]
    bugs = [_bug(store, facts, is_whole=len(chosen) <= MANY_BUGS) for facts in chosen]
    columns = sorted({column for bug in bugs for column in bug.seen})
    page = render(
        "bugs.html.j2",
        bugs=bugs,
        is_whole=len(chosen) <= MANY_BUGS,
        groups=_groups(bugs, StoreOptions(Path(store.path.name))),
        columns=columns,
        totals=run_totals(store),
        figures=totals_of(str(facts["state"]) for facts in chosen),
        time=over_time([each.created for each in clusters(store) if not only or each.name in only]),
        growth=[] if only else growth(store),
        name=store.path.name,
        script=SCRIPT,
        script_hash=hash_of(SCRIPT),
    )
    put(folder / NAME, page)
    return folder / NAME


def _groups(bugs: Sequence[Bug], options: StoreOptions) -> list[tuple[str, str, list[Bug]]]:
    """The bugs by what is to be done: the list's name, the action for all of it, its bugs."""
    advice = {
        KNOWN: "comment on the issue if a report says more",
        FIXED_LIST: "nothing to file",
        LIMITS: next_command("report --limits", options),
        CLOSED_LIST: "decided",
    }
    found = []
    for name in ORDER:
        of_it = [bug for bug in bugs if bug.facts["list"] == name]
        if of_it:
            found.append((name, advice.get(name) or next_step([bug.facts for bug in of_it], options), of_it))
    return found


def _in_a_line(case: Case) -> str:
    """The graph's operators in order: `Range → Gather`."""
    names = [_short(node.op_type, MOST_OF_NAME) for node in drawn(case).graph.node]
    return " → ".join([*names[:MOST_IN_LINE], *(["…"] if len(names) > MOST_IN_LINE else [])])


def _bug(store: Store, facts: Mapping[str, Any], *, is_whole: bool) -> Bug:
    cluster = find_cluster(store, str(facts["id"]))
    assert cluster is not None
    sightings = release_results_of(store, cluster)
    return Bug(
        facts=facts,
        first_seen=sightings.first,
        last_seen=sightings.last,
        seen=sightings.counts,
        why=_why(store, cluster),
        report=Path(facts["report"]).name,
        row=row_of(facts, [each.signature for each in signatures_of(store, cluster)]),
        look=_look(store, representative(store, cluster), is_whole=is_whole),
    )


def _why(store: Store, cluster: int) -> tuple[tuple[str, str], ...]:
    """Each signature in words, and how it came here."""
    return tuple(
        (" · ".join(f"{name}: {text}" for name, text in each.signature.components), each.why)
        for each in signatures_of(store, cluster)
        if each.how != BY_SYMPTOM
    )


def _look(store: Store, number: int, *, is_whole: bool) -> Look:
    failure = get_failure(store, number)
    case, original = store.load_case(failure.best_case), store.load_case(failure.case_id)
    kept = find_artifact(store, REDUCTION_KEPT, failure_name(number))
    where, advice = f"the reduction of {failure.name}", "reduce it again"
    told = result_of_json(parse_json(kept, where, advice), where, advice) if kept else {}
    facts = {**BLANK, **told} if told else {}
    before = kept_picture(original, facts["kept"]) if is_whole and facts else None
    inputs = describe_values(case.inputs)
    verdict = verdict_of(store, number)
    wrong = verdict.get("wrong") or {}
    return Look(
        nodes=case.measure.nodes,
        line=_in_a_line(case),
        listing=list_case(case),
        inputs=tuple(inputs.items()),
        after=small_picture(drawn(case), inputs, str(wrong.get("first_divergent", ""))),
        before=before.original() if before else None,
        dots=before.dots() if before and len(before.nodes) > MANY_NODES else None,
        count=len(before.nodes) if before else 0,
        text=tuple(_text(verdict, names_of_case(case))),
        errors=wrong.get("map", ()),
        releases=release_line(bisection_of(store, names_of(failure))),
        title=failure.title,
        failure=failure.name,
        curves=tuple(curves(facts)) if facts and is_whole else (),
        reduction=facts,
    )


def _text(verdict: Mapping[str, Any], names: frozenset[str]) -> list[Piece]:
    """The failing run's message, or the verdict's line for a wrong result."""
    failing = next((run for run in verdict["runs"][::-1] if run["status"] != "ok"), None)
    text = (failing or {}).get("message") or verdict["title"]
    return shown_text(scrub(text.strip()), names)
