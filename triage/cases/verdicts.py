"""Verdicts for the command line: a case judged once or often, and the failing one kept."""

from __future__ import annotations

from typing import Any

from corpus.case import Case
from oracles.judge import Judge
from oracles.verdict import Verdict
from triage.store.documents import wrong_document


def judge_often(judge: Judge, case: Case, repeat: int) -> tuple[Verdict, dict[str, Any]]:
    """Return the verdict that counts, and its document: the first that shows a bug, else the first.

    Repeated judging also says how often that symptom came.
    """
    first = judge.verdict(case).must_be_of_a_program(case.origin or case.case_id[:12])
    verdicts = [first, *(judge.verdict(case) for _ in range(repeat - 1))]
    chosen = next((verdict for verdict in verdicts if verdict.is_bug), verdicts[0])
    chosen = judge.explain(case, chosen)
    document: dict[str, Any] = {
        "outcome": chosen.outcome.value,
        "phase": chosen.phase.value,
        "symptom": str(chosen.symptom or ""),
        "title": chosen.title,
        "bug": chosen.is_bug,
        "target": str(judge.target),
        "notes": list(chosen.notes),
    }
    if chosen.wrong is not None:
        document["wrong"] = wrong_document(chosen.wrong)
    if repeat > 1:
        same = sum(verdict.symptom == chosen.symptom for verdict in verdicts)
        document |= {"repeats": repeat, "same": same}
    return chosen, document
