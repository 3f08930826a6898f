"""What a stripped library tells of itself: its functions, their blocks, names and files."""

import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from corpus.errors import UserError
from corpus.target import Target
from generators.mixture import PLAN, make_cases
from oracles.backends import find_backend
from oracles.judge import Judge
from oracles.native.elf import Elf, plain, qualified
from oracles.native.table import Library, Table, load_table
from oracles.native.watching import Watch, by_file, find_libraries, total
from oracles.sandbox.sandbox import Job, Sandbox
from oracles.verdict import Config, Status
from tests.helpers.commands import completed


@pytest.fixture(scope="module")
def table(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Table:
    return load_table(Library(sample), tmp_path_factory.mktemp("cache"))


def disassembly(library: Path) -> dict[int, str]:
    """Each instruction by its address, as binutils decodes it."""
    text = completed(["objdump", "-d", str(library)], check=True).stdout
    rows = (line.split("\t") for line in text.splitlines() if line.startswith("  "))
    return {int(row[0].strip(" :"), 16): row[2] for row in rows if len(row) > 2}


def test_functions_do_not_overlap_and_hold_the_exported_ones(sample):
    with Elf(sample) as elf:
        starts, ends = elf.functions()
        exported = {symbol.address for symbol in elf.symbols()}
    assert (starts < ends).all()
    assert (ends[:-1] <= starts[1:]).all()
    assert exported <= set(starts.tolist())


def test_every_block_starts_an_instruction(sample, table):
    known = disassembly(sample)
    assert set(table.blocks.tolist()) <= set(known)


def test_what_a_conditional_jump_leads_to_is_a_block(sample, table):
    known = disassembly(sample)
    blocks, addresses = set(table.blocks.tolist()), sorted(known)
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


def test_the_first_bytes_are_those_of_the_file(sample, table):
    with Elf(sample) as elf:
        found = [elf.bytes_at(address, 1)[0] for address in table.blocks.tolist()]
    assert found == table.originals.tolist()


def test_functions_are_named_by_exports_by_their_texts_and_by_their_class(table):
    by = {each.name: each.by for each in table.named}
    assert by["branch"] == "export"
    assert by["crux::hidden"] == "text"
    assert any(name.startswith("crux::Square::virtual") for name in by)


def test_a_function_is_of_the_file_that_it_mentions(table):
    (hidden,) = (each for each in table.named if each.name == "crux::hidden")
    assert hidden.file == "src/crux/hidden.cc"


def test_a_table_is_kept_by_the_build(sample, tmp_path):
    first = load_table(Library(sample), tmp_path)
    (kept,) = tmp_path.iterdir()
    before = kept.stat().st_mtime_ns
    second = load_table(Library(sample), tmp_path)
    assert kept.stat().st_mtime_ns == before
    assert np.array_equal(first.blocks, second.blocks)
    assert first.named == second.named


def test_a_damaged_table_is_made_again(sample, tmp_path):
    first = load_table(Library(sample), tmp_path)
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(kept.read_bytes()[:100])
    assert np.array_equal(load_table(Library(sample), tmp_path).blocks, first.blocks)


def test_a_namespace_leaves_the_rest_out(sample, tmp_path):
    own = load_table(Library(sample, "crux"), tmp_path)
    assert 0 < len(own.blocks) < len(load_table(Library(sample), tmp_path).blocks)


def test_what_is_no_library_is_one_clear_line(tmp_path):
    path = tmp_path / "x.so"
    path.write_bytes(b"no library at all")
    with pytest.raises(UserError, match=r"x\.so: cannot be read"):
        load_table(Library(path), tmp_path)


@pytest.mark.parametrize(
    ("signature", "name"),
    [
        (
            "virtual onnxruntime::common::Status onnxruntime::Fold::Apply(int) const",
            "onnxruntime::Fold::Apply",
        ),
        ("void a::B<T>::c(std::vector<int>) [with T = float]", "a::B::c"),
        ("bool a::operator<(int, int)", "a::operator"),
        ("a::(anonymous namespace)::f(int)", "a::anonymous::f"),
    ],
)
def test_a_signature_is_named_without_what_it_takes(signature, name):
    assert qualified(signature) == name


def test_template_arguments_are_left_out():
    assert plain("a::B<c<d>, e>::f") == "a::B::f"


# A real backend with its code watched: the same verdicts and functions each time, also after a crash

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


def function_names(watch: Watch, functions: np.ndarray) -> list[str]:
    """The names of some functions, by their numbers; `fn_` and the address of one that has no name."""
    found = []
    for number in functions.tolist():
        index = int(np.searchsorted(np.array(watch.firsts), number, side="right")) - 1
        table, block = watch.tables[index], number - watch.firsts[index]
        name = table.named[table.function_of[block]].name
        found.append(name or f"fn_{int(table.blocks[block]):x}")
    return found


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
