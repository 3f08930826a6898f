"""Native frames: addresses become functions, in stripped libraries too, and recursion shows once."""

import pytest

from oracles.normalise import plain_function
from oracles.sandbox.deaths import (
    GLUE_FUNCTION,
    collapse,
    frames_of,
    load_functions,
    parse_evidence,
)
from oracles.sandbox.processes import crash_handler
from oracles.verdict import Frame


def frame(function: str, offset: int = 0) -> Frame:
    return Frame("library.so", offset, function)


def test_what_is_no_library_has_no_functions(tmp_path):
    for name, content in (("empty", b""), ("text", b"no library"), ("cut", b"\x7fELF\x02" + b"\0" * 20)):
        (tmp_path / name).write_bytes(content)
        assert load_functions(str(tmp_path / name)) is None
    assert load_functions(str(tmp_path / "absent")) is None


@pytest.mark.parametrize(
    ("functions", "shown"),
    [
        ("xaaaay", "xay"),
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


@pytest.mark.parametrize("length", range(0, len(EVIDENCE), 7))
def test_evidence_that_breaks_off_is_read_as_far_as_it_goes(length):
    evidence = parse_evidence(EVIDENCE[:length])

    assert evidence is None or frames_of(evidence) is not None


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("void c10::ref<void (long)>::call<at::f(int)::{lambda()#1}>(long, char**)", "c10::ref::call"),
        ("at::native::(anonymous namespace)::f_kernel(at::Tensor&)", "at::native::f_kernel"),
    ],
)
def test_a_function_has_its_name_without_types_and_parameters(function, name):
    assert plain_function(function) == name


def test_what_calls_whatever_it_is_given_is_glue():
    assert GLUE_FUNCTION.fullmatch("at::TensorIteratorBase::serial_for_each")
    assert not GLUE_FUNCTION.fullmatch("at::native::div_trunc_kernel")


def test_the_handler_is_built_once(tmp_path, monkeypatch):
    if crash_handler()[0] is None:
        pytest.skip(crash_handler()[1])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    build = crash_handler.__wrapped__
    library, _ = build()
    first = library.stat().st_mtime_ns
    assert build() == (library, "")
    assert library.stat().st_mtime_ns == first


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
