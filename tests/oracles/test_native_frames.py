"""Native frames: addresses become functions, in stripped libraries too, and recursion shows once."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from oracles.sandbox import deaths
from oracles.sandbox.deaths import (
    GLUE_FUNCTION,
    collapse,
    frames_of,
    load_functions,
    parse_evidence,
    resolve,
)
from oracles.sandbox.processes import crash_handler
from oracles.text.normalise import plain_function
from oracles.verdict import Frame

SOURCE = """
int hidden(int x) { return x + 1; }
__attribute__((visibility("default"))) int shown(int x) { return hidden(x) * 2; }
static int inner(int x) { return x - 1; }
int (*table[])(int) = {hidden, inner};
"""


def frame(function: str, offset: int = 0) -> Frame:
    return Frame("library.so", offset, function)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stripped library with one named function."""
    compiler = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("library")
    (folder / "source.c").write_text(SOURCE)
    options = [
        "-O1",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
        "-fno-inline",
        "-fasynchronous-unwind-tables",
    ]
    product = folder / "libsample.so"
    subprocess.run([compiler, *options, "-s", "-o", str(product), str(folder / "source.c")], check=True)
    return product


def test_an_exported_function_has_its_name_anywhere_inside_it(library):
    functions = load_functions(str(library))
    (symbol,) = [symbol for symbol in functions.symbols if symbol[2] == "shown"]

    assert {functions.name(symbol[0] + offset) for offset in range(symbol[1])} == {"shown"}


def test_a_hidden_function_has_its_start_for_a_name(library):
    functions = load_functions(str(library))
    named = {symbol[0] for symbol in functions.symbols}
    hidden = [int(start) for start in functions.starts if int(start) not in named]

    assert len(hidden) >= 2
    for start in hidden:
        assert functions.name(start) == f"fn_{start:x}"
        assert functions.name(start + 1) == f"fn_{start:x}"


def test_this_process_own_addresses_resolve_to_the_c_librarys_names():
    address = ctypes.cast(ctypes.CDLL("libm.so.6").sinh, ctypes.c_void_p).value
    assert address
    mappings = tuple(deaths.parse_maps(Path("/proc/self/maps").read_text()))
    found = resolve(address + 4, mappings)

    assert found.library.startswith("libm")
    assert "sinh" in found.function


def test_what_is_no_library_has_no_functions(tmp_path):
    for name, content in (("empty", b""), ("text", b"no library"), ("cut", b"\x7fELF\x02" + b"\0" * 20)):
        (tmp_path / name).write_bytes(content)
        assert load_functions(str(tmp_path / name)) is None
    assert load_functions(str(tmp_path / "absent")) is None


@pytest.mark.parametrize(
    ("functions", "shown"),
    [
        ("abc", "abc"),
        ("aaaa", "a"),
        ("xaaaay", "xay"),
        ("ababab", "ab"),
        ("xabcabcabcy", "xabcy"),
        ("abcdabd", "abcdabd"),
        ("", ""),
    ],
)
def test_recursion_shows_once(functions, shown):
    frames = [frame(function, offset) for offset, function in enumerate(functions)]

    assert "".join(found.function for found in collapse(frames)) == shown


EVIDENCE = """signal b
address 0
pc 1010
frame 9000
frame 1010
frame 2020
frame 3030
maps
1000-2000 r-xp 00000000 00:00 1 /lib/kernels.so
2000-3000 r-xp 00000000 00:00 1 /usr/lib/libc.so.6
3000-4000 r-xp 00000500 00:00 1 /lib/frame work.so
9000-a000 r-xp 00000000 00:00 1 /cache/crash_handler-0123.so
"""


def test_frames_begin_at_the_fault_and_leave_the_glue_out():
    evidence = parse_evidence(EVIDENCE)

    assert evidence.signal == 11
    assert frames_of(evidence) == (Frame("kernels.so", 0x10), Frame("frame work.so", 0x52F))


def test_a_fault_in_code_made_at_run_time_keeps_its_callers():
    evidence = parse_evidence(EVIDENCE.replace("1010", "7770"))
    assert evidence is not None

    assert [found.library for found in frames_of(evidence)] == ["frame work.so"]


@pytest.mark.parametrize("length", range(0, len(EVIDENCE), 7))
def test_evidence_that_breaks_off_is_read_as_far_as_it_goes(length):
    evidence = parse_evidence(EVIDENCE[:length])

    assert evidence is None or frames_of(evidence) is not None


def test_cxx_names_are_shown_as_in_the_source():
    assert deaths.demangle("plain") == "plain"
    assert deaths.demangle("_ZN3ort3RunEi") in ("ort::Run(int)", "_ZN3ort3RunEi")


def test_a_function_has_its_name_without_types_and_parameters():
    generic = (
        "void c10::function_ref<void (long)>::callback_fn<at::native::f(int)::{lambda()#1}>(long, char**)"
    )
    assert plain_function(generic) == "c10::function_ref::callback_fn"
    assert (
        plain_function("at::native::(anonymous namespace)::f_kernel(at::Tensor&)") == "at::native::f_kernel"
    )


@pytest.mark.parametrize(
    ("function", "is_glue"),
    [
        ("c10::function_ref::callback_fn", True),
        ("at::TensorIteratorBase::serial_for_each", True),
        ("at::native::div_trunc_kernel", False),
        ("tvm::relax::CallNode", False),
    ],
)
def test_what_calls_whatever_it_is_given_is_glue(function, is_glue):
    assert bool(GLUE_FUNCTION.fullmatch(function)) is is_glue


def test_the_handler_is_built_once(tmp_path, monkeypatch):
    if crash_handler()[0] is None:
        pytest.skip(crash_handler()[1])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    build = crash_handler.__wrapped__
    library, reason = build()
    first = library.stat()

    assert reason == ""
    assert build()[0] == library
    assert library.stat().st_mtime_ns == first.st_mtime_ns
    assert list(library.parent.glob("*.so")) == [library]


@pytest.mark.parametrize(
    "obstacle", ["no compiler", "a compiler that fails", "a cache that cannot be written"]
)
def test_without_a_handler_there_is_a_reason(tmp_path, monkeypatch, obstacle):
    tools = tmp_path / "bin"
    tools.mkdir()
    if obstacle != "no compiler":
        (tools / "cc").symlink_to("/bin/false")
    cache = tmp_path / "cache"
    if obstacle == "a cache that cannot be written":
        cache.write_text("a file")
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    library, reason = crash_handler.__wrapped__()

    assert library is None
    assert reason
