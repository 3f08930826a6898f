"""Reports: an issue that a maintainer can read, with a script that was seen to show the bug."""

import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from corpus import processes
from corpus.case import CASE_FILE, Case
from corpus.errors import UserError
from oracles.judge import Judge
from oracles.probes.memory import with_misuse
from oracles.verdict import Verdict
from triage.bugs.failures import History
from triage.bugs.known import NOT_FILED, Library
from triage.bugs.overview import FIXED_IN
from triage.cases.sources import alone
from triage.language import language_of
from triage.projects import find_form, runner_of
from triage.reports import sentences
from triage.reports.bundle import Scripts, inputs_file, write_bundle
from triage.reports.checklist import Check, checks, missing
from triage.reports.draft import Draft
from triage.reports.issue import issue_text, origin_text
from triage.reports.limit_request import request_title
from triage.reports.newest_release import NewestReleases
from triage.repro.short import name_of
from triage.repro.source import source_of
from triage.titles import claim_of, operators_of, passes_tried, title_of
from triage.views.graph_picture import small_picture
from triage.views.listing import describe_values
from triage.views.rendering import render, scrub

COLLECT_SECONDS = 120.0


@dataclass(frozen=True)
class Report:
    """A written report; `ready` when every check holds that is needed for that.

    `known` names the known issue that the bug is, `issue` is its thread's address: such a report is for a
    comment there. With `not filed` for an address it is to file all the same. `newest` is the newest release
    that was tried, `fixed` the one that does not show the bug any more.
    """

    folder: Path
    archive: Path
    title: str
    ready: bool
    checks: tuple[Check, ...]
    signature: str
    known: str = ""
    issue: str = ""
    newest: str = ""
    fixed: str = ""

    @property
    def state(self) -> str:
        """`ready`, `known`, `fixed in` a release, or `not ready`."""
        if self.fixed:
            return f"{FIXED_IN}{self.fixed}"
        is_filed = self.known and self.issue != NOT_FILED
        return "known" if is_filed else "ready" if self.ready else "not ready"

    @property
    def test(self) -> Path | None:
        """The bug as a test of the project, where that was asked for."""
        return next(self.folder.glob("test_*.py"), None)


def write_report(
    case: Case,
    judge: Judge,
    folder: Path,
    history: History,
    library: Library | None = None,
    form: str = "",
    said: Callable[[str], None] = lambda text: None,
    as_test: bool = False,
    releases: NewestReleases | None = None,
    told: Verdict | None = None,
) -> Report:
    """Judge the case once more, prove its scripts, write the folder and its zip.

    `form` is the project whose form is filled, that of the target where it is empty; `said` hears what is
    being done; with `as_test` the bug stands in the folder as a test of the project, too. `releases` is where
    the newest release is asked. With `told`, a verdict of this judge on the case, it is not judged again.
    Raises `UserError` when the case shows no bug, or when its target has no script.
    """
    runner_of(judge.target.backend, case.format)  # raises for a target that no script is written for
    chosen = find_form(form, judge.target.backend)
    case, verdict = _judged(case, judge, said, told)
    source = source_of(case, judge)
    claim = claim_of(case, verdict, judge)
    named = title_of(claim.expectation, operators_of(case), passes_tried(history.reduction), claim.tolerance)
    claim = replace(claim, title=request_title(named, verdict))
    python = judge.target.get("python")
    with Scripts(case, claim, source, python, history) as scripts, ThreadPoolExecutor(1) as beside:
        collected = beside.submit(_output_of, chosen.environment_tool, python or sys.executable)
        explained = judge.explain(case, verdict)
        library = library or Library.shipped()
        draft = Draft(case, explained, judge, history, library, chosen, claim, source, scripts, releases)
        said("its scripts run in fresh processes; trying what it varies with")
        draft.look()
        files = _documents(draft)
        if printed := collected.result():
            files[COLLECTED] = printed.encode()
        said("waiting for its scripts")
        tests = {f"{name_of(case, claim.expectation)}.py": draft.test.encode()} if as_test else {}
        return _written(draft, folder, {**_case_files(draft), **files, **tests})


def _written(draft: Draft, folder: Path, files: dict[str, bytes]) -> Report:
    checked = tuple(checks(draft, files))
    text = issue_text(draft, checked, files.get(COLLECTED, b"").decode())
    files = {**files, "issue.md": text.encode()}
    archive = write_bundle(folder, files, {file.location: file.path for file in draft.case.external})
    known, issue = (draft.known.id, draft.known.issue) if draft.known else ("", "")
    newest = draft.on_newest
    tried = (newest.newest.release, newest.fixed) if newest else ("", "")
    return Report(
        folder,
        archive,
        draft.title,
        not missing(checked),
        checked,
        draft.signature.digest,
        known,
        issue,
        *tried,
    )


class NoBug(UserError):
    """There is nothing to report; `verdict` says why."""

    def __init__(self, case: Case, verdict: Verdict, judge: Judge) -> None:
        super().__init__(f"{case.case_id[:12]}: shows no bug on {judge.target} ({verdict.title})")
        self.case, self.verdict, self.judge = case, verdict, judge


def _judged(
    case: Case, judge: Judge, said: Callable[[str], None], told: Verdict | None
) -> tuple[Case, Verdict]:
    """The case without remarks, and its verdict: what was told of the very same bytes, or a new one."""
    plain = language_of(case.format).without_remarks(replace(case, origin="", notes=())).relocated
    if told is not None and plain.case_id == case.case_id:
        return plain, told
    said("judging it again")
    plain, verdict = _shown(plain, judge, said)
    return plain, with_misuse(judge.executor, plain, verdict)


def _shown(case: Case, judge: Judge, said: Callable[[str], None]) -> tuple[Case, Verdict]:
    """The case with its verdict; of a program that only fails as an oracle has rewritten it, that one."""
    case, told = alone(case, judge, said)
    verdict = (told or judge.verdict(case)).must_be_of_a_program(case.origin or case.case_id[:12])
    if not verdict.is_bug:
        raise NoBug(case, verdict, judge)
    return case, verdict


def _case_files(draft: Draft) -> dict[str, bytes]:
    """The scripts, and a case folder: the program without a word of whose machine it was found on."""
    case, target = draft.case, draft.judge.target.without_setting("python")
    return {
        **draft.exhibit.files,
        CASE_FILE: replace(case, target=target, origin="", notes=()).facts_json().encode(),
        "inputs.npz": inputs_file(draft.case),
        "repro.py": draft.script.encode(),
        **({"short.py": draft.short.encode()} if draft.short else {}),
    }


COLLECTED = "collect_env.txt"


def _documents(draft: Draft) -> dict[str, bytes]:
    rows = sentences.value_rows(draft.expectation, draft.tolerance)
    found = draft.signature
    named = {"version": found.version, "digest": found.digest, "components": found.components}
    files = {
        "trace.txt": sentences.trace_text(draft.expectation, rows).encode(),
        "env.json": _json(draft.environment),
        "signature.json": _json({**named, "symptom": str(draft.verdict.symptom)}),
        "reduction.json": _json(draft.history.reduction),
        "ORIGIN.md": f"{origin_text(draft)}\n".encode(),
        **_picture(draft),
    }
    return files


def _picture(draft: Draft) -> dict[str, bytes]:
    """`graph.svg`; none of a graph too large to be looked at."""
    wrong, values = draft.verdict.wrong, describe_values(draft.case.inputs)
    shown = small_picture(draft.exhibit.drawn, values, wrong.first if wrong else "")
    if shown is None:
        return {}
    return {"graph.svg": render("graph.svg.html.j2", shown=shown, name=draft.title).encode()}


@cache
def _output_of(tool: str, python: str) -> str:
    """The environment as the project's own tool prints it; asked once, which takes two CPU seconds.

    It names no person, but is scrubbed too.
    """
    if not tool:
        return ""
    try:
        done = processes.run([*processes.python(python), "-m", tool], COLLECT_SECONDS)
    except processes.NotRun:
        return ""
    lines = [line for line in done.output.splitlines() if "MHz" not in line and "BogoMIPS" not in line]
    return scrub("\n".join(lines).strip())


def _json(document: Any) -> bytes:
    return (json.dumps(document, indent=2, sort_keys=True, default=list) + "\n").encode()
