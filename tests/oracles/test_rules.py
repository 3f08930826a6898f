"""The rules: found by themselves, in order, each deciding only what it is for."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import cast

import numpy as np
import onnx
import pytest

import oracles.rules
from corpus.case import Case
from oracles.numerics.compare import Tolerance
from oracles.probes.context import Context
from oracles.probes.record import Recording
from oracles.rules import find_rules
from oracles.verdict import Config, Outcome, Phase, Run, Status, Verdict

CASE = Case("onnx", b"", {})


class Quiet:
    """Noise of a model without nodes."""

    recording = Recording({}, None, True)
    types: Mapping[str, onnx.TypeProto.Tensor] = MappingProxyType({})

    def ancestors(self, name: str) -> set[str]:
        return {name}


class Facts:
    """What a context would answer."""

    def __init__(self, kind: str = "", complaint: str | None = None, referee: Status = Status.OK) -> None:
        self.kind = kind
        self.complaint = complaint
        self.names: frozenset[str] = frozenset()
        self.tolerance = self.screen = Tolerance()
        self.is_random = False
        self.plain = None
        self.nodes: tuple[onnx.NodeProto, ...] = ()
        self.has_open_operators = False
        self.noise = Quiet()
        self.steps = 0.0
        self.contradiction = self.undefined = ""
        self.floor_quotients = ()
        self.repeats = ()
        self.referee = Run(Config("reference"), referee, Phase.EXECUTE)

    def declared(self, name: str) -> None:
        return None

    def written_out(self) -> None:
        return None

    def contradicted_by_interpreter(self, run: Run) -> None:
        return None

    def classify(self, run: Run) -> str:
        return "" if run.is_ok else self.kind


def ran(status: Status, label: str = "none", **details: object) -> Run:
    return Run(Config(label), status, Phase.EXECUTE, **details)  # type: ignore[arg-type]


OK, THROWN, DEAD, LATE, STARVED = (
    ran(status)
    for status in (Status.OK, Status.EXCEPTION, Status.CRASH, Status.TIMEOUT, Status.OUT_OF_MEMORY)
)


def decide(runs: tuple[Run, ...], facts: Facts) -> Verdict | None:
    verdicts = (rule.judge(CASE, runs, cast(Context, facts)) for rule in find_rules())
    return next((verdict for verdict in verdicts if verdict is not None), None)


def test_every_file_of_the_package_holds_rules():
    files = {path.stem for path in Path(oracles.rules.__path__[0]).glob("*.py")} - {"__init__"}
    assert {rule.judge.__module__.rsplit(".", 1)[1] for rule in find_rules()} == files
    assert [rule.name for rule in find_rules()[:2]] == ["undefined", "crash"]


@pytest.mark.parametrize(
    ("runs", "facts", "outcome", "side"),
    [
        ((OK, OK), Facts(), None, ""),
        ((DEAD, DEAD), Facts(), Outcome.CRASH, ""),
        ((OK, DEAD), Facts(), Outcome.CRASH, "optimised"),
        ((THROWN, DEAD), Facts(complaint="bad"), Outcome.CRASH, "optimised"),
        ((LATE, LATE), Facts(), Outcome.TIMEOUT, ""),
        ((OK, LATE), Facts(), Outcome.TIMEOUT, "optimised"),
        ((STARVED, OK), Facts(), Outcome.OUT_OF_MEMORY, ""),
        ((THROWN, THROWN), Facts("out-of-memory"), Outcome.OUT_OF_MEMORY, ""),
        ((THROWN, OK), Facts("unsupported"), Outcome.UNSUPPORTED, ""),
        ((OK, THROWN), Facts("unsupported"), Outcome.EXCEPTION, "optimised"),
        ((OK, THROWN), Facts("ill-marked"), Outcome.UNSUPPORTED, ""),
        ((THROWN, OK), Facts("invalid-input"), Outcome.INVALID, ""),
        ((THROWN, THROWN), Facts(complaint="bad"), Outcome.INVALID, ""),
        ((OK, THROWN), Facts(complaint="bad"), Outcome.EXCEPTION, "optimised"),
        ((THROWN, OK), Facts(), Outcome.EXCEPTION, "un-optimised"),
        ((THROWN, OK), Facts(referee=Status.EXCEPTION), Outcome.INVALID, ""),
        ((THROWN, THROWN), Facts(referee=Status.OK), Outcome.EXCEPTION, ""),
        ((THROWN, THROWN), Facts(referee=Status.EXCEPTION), Outcome.INVALID, ""),
        ((THROWN,), Facts(referee=Status.OK), Outcome.EXCEPTION, ""),
        ((THROWN,), Facts("unsupported"), Outcome.UNSUPPORTED, ""),
    ],
)
def test_runs_and_facts_make_an_outcome(runs, facts, outcome, side):
    verdict = decide(runs, facts)
    assert (verdict and verdict.outcome) == outcome
    assert verdict is None or (verdict.symptom is not None and verdict.symptom.side == side)


def test_a_verdict_rests_on_the_baseline_and_the_run_that_fails():
    dead = ran(Status.CRASH, "extended")
    verdict = decide((OK, ran(Status.OK, "all"), dead), Facts())
    assert verdict is not None
    assert verdict.runs == (OK, dead)


def test_another_result_on_every_run_is_a_mismatch_of_the_baseline():
    facts = Facts()
    one, other = (ran(Status.OK, outputs={"y": np.array([value])}) for value in (1, 2))
    facts.repeats = (one, other)  # type: ignore[assignment]
    verdict = decide((one, one), facts)
    assert verdict is not None
    assert verdict.symptom is not None
    assert (verdict.symptom.kind, verdict.symptom.site) == ("nondeterministic", "un-optimised")
    facts.is_random = True
    assert decide((one, one), facts) is None
