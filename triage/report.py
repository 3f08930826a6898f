"""Reports: an issue that a maintainer can read, with a script that was seen to show the bug."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

import onnx

from corpus.case import Case
from corpus.errors import UserError
from corpus.formats.onnx import checker_complaint, measure, parse
from corpus.values import write_inputs
from oracles.judge import Judge
from oracles.names import names_of
from oracles.signature import Signature, signature
from oracles.verdict import Verdict
from reducer.pass_sets import PassSet, find_pass_set
from triage import issue
from triage.bundle import write_bundle
from triage.environment import describe_environment, package_line
from triage.expectation import Expectation, expect
from triage.history import History
from triage.listing import describe_value, list_model, mermaid
from triage.pass_sets import advice
from triage.privacy import private_words_in, scrub
from triage.proving import Proof, prove
from triage.rendering import as_comment, render
from triage.repro.normal_form import messages, normal_form
from triage.repro.runners import RUNNERS
from triage.repro.script import Claim, TorchSource, torch_source, write_script

MOST_INLINE_SCRIPT = 20_000
SHOWN_FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16", "fma", "asimd", "sve")
MODES = ("code", "bytes")
REMARKS = {"doc_string", "metadata_props", "producer_name", "producer_version", "model_version"}


@dataclass(frozen=True)
class Check:
    """One line of the checklist: what was verified, or was not."""

    holds: bool
    text: str


@dataclass(frozen=True)
class Report:
    """A written report; `ready` when its script showed the bug every time in fresh processes."""

    folder: Path
    archive: Path
    title: str
    ready: bool
    checks: tuple[Check, ...]
    signature: str


@dataclass(frozen=True)
class Draft:
    """Everything that a report says, before it is written."""

    case: Case
    verdict: Verdict
    judge: Judge
    history: History
    script: str
    proof: Proof
    source: TorchSource | None

    @cached_property
    def model(self) -> onnx.ModelProto:
        return parse(self.case.program)

    @cached_property
    def expectation(self) -> Expectation:
        return expect(self.verdict, self.judge.tolerance, names_of(self.model))

    @cached_property
    def environment(self) -> dict[str, Any]:
        return describe_environment(self.judge.target)

    @cached_property
    def signature(self) -> Signature:
        minimal = self.passes.minimal if self.passes else ()
        return signature(self.verdict, measure(self.model), self.case, minimal)

    @cached_property
    def passes(self) -> PassSet | None:
        """Searched for anew: a report says nothing that its own release was not seen to do."""
        repeats = int(self.history.reduction.get("runs_per_decision", 1))
        return find_pass_set(self.judge, self.case, self.verdict, repeats=repeats)

    @property
    def title(self) -> str:
        return as_comment(issue.title(self.expectation, measure(self.model).ops))

    @property
    def package(self) -> str:
        return self.judge.backend.PACKAGE


def write_report(case: Case, judge: Judge, folder: Path, history: History) -> Report:
    """Judge the case once more, prove a script, write the folder and its zip.

    Raises `UserError` when the case shows no bug, or when its target has no script.
    """
    if judge.target.backend not in RUNNERS:
        known = ", ".join(sorted(RUNNERS))
        raise UserError(f"target {judge.target}: no repro.py can be written for it yet, only for {known}")
    draft = _draft(_without_remarks(case), judge, history)
    files = {**_case_files(draft), "issue.md": b"", **_documents(draft)}
    checks = tuple(_checks(draft, files))
    files["issue.md"] = _issue(draft, checks).encode()
    large = {file.location: file.path for file in draft.case.external}
    archive = write_bundle(folder, files, large)
    return Report(folder, archive, draft.title, draft.proof.holds, checks, draft.signature.digest)


def _draft(case: Case, judge: Judge, history: History) -> Draft:
    verdict = judge.verdict(case)
    if not verdict.is_bug:
        raise UserError(
            f"{case.origin or case.case_id[:12]}: shows no bug on {judge.target} ({verdict.title})"
        )
    source = torch_source(case, judge)
    script, proof = _proven_script(case, verdict, judge, source)
    return Draft(case, verdict, judge, history, script, proof, source)


def _proven_script(
    case: Case, verdict: Verdict, judge: Judge, source: TorchSource | None
) -> tuple[str, Proof]:
    """The most readable script that shows the bug; when none does, the first one."""
    limits, model = judge.limits, parse(case.program)
    expectation = expect(verdict, judge.tolerance, names_of(model))
    title = issue.title(expectation, measure(model).ops)
    seconds = limits.cpu_seconds + 10 + RUNNERS[judge.target.backend].slow
    claim = Claim(expectation, title, judge.tolerance, seconds, limits.memory_bytes)
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
    files: dict[str, bytes | Path] = {"model.onnx": case.program, "inputs.npz": _inputs_file(case)}
    return files | {file.location: file.path for file in case.external}


def _inputs_file(case: Case) -> bytes:
    buffer = BytesIO()
    write_inputs(buffer, case.inputs)
    return buffer.getvalue()


def _without_remarks(case: Case) -> Case:
    """The case without documentation and metadata, which can hold an author's paths."""
    model = parse(case.program)
    for message in messages(model):
        for field in REMARKS & set(message.DESCRIPTOR.fields_by_name):
            message.ClearField(field)
    model.ClearField("domain")
    return replace(case, program=model.SerializeToString(deterministic=True), origin="", notes=())


def _case_files(draft: Draft) -> dict[str, bytes]:
    return {
        "model.onnx": draft.case.program,
        "inputs.npz": _inputs_file(draft.case),
        "repro.py": draft.script.encode(),
    }


def _documents(draft: Draft) -> dict[str, bytes]:
    rows = issue.value_rows(draft.expectation, draft.judge.tolerance)
    found = draft.signature
    named = {"version": found.version, "digest": found.digest, "components": found.components}
    return {
        "trace.txt": issue.trace_text(draft.expectation, rows).encode(),
        "env.json": _json(draft.environment),
        "signature.json": _json({**named, "symptom": str(draft.verdict.symptom)}),
    }


def _checks(draft: Draft, files: dict[str, bytes]) -> Iterator[Check]:
    proof, reduction = draft.proof, draft.history.reduction
    yield Check(proof.holds, f"`repro.py` showed the bug in {proof.shown} of {proof.times} fresh processes")
    same = bool(proof.model) and normal_form(parse(proof.model)) == normal_form(draft.model)
    yield Check(same, "the model that `repro.py` builds is `model.onnx`")
    complaint = checker_complaint(draft.model)
    yield Check(complaint is None, "ONNX's checker with strict shape inference accepts the model")
    if draft.history.is_minimal:
        yield Check(True, "no reduction step makes the model smaller (1-minimal)")
    else:
        yield Check(
            False, "the model is as small as it can be" + ("" if reduction else " (it was not reduced)")
        )
    private = sorted({word for content in files.values() for word in private_words_in(content)})
    yield Check(not private, "no home folder, user name or host name is in any file")
    yield Check(False, "looked for the same bug among the open issues, and tried the newest build")


def _issue(draft: Draft, checks: tuple[Check, ...]) -> str:
    judge, expectation = draft.judge, draft.expectation
    rows = issue.value_rows(expectation, judge.tolerance)
    package = package_line(draft.environment, draft.package)
    inputs = [f"{name} = {describe_value(value)}" for name, value in draft.case.inputs.items()]
    return render(
        "issue.md.j2",
        title=draft.title,
        checks=checks,
        happened=issue.happened(expectation, package),
        expected=issue.expected(expectation, draft.verdict, judge.tolerance),
        advice=advice(draft.passes),
        nodes=measure(draft.model).nodes,
        listing=list_model(draft.model),
        inputs="\n".join(inputs) or "(none)",
        levels=issue.level_rows(judge.runs(draft.case, judge.configs), expectation, judge.tolerance),
        rows=rows,
        passing=expectation.passing_label,
        failing=expectation.failing_label,
        trace=""
        if rows or expectation.is_unstable
        else issue.short_trace(issue.trace_text(expectation, rows)),
        graph=mermaid(draft.model),
        package=draft.package,
        printed=scrub(draft.proof.text),
        inline_script=len(draft.script) <= MOST_INLINE_SCRIPT,
        script=draft.script,
        environment=list(_environment_rows(draft)),
        found=draft.history.sentences(),
    )


def _environment_rows(draft: Draft) -> Iterator[tuple[str, str]]:
    found = draft.environment
    others = [f"{name} {version}" for name, version in found["packages"].items() if name in ("numpy", "onnx")]
    yield "package", package_line(found, draft.package) + " (Python API)"
    yield "system", f"{found['system']}, {found['libc']}"
    yield "architecture", f"{found['architecture']}, {found['processor']['model']}"
    yield "instruction sets", " ".join(flag for flag in found["processor"]["flags"] if flag in SHOWN_FLAGS)
    yield "Python", ", ".join([found["python"], *others])
    providers = draft.judge.configs[0].get("providers")
    yield "execution provider", ", ".join(providers) if isinstance(providers, tuple) else found["device"]


def _json(document: Any) -> bytes:
    return (json.dumps(document, indent=2, sort_keys=True, default=list) + "\n").encode()
