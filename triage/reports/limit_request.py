"""One feature request for all that an importer declares not to do: a table, the smallest models, a script."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpus.case import Case
from corpus.errors import UserError
from corpus.onnx.text import print_text
from corpus.target import Target
from oracles.judge import Judge
from triage.bugs.limits import DeclaredLimit
from triage.projects import project_of
from triage.reports.bundle import write_bundle
from triage.setup.environment import describe_environment, package_line
from triage.store.database import Store
from triage.store.failures import is_limit
from triage.views.privacy import scrub
from triage.views.rendering import render

SCRIPT = "import_models.py"


@dataclass(frozen=True, slots=True)
class Row:
    """One form in the request: the limit, the name of its model's file, and that model."""

    limit: DeclaredLimit
    model: str
    case: Case

    def shown(self) -> dict[str, Any]:
        """What the template asks for."""
        return {
            "operator": self.limit.operator,
            "form": self.limit.form,
            "words": scrub(self.limit.words),
            "count": self.limit.count,
            "model": self.model,
            "text": print_text(self.case.parsed),
        }


def write_request(
    store: Store, found: Sequence[DeclaredLimit], judge_of: Callable[[Target], Judge], out: Path
) -> dict[str, Any]:
    """Write `out/limits-TARGET` for the limits of one target that still show, each judged anew.

    Raises `UserError` where none shows.
    """
    target = Target.parse(found[0].target)
    judge, project = judge_of(target), project_of(target.backend)
    rows = list(_rows(store, found, judge))
    if not rows:
        raise UserError(
            f"{target}: none of the {len(found)} declared limits shows on {judge.release} any more"
        )
    environment = describe_environment(target)
    operators = len({row.limit.operator for row in rows})
    title = f"Feature request: {len(rows)} forms of {operators} operators that the ONNX importer refuses"
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
    gone = [each.document() for each in found if each not in [row.limit for row in rows]]
    return {
        "target": str(target),
        "title": title,
        "forms": len(rows),
        "gone": len(gone),
        "folder": str(folder),
        "zip": str(archive),
    }


def _rows(store: Store, found: Sequence[DeclaredLimit], judge: Judge) -> Iterator[Row]:
    """The limits that the installed release still declares, each with its smallest model."""
    for limit in found:
        case = store.load_case(limit.case_id)
        if is_limit(judge.verdict(case)):
            yield Row(limit, f"{_file_name(limit.operator)}-{_file_name(limit.form)}.onnx", case)


def _file_name(text: str) -> str:
    return re.sub(r"\W+", "-", text).strip("-").lower()[:40]
