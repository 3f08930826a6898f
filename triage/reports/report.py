"""Reports: an issue that a maintainer can read, with a script that was seen to show the bug."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

from corpus.case import CASE_FILE, Case
from corpus.errors import UserError
from corpus.formats import find_format
from corpus.values import write_inputs
from oracles.judge import Judge
from oracles.naming.names import names_of_case
from oracles.verdict import Verdict
from triage.bugs.history import History
from triage.bugs.library import Library
from triage.claims.claim import Claim, expect, title_of, tolerance_showing
from triage.projects import find_form, project_of, runner_of
from triage.reports import sentences
from triage.reports.bundle import write_bundle
from triage.reports.checklist import Check, checks
from triage.reports.draft import Draft
from triage.reports.exhibits import without_remarks
from triage.reports.issue import issue_text, origin_text
from triage.repro.proving import Proof, prove
from triage.repro.script import write_script
from triage.repro.source import Source, source_of
from triage.views.graph_picture import MOST_WHOLE, GraphPicture
from triage.views.listing import describe_value
from triage.views.privacy import scrub
from triage.views.rendering import render

MODES = ("code", "bytes")
COLLECT_SECONDS = 120.0


@dataclass(frozen=True)
class Report:
    """A written report; `ready` when every check holds that is needed for that."""

    folder: Path
    archive: Path
    title: str
    ready: bool
    checks: tuple[Check, ...]
    signature: str

    @property
    def missing(self) -> tuple[str, ...]:
        """What keeps it from being ready."""
        return tuple(check.text for check in self.checks if check.is_needed and not check.holds)


def write_report(
    case: Case,
    judge: Judge,
    folder: Path,
    history: History,
    library: Library | None = None,
    form: str = "",
) -> Report:
    """Judge the case once more, prove a script, write the folder and its zip.

    `form` is the project whose form is filled, that of the target where it is empty. Raises `UserError` when
    the case shows no bug, or when its target has no script.
    """
    runner_of(judge.target.backend, case.format)  # raises for a target that no script is written for
    draft = _draft(without_remarks(case), judge, history, library or Library.shipped(), form)
    files = {**_case_files(draft), "issue.md": b"", **_documents(draft)}
    checked = tuple(checks(draft, files))
    files["issue.md"] = issue_text(draft, checked, files.get(COLLECTED, b"").decode()).encode()
    large = {file.location: file.path for file in draft.case.external}
    archive = write_bundle(folder, files, large)
    ready = all(check.holds for check in checked if check.is_needed)
    return Report(folder, archive, draft.title, ready, checked, draft.signature.digest)


def _draft(case: Case, judge: Judge, history: History, library: Library, form: str) -> Draft:
    chosen = find_form(form, judge.target.backend)
    verdict = judge.verdict(case)
    if not verdict.is_bug:
        raise UserError(
            f"{case.origin or case.case_id[:12]}: shows no bug on {judge.target} ({verdict.title})"
        )
    source = source_of(case, judge)
    script, proof = _proven_script(case, verdict, judge, source)
    explained = judge.explain(case, verdict)
    return Draft(case, explained, judge, history, library, chosen, script, proof, source)


def _proven_script(case: Case, verdict: Verdict, judge: Judge, source: Source | None) -> tuple[str, Proof]:
    """The most readable script that shows the bug; when none does, the first one."""
    limits = judge.limits
    tolerance = tolerance_showing(verdict, judge.tolerance)
    expectation = expect(verdict, tolerance, project_of(judge.target.backend), names_of_case(case))
    title = title_of(expectation, case.measure.ops)
    seconds = limits.cpu_seconds + 10 + runner_of(judge.target.backend, case.format).slow
    claim = Claim(expectation, title, tolerance, seconds, limits.memory_bytes)
    tried: list[tuple[str, Proof]] = []
    for mode in MODES[: 1 if source else None]:
        script = write_script(case, claim, mode, source)
        beside = _beside(case)
        python = judge.target.get("python")
        proof = prove(script, beside, python, claim.seconds, limits.memory_bytes)
        if proof.holds:
            return script, proof
        tried.append((script, proof))
    return tried[0]


def _beside(case: Case) -> dict[str, bytes | Path]:
    """The files that a script may read, at the places where the report has them."""
    program = find_format(case.format).PROGRAM_FILE
    files: dict[str, bytes | Path] = {program: case.program, "inputs.npz": _inputs_file(case)}
    return files | {file.location: file.path for file in case.external}


def _inputs_file(case: Case) -> bytes:
    buffer = BytesIO()
    write_inputs(buffer, case.inputs)
    return buffer.getvalue()


def _case_files(draft: Draft) -> dict[str, bytes]:
    """The script, and a case folder: what the program is, without a word of whose machine it was found on."""
    case, target = draft.case, draft.judge.target.without_setting("python")
    return {
        **draft.exhibit.files,
        CASE_FILE: replace(case, target=target, origin="", notes=()).facts_json().encode(),
        "inputs.npz": _inputs_file(draft.case),
        "repro.py": draft.script.encode(),
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
    if tool := draft.form.environment_tool:
        python = draft.judge.target.get("python") or sys.executable
        files[COLLECTED] = _output_of(tool, python).encode()
    return files


def _picture(draft: Draft) -> dict[str, bytes]:
    """`graph.svg`; none of a graph too large to be looked at."""
    drawn = draft.exhibit.drawn
    if len(drawn.graph.node) > MOST_WHOLE:
        return {}
    values = {name: describe_value(value) for name, value in draft.case.inputs.items()}
    shown = GraphPicture(drawn.graph, drawn.types, values=values).whole()
    return {"graph.svg": render("graph.svg.html.j2", shown=shown, name=draft.title).encode()}


def _output_of(tool: str, python: str) -> str:
    """What a project's own tool says of the environment; it names nobody, and is scrubbed all the same."""
    command = [python, "-m", tool]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COLLECT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return ""
    lines = [line for line in done.stdout.splitlines() if "MHz" not in line and "BogoMIPS" not in line]
    return scrub("\n".join(lines).strip())


def _json(document: Any) -> bytes:
    return (json.dumps(document, indent=2, sort_keys=True, default=list) + "\n").encode()
