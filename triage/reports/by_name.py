"""From a word on the command line to a written report, noted in the database where there is one."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import onnx

from corpus.case import Case
from corpus.errors import UserError
from corpus.onnx.text import type_text
from corpus.onnx.types import inferred_types
from corpus.outputs import put
from oracles.judge import Judge
from oracles.verdict import Outcome, Verdict
from triage.bugs.failures import History, history_of_folder, history_of_name
from triage.bugs.known import KnownIssue, Library, load_known
from triage.cases.sources import Judges
from triage.console.output import quoted
from triage.console.status import Progress
from triage.language import language_of, model_of
from triage.reports.checklist import missing
from triage.reports.newest_release import NewestReleases
from triage.reports.report import NoBug, Report, write_report
from triage.store.artifacts import keep_report, note_newest, reported_case
from triage.store.clusters import Cluster, clusters, set_title
from triage.store.database import Store, open_existing, open_to_read
from triage.store.failures import REDUCED, get_failure, list_failures
from triage.store.names import cluster_name, find_cluster, is_name, representative
from triage.views.rendering import as_code, as_comment, as_fence, scrub

NAME = "not-a-bug.md"

NAMED = re.compile(r"node name: ([^)\n]+)\)|Node \(([^)\n]+)\)")

MOST_SAID = 600


def write_page(case: Case, verdict: Verdict, word: str, package: str, folder: Path) -> Path:
    """Write the page for the model that the user named by `word`; its path."""
    complaint = language_of(case.format).complaint(case.parsed) or verdict.title
    node = _node(case, f"{complaint} {verdict.title}")
    command = f"crux check {quoted(word)}"
    lines = [
        f"# Not a bug of {package}: {as_code(word)} is no valid model",
        "ONNX's checker and the un-optimised backend both reject it, so no compiler can be blamed.",
        "## The rule that it breaks",
        as_fence(as_comment(scrub(complaint))[:MOST_SAID], "text"),
        *(("## The node", _described(case, node)) if node is not None else ()),
        "## What to change",
        _advice(node),
        f"Afterwards: {as_code(command)}. If {package} should run the model as it is, "
        f"{as_code(f'{command} --accept-invalid')} judges it anyway.",
    ]
    path = folder / NAME
    put(path, "\n\n".join(lines) + "\n")
    return path


def _node(case: Case, text: str) -> onnx.NodeProto | None:
    """The node that a complaint names."""
    found = NAMED.search(text)
    if found is None:
        return None
    name = found.group(1) or found.group(2)
    return next((node for node in model_of(case).graph.node if node.name == name), None)


def _described(case: Case, node: onnx.NodeProto) -> str:
    """The node, with the type of each input as far as it can be told."""
    model = case.parsed
    types = {name: type_text(declared) for name, declared in inferred_types(model).items()}
    types |= {each.name: f"{list(each.dims)} (a weight)" for each in model.graph.initializer}
    lines = [f"{node.op_type} {node.name!r} -> {', '.join(node.output)}"]
    lines += [f"    {name}: {types.get(name, 'of unknown type')}" for name in node.input if name]
    return as_fence("\n".join(lines), "text")


def _advice(node: onnx.NodeProto | None) -> str:
    if node is None:
        return "Export the model again with a newer exporter, or mend what the rule names."
    return (
        f"Give {as_code(node.op_type)} inputs of the types and dims that it asks for, "
        "or change its attributes; its description in ONNX's list of operators says which."
    )


def report_word(
    word: str,
    judges: Judges,
    out: Path,
    form: str = "",
    known: str = "",
    said: Callable[[str], None] = lambda text: None,
    as_test: bool = False,
    releases: NewestReleases | None = None,
) -> dict[str, Any]:
    """Report one id or case folder into `out`, under its own name.

    `known` is a file of known issues, `said` hears what is being done; `as_test` writes a test, too. Of an
    invalid model a page for its owner is written. Raises `UserError` where the case shows no bug.
    """
    database = judges.options.database
    case, judge = judges.open(word)
    write = partial(write_report, case, judge, form=form, said=said, as_test=as_test, releases=releases)
    try:
        if Path(word).exists() or not is_name(word):
            history, library = history_of_folder(Path(word)), _library(database, known)
            return _document(word, write(out / _folder_name(word), history, library))
        with open_existing(database) as store:
            history = history_of_name(store, word)
            library = Library.of_store(store, load_known(store.path, known))
            report = write(out / (history.cluster or word), history, library)
            note_report(store, case, report, history, judge.backend.package)
        return _document(word, report)
    except NoBug as error:
        return _without_bug(word, error, out / _folder_name(word))


def _without_bug(word: str, error: NoBug, folder: Path) -> dict[str, Any]:
    """The document of an invalid model, with the page for its owner; raises `UserError` for any other."""
    if error.verdict.outcome is not Outcome.INVALID:
        raise UserError(f"{word}: shows no bug on {error.judge.target} ({error.verdict.title})") from None
    page = write_page(error.case, error.verdict, word, error.judge.backend.package, folder)
    title = f"not a bug: {error.verdict.title}"
    told = {"id": word, "title": title, "ready": False, "state": "not a bug", "page": str(page)}
    return {**told, "folder": str(folder), "checks": []}


def note_report(store: Store, case: Case, report: Report, history: History, package: str) -> None:
    """Keep where a report went, and what bytes it has."""
    cluster = find_cluster(store, history.cluster) if history.cluster else None
    where = (cluster, case.case_id, report.folder, report.archive)
    keep_report(store, *where, ready=report.ready, newest=report.newest, fixed=report.fixed)
    note_newest(store, package, report.newest)
    if cluster is not None:
        with store.transaction():
            set_title(store, cluster, report.title)


def _library(database: Path, known: str) -> Library:
    """Collect what is known, with the database's bugs if there is one."""
    if not database.exists():
        return Library(load_known(database, known))
    with open_to_read(database) as store:
        return Library.of_store(store, load_known(database, known))


def _folder_name(word: str) -> str:
    path = Path(word).resolve()
    return re.sub(r"[^\w.-]+", "-", path.stem if path.is_file() else path.name) or "case"


def _document(word: str, report: Report) -> dict[str, Any]:
    return {
        "id": word,
        "title": report.title,
        "ready": report.ready,
        "state": report.state,
        "known": report.known,
        "issue": report.issue,
        "newest": report.newest,
        "fixed": report.fixed,
        "folder": str(report.folder),
        "zip": str(report.archive),
        "test": str(report.test or ""),
        "signature": report.signature,
        "checks": [{"holds": check.holds, "text": check.text} for check in report.checks],
    }


MOST_HELD = 32
"""Verdicts that a reporter holds for cases whose reports are still to be written."""


@dataclass
class Reporter:
    """Writes the reports of a store's bugs into a folder."""

    store: Store
    out: Path
    shown: Progress
    issues: tuple[KnownIssue, ...] = ()
    releases: NewestReleases | None = None
    reported: dict[int, int] = field(default_factory=dict)
    verdicts: dict[str, Verdict] = field(default_factory=dict)

    def hold(self, case: Case, verdict: Verdict) -> None:
        """Keep what a case has just shown, until it is reported: its report need not judge it again."""
        self.verdicts[case.case_id] = verdict
        while len(self.verdicts) > MOST_HELD:
            del self.verdicts[next(iter(self.verdicts))]

    def missing(self, target: str) -> list[int]:
        """The clusters with a reduced failure on a target that no report shows as well as it could."""
        reduced = list_failures(self.store, status=REDUCED)
        wanted = {each.cluster for each in reduced if each.target == target}
        known = (each for each in clusters(self.store) if each.id in wanted)
        return [each.id for each in known if not self._is_shown(each)]

    def _is_shown(self, cluster: Cluster) -> bool:
        """Whether a report shows the cluster's best case: this hunt's, or an earlier one's."""
        best = representative(self.store, cluster.id)
        if self.reported.get(cluster.id) == best:
            return True
        case_id = reported_case(self.store, cluster.id, self.out / cluster.name)
        return case_id == get_failure(self.store, best).best_case

    def write(self, cluster: int, judge: Judge) -> None:
        """Write the report of a cluster; why there is none is told."""
        best = representative(self.store, cluster)
        if self.reported.get(cluster) == best:
            return
        self.reported[cluster] = best
        name = cluster_name(cluster)
        self.shown.status(f"reporting {name}")
        history = history_of_name(self.store, name)
        case = self.store.load_case(get_failure(self.store, best).best_case)
        try:
            report = write_report(
                case,
                judge.of_format(case.format),
                self.out / name,
                history,
                Library.of_store(self.store, self.issues),
                releases=self.releases,
                told=self.verdicts.pop(case.case_id, None),
            )
        except UserError as error:
            self.shown.note(f"{name}: no report: {error}")
            return
        note_report(self.store, case, report, history, judge.backend.package)
        lacks = "" if report.ready else f", not ready: {'; '.join(missing(report.checks))}"
        self.shown.note(f"{name}: {report.title}; {report.folder}/repro.py shows it{lacks}")
