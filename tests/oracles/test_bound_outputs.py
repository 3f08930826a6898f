"""Outputs of onnxruntime between closed pages: what a kernel does beyond them is told, and no sound model."""

import ctypes
import os
import signal
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

from generators.mixture import Plan, make_cases
from oracles.worker.edges import WrittenBeyond
from oracles.worker.ort import bound
from oracles.worker.ort.bound import NotWritten, must_keep_within
from tests.helpers.failing import on_ort

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


def before_the_input(source: int, target: int) -> None:
    writing(0)(source, target)
    ctypes.memset(source - 4, 1, 4)


@pytest.mark.parametrize(
    ("kernel", "error", "said"),
    [
        *((writing(at), WrittenBeyond, "writes beyond the output y") for at in (SIZE, SIZE + 3, 2 * SIZE)),
        (before_the_input, WrittenBeyond, "writes beyond the input x"),
        *((writing(0, count), NotWritten, "leaves unwritten a part of the output y") for count in (0, 4)),
    ],
    ids=["behind", "further behind", "far behind", "before an input", "nothing written", "one not written"],
)
def test_what_a_kernel_does_wrong_is_told(kernel, error, said, monkeypatch):
    with pytest.raises(error, match=f"memory: {said}"):
        looked_at(kernel, monkeypatch)


def test_a_session_that_refuses_its_own_shapes_is_left_alone(monkeypatch):
    def kernel(source: int, target: int) -> None:
        raise RuntimeError("Invalid rank for output: y Got: 2 Expected: 4")

    looked_at(kernel, monkeypatch)


RELU = on_ort("g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }", x=np.ones((2, 3), np.float32))


def test_sound_models_pass(judge):
    for case in (RELU, *make_cases(Plan("random"), range(660_000_000, 660_000_080))):
        for run in judge.runs(case, judge.configs[:2]):
            assert not run.message.startswith("memory: ")


def test_an_initializer_that_a_case_overrides_is_bound_as_an_input_is(judge):
    given = dict.fromkeys("xw", np.ones(2, np.float32))
    case = on_ort(
        "g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }", **given
    )
    for run in judge.runs(case, judge.configs[:2]):
        assert run.is_ok
        assert run.outputs["y"].tolist() == [2, 2]
