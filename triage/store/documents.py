"""Verdicts as JSON: what the store keeps of a verdict, without the runs' output values."""

import math
import re
from dataclasses import asdict
from typing import Any

from corpus.reading import Fields, Text
from oracles.numerics.compare import part_of
from oracles.verdict import Run, Symptom, Verdict, WrongResult
from triage.views.listing import MOST_COLUMNS, SIGNS, error_map

_ROW = Text(f"[{re.escape(SIGNS)}]{{1,{MOST_COLUMNS}}}")
VERDICT = Fields(
    {
        **{"outcome": str, "phase": str, "title": str},
        "runs": [Fields({"status": str}, {"config": str, "message": str, "error": str})],
    },
    {"wrong": (Fields({}, {"first_divergent": str, "map": [_ROW]}), type(None))},
)
"""What is read of a kept verdict."""
MOST_TEXT = 64 * 1024
"""Characters kept of one message or trace; an optimiser can print a whole graph into its exception."""


def symptom_document(symptom: Symptom) -> dict[str, str]:
    """A symptom by the names of its parts; `side` only where one side alone shows it."""
    return {
        "outcome": symptom.outcome.value,
        "phase": symptom.phase.value,
        "kind": symptom.kind,
        "site": symptom.site,
        "message": symptom.message,
        **({"side": symptom.side} if symptom.side else {}),
    }


def wrong_document(verdict: Verdict) -> dict[str, Any] | None:
    """Describe a wrong result; a distance that is not finite, which JSON lacks, becomes a word."""
    wrong = verdict.wrong
    if wrong is None:
        return None
    baseline, other = wrong.off_truth or (None, None)
    return {
        "output": wrong.output,
        "side": wrong.side,
        "kind": wrong.kind,
        "error": _number(wrong.error),
        "truth": wrong.truth,
        "unoptimised_off_truth": _number(baseline),
        "optimised_off_truth": _number(other),
        "first_divergent": wrong.first,
        "operator": wrong.operator,
        "times_further": _number(wrong.times),
        "map": map_of(verdict),
    }


def map_of(verdict: Verdict) -> list[str]:
    """The error over the wrong output, row by row; empty where there is no such picture."""
    if verdict.wrong is None or len(verdict.runs) < 2:
        return []
    ends = (verdict.runs[0], verdict.runs[-1])
    return error_map(*(part_of(run.outputs, verdict.wrong.output) for run in ends))


def located_document(wrong: WrongResult | None) -> dict[str, Any] | None:
    """The first wrong tensor and what was right before it; None where nothing tells."""
    found = wrong.located if wrong is not None else None
    return {**asdict(found), "error": _number(found.error)} if found is not None else None


def _number(value: float | None) -> float | str | None:
    return value if value is None or math.isfinite(value) else str(value)


def run_document(run: Run) -> dict[str, Any]:
    """Describe one run without its values; long texts are cut in the middle."""
    return {
        "config": run.config.label,
        "status": run.status.value,
        "phase": run.phase.value,
        "error": run.error,
        "message": clip(run.message),
        "trace": clip(run.trace),
        "signal": run.signal,
        "frames": [[frame.library, frame.offset, frame.function] for frame in run.frames],
        "cpu_seconds": round(run.cpu_seconds, 3),
    }


def verdict_document(verdict: Verdict) -> dict[str, Any]:
    """A verdict with its symptom, what is wrong, and its runs."""
    return {
        "outcome": verdict.outcome.value,
        "phase": verdict.phase.value,
        "title": verdict.title,
        "symptom": symptom_document(verdict.symptom) if verdict.symptom else None,
        "notes": list(verdict.notes),
        "wrong": wrong_document(verdict),
        "runs": [run_document(run) for run in verdict.runs],
    }


def clip(text: str) -> str:
    """The text, or its beginning and end when it is longer than the store wants to keep."""
    if len(text) <= MOST_TEXT:
        return text
    half = MOST_TEXT // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
