"""One feature request for all that an importer declares not to do: a table, the smallest models, a script."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpus.case import Case
from corpus.errors import UserError
from corpus.onnx.text import print_text
from corpus.target import Target
from oracles.judge import Judge
from oracles.verdict import Verdict
from triage.bugs.failures import DeclaredLimit
from triage.environment import describe_environment, package_line
from triage.projects import project_of
from triage.reports.bundle import write_bundle
from triage.store.database import Store
from triage.store.failures import DECLARED, is_limit
from triage.titles import MOST_TITLE
from triage.views.rendering import render, scrub

SCRIPT = "import_models.py"


@dataclass(frozen=True, slots=True)
class Row:
    """One form in the request: its limits by operator, the name of the model's file, and that model."""

    limits: tuple[DeclaredLimit, ...]
    model: str
    case: Case

    @property
    def operators(self) -> list[str]:
        """The operators that refuse the form."""
        return sorted({each.operator for each in self.limits})

    def shown(self) -> dict[str, Any]:
        """What the template asks for."""
        return {
            "operator": ", ".join(self.operators),
            "form": self.limits[0].form,
            "words": scrub(self.limits[0].words),
            "count": sum(each.count for each in self.limits),
            "model": self.model,
            "text": print_text(self.case.parsed),
        }


def write_request(
    store: Store, found: Sequence[DeclaredLimit], judge_of: Callable[[Target], Judge], out: Path
) -> dict[str, Any]:
    """Write `out/limits-TARGET` for the limits of one target that still show, each judged anew.

    Raises `UserError` where none shows.
    """
    target = Target.of_data(found[0].target)
    judge, project = judge_of(target), project_of(target.backend)
    rows = list(_rows(store, found, judge))
    if not rows:
        raise UserError(
            f"{target}: none of the {len(found)} declared limits shows on {judge.release} any more"
        )
    environment = describe_environment(target)
    forms, operators = len(rows), len({name for row in rows for name in row.operators})
    what = f"{_of(forms, 'form')} of {_of(operators, 'operator')}"
    title = f"Feature request: {what} that the ONNX importer refuses"
    text = render(
        "limits.md.j2",
        package=judge.backend.package,
        release=judge.release,
        rows=[row.shown() for row in rows],
        script=project.import_script,
        environment=f"{package_line(environment, project.package)}, Python {environment['python']}, "
        f"{environment['system']}, {environment['architecture']}.",
    )
    files = {"issue.md": f"# {title}\n\n{text}".encode(), SCRIPT: project.import_script.encode()}
    files |= {f"models/{row.model}": row.case.program for row in rows}
    folder = out / f"limits-{target.backend}"
    archive = write_bundle(folder, files, {})
    return {
        "target": str(target),
        "title": title,
        "forms": forms,
        "gone": len({each.form for each in found}) - forms,
        "folder": str(folder),
        "zip": str(archive),
    }


def _of(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _rows(store: Store, found: Sequence[DeclaredLimit], judge: Judge) -> Iterator[Row]:
    """Yield the forms that the installed release still refuses, each with its smallest model."""
    by_form: dict[str, list[DeclaredLimit]] = {}
    for each in found:
        by_form.setdefault(each.form, []).append(each)
    for form, limits in by_form.items():
        case = min((store.load_case(each.case_id) for each in limits), key=lambda case: len(case.program))
        if is_limit(judge.verdict(case)):
            first = limits[0].operator if len(limits) == 1 else "several"
            yield Row(tuple(limits), f"{_file_name(first)}-{_file_name(form)}.onnx", case)


def _file_name(text: str) -> str:
    return re.sub(r"\W+", "-", text).strip("-").lower()[:40]


ASKED = (
    "The importer says itself that it does not handle this form; the model is valid and runs elsewhere, so "
    "this asks for the form, or for a line in the documentation that leaves it out"
)


def request_title(title: str, verdict: Verdict) -> str:
    """The title as that of a request where the verdict is a declared limit."""
    return f"Feature request: {title}"[:MOST_TITLE] if is_limit(verdict) else title


def request_labels(labels: Iterable[str], verdict: Verdict) -> tuple[str, ...]:
    """The labels, the one of bugs being that of features where the verdict is a declared limit."""
    if not is_limit(verdict):
        return tuple(labels)
    return tuple("type:feature" if label == "type:bug" else label for label in labels)


def in_words(note: str) -> str:
    """A remark on a verdict as a sentence for maintainers."""
    return ASKED if note == DECLARED else note
