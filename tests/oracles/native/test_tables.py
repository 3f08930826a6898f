"""What a stripped library tells of itself: its functions, their blocks, names and files."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from corpus.errors import UserError
from corpus.target import Target
from generators.mixture import PLAN, make_cases
from oracles.backends import find_backend
from oracles.judge import Judge
from oracles.native.elf import Elf
from oracles.native.table import Library, Table, load_table
from oracles.native.watching import Met, Watch, by_file, find_libraries, total
from oracles.sandbox.deaths import load_functions
from oracles.sandbox.sandbox import Job, Sandbox
from oracles.verdict import Config, Run, Status
from tests.helpers.commands import completed


@pytest.fixture(scope="module")
def table(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Table:
    return load_table(Library(sample), tmp_path_factory.mktemp("cache"))


def disassembly(library: Path) -> dict[int, str]:
    """Each instruction by its address, as binutils decodes it."""
    text = completed(["objdump", "-d", str(library)], check=True).stdout
    rows = (line.split("\t") for line in text.splitlines() if line.startswith("  "))
    return {int(row[0].strip(" :"), 16): row[2] for row in rows if len(row) > 2}


def test_what_a_conditional_jump_leads_to_is_a_block(sample, table):
    known = disassembly(sample)
    blocks, addresses = set(table.blocks.tolist()), sorted(known)
    assert blocks <= set(known), "a block starts an instruction"
    with Elf(sample) as elf:
        starts, ends = elf.functions()
    inside = {at for start, end in zip(starts, ends, strict=True) for at in range(start, end)}
    jumps = [at for at in inside & known.keys() if known[at].startswith("j") and known[at][1:3] != "mp"]
    assert len(jumps) > 5
    assert {int(known[at].split()[1], 16) for at in jumps} <= blocks
    assert {addresses[addresses.index(at) + 1] for at in jumps} <= blocks


def test_a_table_of_jumps_leads_to_blocks(sample, table):
    with Elf(sample) as elf:
        choose = next(symbol for symbol in elf.symbols() if symbol.name == "choose")
    inside = (table.blocks >= choose.address) & (table.blocks < choose.address + choose.size)
    assert inside.sum() >= 7


def test_a_function_is_of_the_file_that_it_mentions(table):
    assert "src/crux/hidden.cc" in table.files


def test_a_table_is_kept_by_the_build_and_made_again_where_it_is_damaged(sample, tmp_path):
    first = load_table(Library(sample), tmp_path)
    (kept,) = tmp_path.iterdir()
    before, content = kept.stat().st_mtime_ns, kept.read_bytes()
    assert load_table(Library(sample), tmp_path).files == first.files
    assert kept.stat().st_mtime_ns == before
    kept.write_bytes(content[:100])
    assert np.array_equal(load_table(Library(sample), tmp_path).blocks, first.blocks)


def test_a_namespace_leaves_the_rest_out(sample, tmp_path):
    own = load_table(Library(sample, "crux"), tmp_path)
    assert 0 < len(own.blocks) < len(load_table(Library(sample), tmp_path).blocks)


def test_what_is_no_library_is_one_clear_line(tmp_path):
    path = tmp_path / "x.so"
    path.write_bytes(b"no library at all")
    with pytest.raises(UserError, match=r"x\.so: cannot be read"):
        load_table(Library(path), tmp_path)


def test_a_frame_is_named_by_what_is_exported_and_else_by_where_its_function_starts(sample):
    functions = load_functions(str(sample))
    (symbol,) = [symbol for symbol in functions.symbols if symbol[2] == "branch"]
    assert {functions.name(symbol[0] + offset) for offset in range(symbol[1])} == {"branch"}
    hidden = {int(start) for start in functions.starts} - {symbol[0] for symbol in functions.symbols}
    assert len(hidden) >= 2
    assert all(functions.name(start + 1) == f"fn_{start:x}" for start in hidden)


# A real backend with its code watched: the same verdicts and functions each time, also after a crash


def test_verdicts_are_those_of_code_without_breakpoints():
    watch = Watch(find_libraries(find_backend("ort").libraries or ()), each_test=True)
    said: list[list[str]] = []
    for watching in (watch, None):
        said.append([])
        with Judge(Target("ort"), watch=watching) as judge:
            for case in make_cases(PLAN, range(24)):
                found = judge.verdict(case)
                said[-1].append(f"{found.outcome} {found.phase} {found.symptom} {found.title}")
                assert not watching or len(watching.take().functions)
    assert said[0] == said[1]
    files = by_file(watch, watch.ever())
    assert total(files).blocks_met > 10_000
    assert any(each.pass_name == "constant_folding" and each.blocks_met for each in files)
    watch.close()


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
    called = getattr(library, name)
    return {{"y": called(int(argument)) if argument else ctypes.cast(called, ctypes.c_void_p).value}}
"""


@contextmanager
def watched(
    sample: Path, folder: Path, *, built: Path | None = None, each_test: bool = True
) -> Iterator[tuple[Sandbox, Watch]]:
    """A sandbox whose programs are calls of the sample's functions, or of another build of it."""
    file = folder / "backend.py"
    file.write_text(BACKEND.format(path=str(built or sample)))
    watch = Watch([Library(sample)], folder, each_test=each_test)
    with Sandbox(str(file), watch=watch, shown=[str(built or sample)]) as sandbox:
        yield sandbox, watch
    watch.close()


def called(sandbox: Sandbox, call: str, *, fresh: bool = False) -> Run:
    return sandbox.run(Job(call.encode(), {}, (Config("plain"),)), fresh=fresh)[0]


def names(sample: Path, watch: Watch, met: Met) -> set[str]:
    """The functions that tests met, by the names that the library exports, else by their files."""
    (table,), functions = watch.tables, load_functions(str(sample))
    found = set()
    for block in met.functions.tolist():
        name = functions.name(int(table.blocks[block]))
        found.add(table.files[table.function_of[block]] if name.startswith("fn_") else name)
    return found


def test_each_test_tells_its_own_functions(sample, tmp_path):
    with watched(sample, tmp_path) as (sandbox, watch):
        for call, own in (("branch:3", {"branch", "src/crux/hidden.cc"}), ("branch:30", {"branch"})):
            called(sandbox, call)
            assert names(sample, watch, watch.take()) == own


def test_a_block_is_told_once_also_by_workers_of_one_test(sample, tmp_path):
    with watched(sample, tmp_path) as (sandbox, watch):
        for call, fresh, tells in (
            ("branch:30", False, True),
            ("branch:30", False, False),
            ("branch:3", True, True),
            ("branch:3", True, False),
        ):
            called(sandbox, call, fresh=fresh)
            assert bool(len(watch.take().blocks)) == tells


def test_functions_too_are_told_once_unless_each_test_is_to_tell_them(sample, tmp_path):
    with watched(sample, tmp_path, each_test=False) as (sandbox, watch):
        for own in ({"branch", "src/crux/hidden.cc"}, set()):
            called(sandbox, "branch:3")
            assert names(sample, watch, watch.take()) == own


def test_another_build_is_left_alone(sample, tmp_path):
    other = tmp_path / "other.so"
    options = ["-O2", "-fPIC", "-shared", "-s", "-Wl,--build-id=sha1"]
    source = Path(__file__).with_name("sample.cpp")
    subprocess.run(["g++", *options, "-o", str(other), str(source)], check=True)
    with watched(sample, tmp_path, built=other) as (sandbox, watch):
        assert called(sandbox, "loop:20").outputs["y"] == 471
        assert not len(watch.take().functions)


@pytest.mark.parametrize(("call", "number"), [("crash:8", signal.SIGSEGV), ("trap:0", signal.SIGTRAP)])
def test_a_worker_that_dies_has_told_what_it_met_and_where(sample, tmp_path, call, number):
    with watched(sample, tmp_path) as (sandbox, watch):
        for fresh in (False, True):
            run = called(sandbox, call, fresh=fresh)
            assert (run.status, run.signal) == (Status.CRASH, number)
            assert names(sample, watch, watch.take()) == {call.partition(":")[0]}
        assert called(sandbox, "loop:3").outputs["y"] == 6
        assert names(sample, watch, watch.take()) == {"loop", "branch", "src/crux/hidden.cc"}


def test_what_is_watched_lies_at_the_same_addresses_on_each_start(sample, tmp_path):
    """Hash tables of C++ libraries are seeded by them."""
    found = set()
    for _ in range(2):
        with watched(sample, tmp_path) as (sandbox, _):
            found.add(int(called(sandbox, "first").outputs["y"]))
    assert len(found) == 1
