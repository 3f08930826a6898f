"""The four functions of the library, each what the command of its name does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Unpack

from corpus.case import Case
from generators import library
from oracles.verdict import Verdict
from reducer.api import reduce_case
from reducer.result import Reduction as Reduced
from triage.bugs.history import History, history_of_folder
from triage.bugs.known import Library, load_known
from triage.console.options import DEFAULT_DATABASE
from triage.public.models import Inputs, Model, Settings, opened
from triage.reductions.folders import Request, reducer_options
from triage.reports.report import Report, write_report


@dataclass(frozen=True)
class Reduction:
    """The result of a reduction.

    `case` is the smallest case, `verdict` what it shows (None if a command decided). `is_minimal` says that
    no move makes it smaller, `nodes` counts nodes before and after, `passes` are the optimiser passes that
    the failure needs, `signature` names the bug, `checks` counts the runs of the predicate.
    """

    case: Case
    verdict: Verdict | None
    is_minimal: bool
    nodes: tuple[int, int]
    passes: tuple[str, ...]
    signature: str
    checks: int


def check(
    model: Model, inputs: Inputs = None, *, target: str | None = None, **settings: Unpack[Settings]
) -> Verdict:
    """Judge a model on a target, `ort` where none is named.

    Raises `UserError` where the model, the inputs or the target cannot be used. A compiler's failure is no
    exception: `is_bug` of the verdict says whether there is a bug, `title` is one line about it.

    >>> import numpy, onnx
    >>> model = onnx.parser.parse_model('''<ir_version: 8, opset_import: ["": 17]>
    ...     half (double[3] x) => (double[3] y) <double low = {-1.0}> {
    ...         r = Relu(x)
    ...         y = Clip(r, low)
    ...     }''')
    >>> verdict = check(model, {"x": numpy.array([-1.0, 0.5, 2.0])}, target="ort")
    >>> verdict.is_bug, verdict.outcome.value
    (True, 'exception')
    """
    with opened(model, inputs, target, settings) as (case, judges):
        assert case.target is not None
        judge = judges.of(case.target, case.format)
        found = judge.verdict(case).must_be_of_a_program(case.origin or case.case_id[:12])
        return judge.explain(case, found)


def reduce(
    model: Model,
    inputs: Inputs = None,
    *,
    target: str | None = None,
    out: Path | None = None,
    command: str | None = None,
    minutes: float | None = None,
    max_checks: int | None = None,
    private: bool = False,
    **settings: Unpack[Settings],
) -> Reduction:
    """Shrink a failing model to the smallest case with the same symptom.

    `out` keeps the case folder and the journal, so that an interrupted reduction resumes. `command` is a
    shell command that decides instead of a target; `{}` in it is the candidate. `private` leaves nothing of
    the original's names and values. Raises `DoesNotFail` where the failure does not show, `UserError` as
    `check` does.

    >>> import onnx
    >>> model = onnx.parser.parse_model('''<ir_version: 8, opset_import: ["": 17]>
    ...     half (double[3] x) => (double[3] y) <double low = {-1.0}> {
    ...         a = Abs(x)
    ...         r = Relu(a)
    ...         c = Clip(r, low)
    ...         y = Neg(c)
    ...     }''')
    >>> small = reduce(model, target="ort")
    >>> small.is_minimal, small.nodes, small.case.measure.ops, small.passes
    (True, (4, 2), ('Relu', 'Clip'), ('FuseReluClip',))
    """
    request = Request(minutes, max_checks, command, private=private)
    with (
        opened(model, inputs, target, settings) as (case, judges),
        TemporaryDirectory(prefix="crux-") as scratch,
    ):
        assert case.target is not None
        judge = judges.of(case.target, case.format)
        options = reducer_options(judges.options, case.target, request)
        return _told(reduce_case(case, out or Path(scratch) / "reduction", options, judge=judge))


def _told(done: Reduced) -> Reduction:
    return Reduction(
        done.case,
        done.verdict,
        done.is_minimal,
        (done.before.nodes, done.after.nodes),
        done.passes.minimal if done.passes else (),
        done.signature.digest if done.signature else "",
        done.checks,
    )


def report(
    model: Model,
    out: Path,
    inputs: Inputs = None,
    *,
    target: str | None = None,
    project: str = "",
    known: Path | None = None,
    **settings: Unpack[Settings],
) -> Report:
    """Write a bundle for one failing case into the folder `out`, and its zip beside it.

    Give it what `reduce` left: a report of a large model helps nobody. `project` is whose form is filled,
    that of the target unless it is named; `known` a file of known issues. Raises `UserError` where the case
    shows no bug.
    """
    history = history_of_folder(Path(model)) if isinstance(model, str | Path) else History()
    with opened(model, inputs, target, settings) as (case, judges):
        assert case.target is not None
        issues = load_known(judges.options.db or DEFAULT_DATABASE, known)
        judge = judges.of(case.target, case.format)
        return write_report(case, judge, Path(out), history, Library(issues), project)


def generate(
    count: int, *, ops: int = 10, seed: int = 0, strategy: str = "random", trust: bool = False
) -> Iterator[Case]:
    """Make `count` valid programs of `ops` nodes; a seed gives the same program on any machine.

    >>> [case.measure.nodes for case in generate(3, ops=4, seed=7)]
    [4, 4, 4]
    """
    options = library.Options(strategy, trust=trust)
    with TemporaryDirectory(prefix="crux-made-") as name:
        for number in range(seed, seed + count):
            library.generate(Path(name), 1, ops, seed=number, options=options)
            yield Case.load(Path(name) / f"seed-{number}")
