"""How a target does on ONNX's own backend tests: each passes, fails, or is refused as not implemented.

The installed `onnx` makes those of single operators itself and keeps the rest in its package; nothing comes
from the network.
"""

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TypeProto, numpy_helper

from corpus.case import Case
from corpus.onnx.graph import walk_model
from corpus.values import Value
from oracles.judge import Judge
from oracles.numerics.compare import Tolerance, compare_outputs
from oracles.verdict import Outcome, Run
from triage.console.output import Document

KINDS = ("simple", "pytorch-operator", "pytorch-converted")
"""Kinds of tests whose files come with onnx; those of the kind `real` would have to be downloaded."""


@dataclass(frozen=True)
class StandardTest:
    """One test with one set of data; values agree within `rtol` and `atol`, as onnx declares them."""

    name: str
    case: Case
    expected: Mapping[str, Value]
    rtol: float
    atol: float


def standard_tests(only: re.Pattern[str]) -> Iterator[StandardTest]:
    """Read every test whose name matches, by name; one for each of its sets of data."""
    found = [test for test in _collected() if only.search(test.name)]
    for test in sorted(found, key=lambda test: test.name):
        yield from _read(test)


def _collected() -> list[Any]:
    from onnx.backend.test.case.node import collect_testcases
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():  # numpy's, while the expected values are computed
        warnings.simplefilter("ignore")
        kept = [test for kind in KINDS for test in load_model_tests(kind=kind) if test.model_dir]
        return [*collect_testcases(None), *kept]


def _read(test: Any) -> Iterator[StandardTest]:
    if test.model is None:
        folder = Path(test.model_dir)
        model = onnx.load(folder / "model.onnx")
        sets: Sequence[Any] = [_stored(each, model) for each in sorted(folder.glob("test_data_set_*"))]
    else:
        model, sets = test.model, test.data_sets or []
    program = model.SerializeToString(deterministic=True)
    for number, (inputs, outputs) in enumerate(sets):
        name = test.name if len(sets) == 1 else f"{test.name}#{number}"
        given = _named(model.graph.input, inputs)
        case = Case("onnx", program, given, origin=f"onnx:{name}")
        yield StandardTest(name, case, _named(model.graph.output, outputs), test.rtol, test.atol)


def _stored(folder: Path, model: ModelProto) -> tuple[list[Any], list[Any]]:
    """The inputs and outputs of a folder `test_data_set_N`, in the order of their numbers."""
    return (
        [_from_file(folder / f"input_{at}.pb", each.type) for at, each in enumerate(model.graph.input)],
        [_from_file(folder / f"output_{at}.pb", each.type) for at, each in enumerate(model.graph.output)],
    )


def _from_file(path: Path, declared: TypeProto) -> Any:
    if not path.is_file():  # an input with an initializer
        return None
    content = path.read_bytes()
    if declared.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(content))
    return onnx.TensorProto.FromString(content)


def _named(declared: Sequence[Any], values: Sequence[Any]) -> dict[str, Value]:
    pairs = zip(declared, values, strict=False)  # the last inputs may be left out
    return {each.name: _value(value) for each, value in pairs if value is not None}


def _value(value: Any) -> Value:
    if isinstance(value, (list, tuple)):
        return [np.asarray(_value(each)) for each in value]
    if isinstance(value, onnx.TensorProto):
        value = numpy_helper.to_array(value)
    array = np.asarray(value)
    return array.astype(np.str_) if array.dtype.kind in "OS" else array


PASSES, FAILS, REFUSED = "passes", "fails", "refused"
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
    """Run one test un-optimised and optimised; each run that ends must give what the standard asks for.

    What another backend gives, which the target is compared with otherwise, is no matter here.
    """
    own = tuple(config for config in judge.configs if not config.backend)
    runs = judge.runs(test.case, own[:2])
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
        is_drawn = found is not None and found.kind in ("nan", "value") and judge.open(test.case).is_random
        if found is not None and not is_drawn:  # of what a model draws by chance only the types are fixed
            return FAILS, f"{run.config.label}: {found}"
    if all(run.is_ok for run in runs):
        return PASSES, ""
    verdict = judge.verdict(test.case)
    return (REFUSED if verdict.outcome in _REFUSALS else FAILS), verdict.title
