"""Everything that a report says, before it is written."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import onnx

from corpus.case import Case
from corpus.onnx.types import DTYPES, dtype_name, element_type
from corpus.values import Value
from oracles.judge import Judge
from oracles.naming import Signature, signature
from oracles.numerics.compare import Tolerance
from oracles.sandbox.executor import without_twins
from oracles.verdict import Outcome, Run, Verdict
from reducer.pass_sets import PassSet, find_pass_set
from triage.bugs.failures import History
from triage.bugs.known import KnownIssue, Library
from triage.claim import Claim, Expectation
from triage.environment import describe_environment
from triage.language import language_of
from triage.projects import Project, project_of
from triage.reports.bundle import Scripts
from triage.reports.limit_request import request_title
from triage.reports.newest_release import NewestReleases, OnNewest
from triage.reports.program_evidence import ProgramEvidence, exhibit
from triage.repro.model_code import messages
from triage.repro.proving import Proof
from triage.repro.short import name_of
from triage.repro.source import Source
from triage.titles import operators_of, title_of
from triage.views.rendering import as_comment, render

FAMILIES = (
    (onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE),
    (onnx.TensorProto.INT8, onnx.TensorProto.INT32, onnx.TensorProto.INT64, onnx.TensorProto.UINT8),
)
"""Types among which a program is varied: floats with floats, integers with integers."""
MOST_NODES = 12


@dataclass(frozen=True)
class Variation:
    """One variant: what was changed, and whether the failure shows on it (None: it is no valid program)."""

    name: str
    shows: bool | None


def vary_dtypes(case: Case, verdict: Verdict, judge: Judge) -> tuple[Variation, ...]:
    """The program in each other type of the family of the type that most of its inputs have."""
    model: onnx.ModelProto = case.parsed
    code = _main_type(case)
    family = next((each for each in FAMILIES if code in each), ())
    if len(model.graph.node) > MOST_NODES or case.external:
        return ()
    return tuple(_try(case, model, code, other, verdict, judge) for other in family)


def _main_type(case: Case) -> int:
    tensors = [value for value in case.inputs.values() if isinstance(value, np.ndarray)]
    found = Counter(element_type(tensor.dtype) for tensor in tensors)
    return found.most_common(1)[0][0] if found else 0


def _try(
    case: Case, model: onnx.ModelProto, code: int, other: int, verdict: Verdict, judge: Judge
) -> Variation:
    name = dtype_name(other)
    if other == code:
        return Variation(name, True)
    changed = replace(
        case,
        program=retyped(model, code, other).SerializeToString(deterministic=True),
        inputs={key: _converted(value, code, other) for key, value in case.inputs.items()},
    )
    return Variation(name, _shows(judge.verdict(changed), verdict))


def _shows(found: Verdict, verdict: Verdict) -> bool | None:
    """Whether a variant fails alike; None where it is no valid program."""
    if found.outcome in (Outcome.INVALID, Outcome.UNSUPPORTED):
        return None
    return _face(found) == _face(verdict)


def vary_empty_dims(case: Case, verdict: Verdict, judge: Judge) -> tuple[Variation, ...]:
    """The program as it is, and with some elements where what flows in has a dim of 0; none without one."""
    model = onnx.ModelProto()
    model.CopyFrom(case.parsed)
    graph = model.graph
    empty = [name for name, value in case.inputs.items() if isinstance(value, np.ndarray) and not value.size]
    weights = [each for each in graph.initializer if 0 in each.dims]
    if not (empty or weights) or case.external or len(graph.node) > MOST_NODES:
        return ()
    inputs = {name: filled(value) if name in empty else value for name, value in case.inputs.items()}
    for weight in weights:
        weight.CopyFrom(onnx.numpy_helper.from_array(filled(onnx.numpy_helper.to_array(weight)), weight.name))
    graph.ClearField("value_info")
    for each in (*graph.input, *graph.output):
        for dim in each.type.tensor_type.shape.dim:
            if dim.HasField("dim_value") and not dim.dim_value:
                dim.dim_value = FILLED
    changed = replace(case, program=model.SerializeToString(deterministic=True), inputs=inputs)
    return Variation("0", True), Variation(str(FILLED), _shows(judge.verdict(changed), verdict))


FILLED = 2
"""What a dim of 0 becomes."""


def filled(value: Any) -> Any:
    """An array of zeros with elements where one without any had a dim of 0."""
    return np.zeros(tuple(size or FILLED for size in value.shape), value.dtype)


def _face(verdict: Verdict) -> tuple[Outcome, str]:
    return verdict.outcome, verdict.symptom.kind if verdict.symptom else ""


def retyped(model: onnx.ModelProto, code: int, other: int) -> onnx.ModelProto:
    """The model with every value, weight and cast of one element type in another one."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    named = {("to", code), ("dtype", code)}
    for message in list(messages(made)):
        if isinstance(message, onnx.TensorProto) and message.data_type == code:
            array = onnx.numpy_helper.to_array(message)
            message.CopyFrom(onnx.numpy_helper.from_array(in_type(array, other), message.name))
        elif isinstance(message, onnx.TypeProto.Tensor) and message.elem_type == code:
            message.elem_type = other
        elif isinstance(message, onnx.AttributeProto) and (message.name, message.i) in named:
            message.i = other
    return made


def _converted(value: Value, code: int, other: int) -> Value:
    if not isinstance(value, np.ndarray) or element_type(value.dtype) != code:
        return value
    return in_type(value, other)


def in_type(array: np.ndarray, other: int) -> np.ndarray:
    """Convert to another type; the least and the greatest integer stay so, since they may be what fails."""
    dtype = DTYPES[other]
    with np.errstate(all="ignore"):
        made = array.astype(dtype)
    if array.dtype.kind in "iu" and dtype.kind in "iu":
        limits, own = np.iinfo(dtype), np.iinfo(array.dtype)
        made = np.where(array == own.min, limits.min, np.where(array == own.max, limits.max, made))
    return made.astype(dtype)


@dataclass(frozen=True)
class Draft:
    """A case with its verdict, the script that shows it, and what is asked of the backend as it is needed."""

    case: Case
    verdict: Verdict
    judge: Judge
    history: History
    library: Library
    form: Project
    claim: Claim
    source: Source | None
    scripts: Scripts
    releases: NewestReleases | None = None

    def look(self) -> None:
        """Ask the backend all that the report says, which takes its time, while the scripts run."""
        shown = self.exhibit
        _ = self.on_newest, self.runs, self.passes, self.in_double, shown.reference, shown.complaint
        _ = self.empty_dims

    @property
    def script(self) -> str:
        """The self-contained script."""
        return self.scripts.proven.script

    @property
    def proof(self) -> Proof:
        """How often the script was seen to show the bug."""
        return self.scripts.proven.proof

    @property
    def short(self) -> str:
        """The script that stands in the text; empty where the case cannot be shown in so few lines."""
        return self.scripts.proven.short

    @property
    def test(self) -> str:
        """The bug as a test of the project; where it has no short script, one that runs `repro.py`."""
        if self.scripts.proven.test:
            return self.scripts.proven.test
        name = name_of(self.case, self.expectation)
        return render("test_repro.py.j2", name=name, title=self.title)

    @property
    def expectation(self) -> Expectation:
        """The claim."""
        return self.claim.expectation

    @cached_property
    def exhibit(self) -> ProgramEvidence:
        """The program as the report shows it and has it checked."""
        return exhibit(self.case, self.judge, self.source)

    @property
    def tolerance(self) -> Tolerance:
        """The tolerance of every comparison in the report."""
        return self.claim.tolerance

    @cached_property
    def environment(self) -> dict[str, Any]:
        """The machine and the packages that it was seen on."""
        return describe_environment(self.judge.target)

    @cached_property
    def signature(self) -> Signature:
        """The bug's name, with the minimal passes in it."""
        minimal = self.passes.minimal if self.passes else ()
        return signature(self.verdict, self.case.measure, self.case, minimal)

    @cached_property
    def passes(self) -> PassSet | None:
        """What the reduction found on this release; without one, a search."""
        if self.judge.backend.passes is None:
            return None
        if found := self.history.pass_set(self.case, self.judge.target, self.judge.release):
            return found
        repeats = int(self.history.reduction.get("runs_per_decision", 1))
        return find_pass_set(self.judge, self.case, self.verdict, repeats=repeats)

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """Run the case in every configuration; reuse the runs of the verdict."""
        known = {run.config: run for run in self.verdict.runs}
        ways = without_twins(self.judge.configs, self.case.passes)
        others = tuple(config for config in ways if config not in known)
        known |= {run.config: run for run in (self.judge.runs(self.case, others) if others else ())}
        return tuple(known[config] for config in ways)

    @cached_property
    def in_double(self) -> Run | None:
        """The un-optimised program in float64 on the same backend, where that has a meaning."""
        return self.exhibit.in_double if self.expectation.outcome is Outcome.MISMATCH else None

    @cached_property
    def variations(self) -> tuple[Variation, ...]:
        """Try other element types, if the backend is cheap enough; not of a bug that is fixed already."""
        is_cheap = self.judge.target.backend in self.project.varied
        is_fixed = self.on_newest is not None and self.on_newest.fixed
        if not is_cheap or is_fixed or not language_of(self.case.format).has_model:
            return ()
        return vary_dtypes(self.case, self.verdict, self.judge)

    @cached_property
    def empty_dims(self) -> tuple[Variation, ...]:
        """Try dims other than 0, where types are varied as well."""
        return vary_empty_dims(self.case, self.verdict, self.judge) if self.variations else ()

    @cached_property
    def on_newest(self) -> OnNewest | None:
        """What the newest release shows; None if nobody asked for it."""
        if self.releases is None:
            return None
        is_steady = (
            self.history.reduction.get("failure_rate", 1.0) == 1.0 and not self.expectation.is_unstable
        )
        return self.releases.look(self.case, self.verdict, self.judge, is_steady=is_steady)

    @cached_property
    def known(self) -> KnownIssue | None:
        """The known issue that it is."""
        return self.library.known(self.signature, self.judge.release)

    @cached_property
    def title(self) -> str:
        """The title of the issue, on one line; it names passes only where runs without them were right."""
        passes = self.passes.minimal if self.passes and self.passes.cures else ()
        title = title_of(self.expectation, operators_of(self.case), passes, self.tolerance)
        return as_comment(request_title(title, self.verdict))

    @property
    def project(self) -> Project:
        """The project whose bug it is."""
        return project_of(self.judge.target.backend)

    @property
    def package(self) -> str:
        """The package that has the bug."""
        return self.judge.backend.package
