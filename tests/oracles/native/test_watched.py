"""A real backend with its code watched: the same verdicts and functions each time, also after a crash."""

import signal
from collections.abc import Iterator

import pytest

from corpus.target import Target
from generators.mixture import PLAN, make_cases
from oracles.backends import find_backend
from oracles.judge import Judge
from oracles.native.table import Library
from oracles.native.watching import Watch, by_file, find_libraries, function_names, total
from oracles.sandbox.sandbox import Job, Sandbox
from oracles.verdict import Config, Status

CASES = list(make_cases(PLAN, range(24)))
PLAIN = Config("plain")


def ort() -> Watch:
    backend = find_backend("ort")
    assert backend.libraries
    return Watch(find_libraries(backend.libraries), each_test=True)


@pytest.fixture(scope="module")
def watch() -> Iterator[Watch]:
    found = ort()
    yield found
    found.close()


def verdicts(watch: Watch | None) -> tuple[list[str], list[list[int]]]:
    """Each case's verdict in words, and the functions that it met."""
    said, met = [], []
    with Judge(Target("ort"), watch=watch) as judge:
        for case in CASES:
            found = judge.verdict(case)
            said.append(f"{found.outcome} {found.phase} {found.symptom} {found.title}")
            met.append(watch.take().functions.tolist() if watch else [])
    return said, met


def test_verdicts_are_those_of_code_without_breakpoints(watch):
    said, met = verdicts(watch)
    assert said == verdicts(None)[0]
    assert all(met)
    files = by_file(watch, watch.ever())
    assert total(files).blocks_met > 10_000
    assert any(each.pass_name == "constant_folding" and each.blocks_met for each in files)


def test_a_program_meets_nearly_the_same_functions_each_time():
    """All but what hangs on the moment, such as a collision in a table that is hashed by addresses."""
    found = []
    for _ in range(2):
        watch = ort()
        found.append(verdicts(watch)[1])
        watch.close()
    for one, two in zip(*map(list, found), strict=True):
        assert len({*one} & {*two}) >= 0.97 * len({*one} | {*two})


BACKEND = """
import ctypes

library = None


def load():
    global library
    library = ctypes.CDLL({path!r})
    library.first(1)
    return "1"


def run(program, inputs, settings, outputs, enter):
    enter("execute")
    name, _, argument = program.decode().partition(":")
    return {{"y": getattr(library, name)(int(argument))}}
"""


def test_a_worker_that_crashes_has_told_what_it_met_and_where_it_died(sample, tmp_path):
    file = tmp_path / "backend.py"
    file.write_text(BACKEND.format(path=str(sample)))
    watch = Watch([Library(sample)], tmp_path, each_test=True)
    with Sandbox(str(file), watch=watch, shown=[str(sample)]) as sandbox:
        assert sandbox.facts["breakpoints"] == ""
        for fresh in (False, True):
            (run,) = sandbox.run(Job(b"crash:8", {}, (PLAIN,)), fresh=fresh)
            assert run.status is Status.CRASH
            assert [frame.function for frame in run.frames][:1] == ["crash"]
            assert function_names(watch, watch.take().functions) == ["crash"]
        (run,) = sandbox.run(Job(b"loop:3", {}, (PLAIN,)))
        assert run.outputs["y"] == 6
        assert set(function_names(watch, watch.take().functions)) == {"loop", "branch", "crux::hidden"}
    watch.close()


ADDRESSES = """
import ctypes

library = None


def load():
    global library
    library = ctypes.CDLL({path!r})
    return "1"


def run(program, inputs, settings, outputs, enter):
    enter("execute")
    return {{"code": ctypes.cast(library.first, ctypes.c_void_p).value}}
"""


def test_what_is_watched_lies_at_the_same_addresses_on_each_start(sample, tmp_path):
    """Hash tables of C++ libraries are seeded by them."""
    file = tmp_path / "backend.py"
    file.write_text(ADDRESSES.format(path=str(sample)))
    found = []
    for _ in range(2):
        watch = Watch([Library(sample)], tmp_path)
        with Sandbox(str(file), watch=watch, shown=[str(sample)]) as sandbox:
            (run,) = sandbox.run(Job(b"", {}, (PLAIN,)))
            found.append(run.outputs["code"])
        watch.close()
    assert found[0] == found[1]


def test_a_breakpoint_of_the_program_is_its_own(sample, tmp_path):
    file = tmp_path / "backend.py"
    file.write_text(BACKEND.format(path=str(sample)))
    watch = Watch([Library(sample)], tmp_path, each_test=True)
    with Sandbox(str(file), watch=watch, shown=[str(sample)]) as sandbox:
        (run,) = sandbox.run(Job(b"trap:8", {}, (PLAIN,)))
        assert run.status is Status.CRASH
        assert run.signal == signal.SIGTRAP
    watch.close()
