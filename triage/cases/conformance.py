"""How a target does on ONNX's own backend tests: each passes, fails, or is refused as not implemented."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

from corpus.onnx.graph import walk_model
from corpus.outputs import own
from corpus.target import Target
from corpus.values import write_inputs
from oracles.judge import Judge
from oracles.numerics.compare import Difference, Tolerance, compare_outputs
from oracles.run import Run
from oracles.verdict import Outcome
from triage.cases.standard import StandardTest
from triage.console.output import Document

PASSES, FAILS, REFUSED = "passes", "fails", "refused"
EXPECTED = "expected.npz"
_REFUSALS = (Outcome.UNSUPPORTED, Outcome.INVALID)


def conform(tests: Iterable[StandardTest], judges: list[Judge]) -> Iterator[Document]:
    """Run each test on one of the judges' sandboxes, as many at once as there are; results in order."""
    free: SimpleQueue[Judge] = SimpleQueue()
    for judge in judges:
        free.put(judge)

    def run(test: StandardTest) -> Document:
        judge = free.get()
        try:
            return conform_one(test, judge)
        finally:
            free.put(judge)

    with ThreadPoolExecutor(len(judges)) as pool:
        yield from pool.map(run, tests)


def conform_one(test: StandardTest, judge: Judge) -> Document:
    """Run one test un-optimised and optimised; each run that ends must give what the standard asks for."""
    runs = judge.runs(test.case, judge.configs[:2])
    status, seen = _said_of(test, runs, judge)
    return {
        "test": test.name,
        "operators": sorted({node.op_type for node in walk_model(test.case.parsed)}),
        "status": status,
        "seen": seen,
        "target": str(judge.target),
        "release": judge.release,
    }


def _said_of(test: StandardTest, runs: tuple[Run, ...], judge: Judge) -> tuple[str, str]:
    tolerance = Tolerance(test.rtol, test.atol)
    for run in runs:
        found = compare_outputs(test.expected, run.outputs, tolerance) if run.is_ok else None
        if found is not None and not _is_drawn(found, test, judge):
            return FAILS, f"{run.config.label}: {found}"
    if all(run.is_ok for run in runs):
        return PASSES, ""
    verdict = judge.verdict(test.case)
    return (REFUSED if verdict.outcome in _REFUSALS else FAILS), verdict.title


def _is_drawn(found: Difference, test: StandardTest, judge: Judge) -> bool:
    """Return whether values differ of a model that draws random numbers: only their types are fixed."""
    return found.kind in ("nan", "value") and judge.open(test.case).is_random


def save(test: StandardTest, folder: Path, target: Target) -> None:
    """Write the test as a case folder of its name, with what the standard gives in `expected.npz`."""
    place = folder / test.name
    own(folder, [test.name])
    own(place, [*test.case.file_names, EXPECTED], is_known=True)
    replace(test.case, target=target).save(place)
    write_inputs(place / EXPECTED, test.expected)
