"""What is run on a new release: the regression corpus, folders of a user, the bugs of a database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from corpus.case import CASE_FILE, Case
from corpus.errors import UserError
from corpus.load import must_be_known
from corpus.regression import EXPECTED_FILE, Regression, load_regression, load_regressions
from oracles.backends import find_backend
from oracles.naming.signature import Signature
from triage.cases.sources import open_to_run
from triage.console.options import CaseOptions
from triage.console.output import say
from triage.store.clusters import clusters, signatures_of
from triage.store.database import Store
from triage.store.failures import get_failure, verdict_of
from triage.store.jobs.watched import WatchedRow, components_of, watched_case
from triage.store.names import representative
from triage.watching.changes import Seen


@dataclass(frozen=True)
class Subject:
    """A case under the name that a person knows it by, and what releases have shown of it."""

    name: str
    title: str
    case: Case
    known: tuple[Seen, ...] = ()


def subjects(
    package: str, words: Iterable[str], options: CaseOptions, store: Store, *, corpus: bool = True
) -> list[Subject]:
    """Return all cases of a package, with what the database remembers of them; each case once."""
    found: dict[str, Subject] = {}
    shipped = (_of_regression(each) for each in load_regressions() if each.package == package)
    for each in (
        *(shipped if corpus else ()),
        *(one for word in words for one in _named(word, options)),
        *_of_database(store, package, options),
    ):
        found.setdefault(each.case.case_id, each)
    return [_remembered(store, package, each) for each in found.values()]


def _named(word: str, options: CaseOptions) -> Iterator[Subject]:
    """Yield a case, or every case folder and model directly below a folder that is none."""
    path = Path(word)
    if path.is_dir() and not (path / CASE_FILE).is_file() and not (path / "model.onnx").is_file():
        inner = sorted(one for one in path.iterdir() if (one / CASE_FILE).is_file() or one.suffix == ".onnx")
        if not inner:
            raise UserError(f"{path}: holds no case folder and no .onnx file")
        for one in inner:
            yield from _named(str(one), options)
    elif (path / EXPECTED_FILE).is_file():
        yield _of_regression(load_regression(path))
    else:
        yield Subject(word, "", open_to_run(word, options))


def _of_regression(regression: Regression) -> Subject:
    seen = (Seen(release, shown, title=regression.title) for release, shown in regression.shown.items())
    return Subject(regression.name, regression.title, regression.case, tuple(seen))


def _of_database(store: Store, package: str, options: CaseOptions) -> Iterator[Subject]:
    """Yield the smallest case of each bug that was seen on a target of the package."""
    for cluster in clusters(store):
        failure = get_failure(store, representative(store, cluster.id))
        case = store.load_case(failure.best_case)
        if case.target is None or not runs(case.target.backend, package):
            continue
        try:
            must_be_known(case, cluster.name, trust=options.trust)
        except UserError as error:
            say(f"{cluster.name} is left out: {error}")
            continue
        facts, signatures = verdict_of(store, failure.id), signatures_of(store, cluster.id)
        shown = (failure.outcome, str(facts["phase"]), "")
        name = signatures[-1].signature if signatures else None
        known = (
            Seen(failure.release, shown, failure.symptom, failure.title, name) if failure.release else None
        )
        case = replace(case, target=case.target.without_setting("python"))
        yield Subject(cluster.name, cluster.title, case, (known,) if known else ())


def _remembered(store: Store, package: str, subject: Subject) -> Subject:
    """The subject with what earlier watches saw, which counts more than what a file says of a release."""
    rows = dict(watched_case(store, package, subject.case.case_id))
    told = [each for each in subject.known if each.release not in rows]
    return replace(subject, known=(*told, *(seen_in(release, row) for release, row in rows.items())))


def seen_in(release: str, row: WatchedRow) -> Seen:
    """Read a release's result from its row."""
    components = components_of(row.components)
    name = Signature(row.version, components, "") if components else None
    return Seen(release, (row.outcome, row.phase, row.kind), row.symptom, row.title, name)


def runs(backend: str, package: str) -> bool:
    """Return whether a backend runs a package or another build of it, such as `onnxruntime-gpu`."""
    own = find_backend(backend).package
    return package == own or package.startswith(f"{own}-")
