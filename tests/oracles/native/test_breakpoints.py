"""Breakpoints in running code: they tell what is met, cost once, and change no result."""

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from oracles.native.table import Library
from oracles.native.watching import Met, Watch
from oracles.sandbox.deaths import load_functions

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


@pytest.fixture
def watch(sample: Path, tmp_path: Path) -> Iterator[Watch]:
    found = Watch([Library(sample)], tmp_path, each_test=True)
    yield found
    found.close()


class Watched:
    """A process under breakpoints; steps one test at a time."""

    def __init__(self, sample: Path, watch: Watch, *tests: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "watched_process.py"), str(sample), watch.option(), *tests],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=watch.descriptors,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    def step(self) -> dict[str, int]:
        """What the process says next; it waits for the next call after that."""
        assert self.process.stdin
        assert self.process.stdout
        line = self.process.stdout.readline()
        found: dict[str, int] = json.loads(line) if line else {}
        return found

    def go(self) -> dict[str, int]:
        """Let it go on, and what it says then."""
        assert self.process.stdin
        with suppress(BrokenPipeError):
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        return self.step()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def watched(sample: Path, watch: Watch) -> Iterator[Callable[..., Watched]]:
    started: list[Watched] = []

    def start(*tests: str) -> Watched:
        started.append(Watched(sample, watch, *tests))
        return started[-1]

    yield start
    for each in started:
        each.end()


def names(sample: Path, watch: Watch, met: Met) -> set[str]:
    """The functions that a test met, by the names that the library exports, else by their files."""
    (table,), functions = watch.tables, load_functions(str(sample))
    assert functions is not None
    found = set()
    for block in met.functions.tolist():
        name = functions.name(int(table.blocks[block]))
        found.add(table.files[table.function_of[block]] if name.startswith("fn_") else name)
    return found


def test_results_are_those_without_breakpoints(watched, sample, watch):
    library = ctypes.CDLL(str(sample))
    calls = [("loop", 20), ("choose", 2), ("choose", 9), ("catches", 1), ("area", 6), ("branch", 300)]
    process = watched(*(f"{name}:{argument}" for name, argument in calls))
    assert process.step() == {"armed": watch.total, "complaint": ""}
    plain = [getattr(library, name)(argument) for name, argument in calls]
    assert [process.go()["result"] for _ in calls] == plain


def test_each_test_tells_its_own_functions(sample, watched, watch):
    process = watched("branch:3", "branch:30", "loop:2")
    process.step()
    found = []
    for _ in range(3):
        process.go()
        found.append(names(sample, watch, watch.met()))
    assert found == [{"branch", "src/crux/hidden.cc"}, {"branch"}, {"loop", "branch", "src/crux/hidden.cc"}]


def test_a_block_is_told_once(watched, watch):
    process = watched("branch:30", "branch:30", "branch:3")
    process.step()
    process.go()
    first = watch.met().blocks
    process.go()
    assert len(first)
    assert not len(watch.met().blocks)
    process.go()
    assert len(watch.met().blocks)
    assert len(watch.ever()) > len(first)


def test_functions_too_are_told_once_unless_each_test_is_to_tell_them(sample, tmp_path):
    once = Watch([Library(sample)], tmp_path)
    process = Watched(sample, once, "branch:3", "branch:3")
    process.step()
    process.go()
    assert names(sample, once, once.met()) == {"branch", "src/crux/hidden.cc"}
    process.go()
    assert names(sample, once, once.met()) == set()
    process.end()
    once.close()


def test_a_child_tells_through_the_same_list(sample, watched, watch):
    process = watched("+branch:3", "settle", "+branch:3")
    process.step()
    process.go()
    blocks = len(watch.met().blocks)
    assert process.go()["status"] == 0
    process.go()
    assert blocks
    assert names(sample, watch, watch.met()) == {"branch", "src/crux/hidden.cc"}
    assert not len(watch.met().blocks), "what one child has met is settled before the next one is forked"


def test_what_the_warm_up_enters_is_left_out(sample, watched, watch):
    process = watched("branch:3", "leave_out", "loop:2")
    process.step()
    process.go()
    process.go()
    assert names(sample, watch, watch.met()) == {"loop"}


@pytest.mark.parametrize(("test", "number"), [("trap:0", signal.SIGTRAP), ("crash:8", signal.SIGSEGV)])
def test_a_signal_of_the_program_ends_it_as_ever(sample, watched, watch, test, number):
    process = watched(f"+{test}")
    process.step()
    assert process.go()["status"] & 127 == number
    assert names(sample, watch, watch.met()) == {test.partition(":")[0]}


def test_another_build_is_left_alone(sample, tmp_path, watch):
    other = tmp_path / "other.so"
    options = ["-O2", "-fPIC", "-shared", "-s", "-Wl,--build-id=sha1"]
    subprocess.run(["g++", *options, "-o", str(other), str(HERE / "sample.cpp")], check=True)
    process = Watched(other, watch, "loop:20")
    assert process.step() == {"armed": 0, "complaint": ""}
    assert process.go() == {"result": 471}
    process.end()
