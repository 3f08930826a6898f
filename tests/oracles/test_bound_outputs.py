"""Outputs of onnxruntime between closed pages: what a kernel does beyond them is told, and no sound model."""

import ctypes
import os
import signal
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from corpus.case import Case
from generators.mixture import Plan, make_cases
from oracles.backends.ort import is_watched
from oracles.sandbox.sandbox import Job
from oracles.verdict import Run
from oracles.worker.edges import WrittenBeyond
from oracles.worker.ort import bound
from oracles.worker.ort.bound import NotWritten, must_keep_within
from tests.helpers.failing import ORT, model
from triage.campaigns.testers import judgement

SIZE = 5
RESULT = np.arange(SIZE, dtype="float32")
Kernel = Callable[[int, int], None]


class Binding:
    """What onnxruntime binds, for a kernel that is given the addresses of its input and its output."""

    def __init__(self, session: "Session") -> None:
        self.places: list[int] = []

    def bind_input(self, name: str, array: np.ndarray) -> None:
        self.places.append(array.ctypes.data)

    def bind_output(self, name: str, device: object, dtype: object, shape: object, place: int) -> None:
        self.places.append(place)


class Session:
    """A session with one kernel; it cannot be planted in a wheel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.overridable_initializers: list[SimpleNamespace] = []
        self.inputs_meta, self.outputs_meta = (
            [SimpleNamespace(name=name, type="tensor(float)")] for name in "xy"
        )

    def run_with_iobinding(self, binding: Binding, options: None) -> None:
        self.kernel(*binding.places)


def writing(at: int, count: int = SIZE) -> Kernel:
    """Writes `count` elements to the output, and with `at` one more, so many elements from its first."""

    def kernel(source: int, target: int) -> None:
        ctypes.memmove(target, RESULT.ctypes.data, count * 4)
        if at != 0:
            ctypes.memset(target + 4 * at, 1, 4)

    return kernel


def looked_at(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    real = bound.core
    monkeypatch.setattr(bound, "core", SimpleNamespace(SessionIOBinding=Binding, OrtDevice=real.OrtDevice))
    must_keep_within(Session(kernel), {"x": RESULT}, {"y": RESULT})


def test_a_kernel_that_writes_all_of_its_output_and_no_more_is_sound(monkeypatch):
    looked_at(writing(0), monkeypatch)


@pytest.mark.parametrize("at", [SIZE, SIZE + 3, 2 * SIZE])
def test_a_write_behind_an_output_that_begins_with_its_page_is_told(at, monkeypatch):
    with pytest.raises(WrittenBeyond, match="memory: writes beyond the output y"):
        looked_at(writing(at), monkeypatch)


def test_a_write_to_what_lies_before_an_input_is_told(monkeypatch):
    def kernel(source: int, target: int) -> None:
        writing(0)(source, target)
        ctypes.memset(source - 4, 1, 4)

    with pytest.raises(WrittenBeyond, match="memory: writes beyond the input x"):
        looked_at(kernel, monkeypatch)


def written_behind_the_input(source: int, target: int) -> None:
    ctypes.memset(source + 4 * SIZE, 1, 1)


def read_behind_the_input(source: int, target: int) -> None:
    ctypes.string_at(source + 4 * SIZE, 1)


@pytest.mark.parametrize("kernel", [written_behind_the_input, read_behind_the_input])
def test_what_is_touched_behind_an_input_at_the_end_of_its_page_ends_the_process(kernel, monkeypatch):
    child = os.fork()
    if not child:
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        looked_at(kernel, monkeypatch)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGSEGV


@pytest.mark.parametrize("count", [0, SIZE - 1])
def test_an_output_that_is_not_written_in_whole_is_told(count, monkeypatch):
    with pytest.raises(NotWritten, match="memory: leaves unwritten a part of the output y"):
        looked_at(writing(0, count), monkeypatch)


def test_a_session_that_refuses_its_own_shapes_is_left_alone(monkeypatch):
    def kernel(source: int, target: int) -> None:
        raise RuntimeError("Invalid rank for output: y Got: 2 Expected: 4")

    looked_at(kernel, monkeypatch)


def test_sound_models_pass(judge):
    relu = model([("Relu", ["x"], ["y"])], {"x": (1, [2, 3])}, {"y": (1, [2, 3])}, {})
    cases = [Case("onnx", relu.SerializeToString(), {"x": np.ones((2, 3), np.float32)}, ORT)]
    for case in (*cases, *make_cases(Plan("random"), range(660_000_000, 660_000_080))):
        for run in judge.runs(case, judge.configs[:2]):
            assert not run.message.startswith("memory: ")


@pytest.mark.parametrize("thorough", [False, True])
def test_of_a_campaigns_tests_the_thorough_ones_are_run_between_pages(thorough, judge, monkeypatch):
    relu = model([("Relu", ["x"], ["y"])], {"x": (1, [2, 3])}, {"y": (1, [2, 3])}, {})
    case = Case("onnx", relu.SerializeToString(), {"x": np.ones((2, 3), np.float32)}, ORT)
    settings: dict[str, object] = {"level": "all", "providers": ["CPUExecutionProvider"]}
    watched: list[bool] = []
    run = judge.executor.run

    def noting(job: Job, **options: Any) -> tuple[Run, ...]:
        watched.append(is_watched(job.program, settings | {"quick": job.quick}))
        return run(job, **options)

    monkeypatch.setattr(judge.executor, "run", noting)
    judgement(judge)(case, thorough)
    assert watched[0] is thorough


def test_an_initializer_that_a_case_overrides_is_bound_as_an_input_is(judge):
    typed = dict.fromkeys("xw", (1, [2]))
    adding = model([("Add", ["x", "w"], ["y"])], typed, {"y": (1, [2])}, {"w": np.float32([1, 2])})
    given = dict.fromkeys("xw", np.ones(2, np.float32))
    for run in judge.runs(Case("onnx", adding.SerializeToString(), given, ORT), judge.configs[:2]):
        assert run.is_ok
        assert run.outputs["y"].tolist() == [2, 2]
