"""The search for changes, on rows that are known; environments from wheels made here; no network."""

import base64
import hashlib
import json
import os
import sys
import sysconfig
import zipfile
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from corpus.errors import UserError
from corpus.target import Range, Target
from tests.helpers.failing import clip_exception, verdict
from triage.bisection.bisection import (
    ReleaseResult,
    bisect_releases,
    changes,
    document,
    evenly,
    release_result,
    target_for,
    upcoming,
)
from triage.bisection.environments import EnvironmentCache, Unavailable
from triage.bisection.package_index import Interpreter, choose_interpreters, list_releases

OWN = (sys.version_info.major, sys.version_info.minor)
TAG = f"cp{OWN[0]}{OWN[1]}"


def walk(row: str, first: tuple[int, ...] = ()) -> tuple[dict[int, str | None], list[int]]:
    """Search a row with a character a release, `?` for one that shows nothing; what was seen and asked."""
    seen: dict[int, str | None] = {}
    while (place := upcoming(seen, len(row), first)) is not None:
        seen[place] = None if row[place] == "?" else row[place]
    return seen, list(seen)


@given(st.lists(st.tuples(st.sampled_from(".xy"), st.integers(8, 20)), min_size=1, max_size=5))
@example([(".", 34), ("x", 1)])
def test_every_change_is_found_between_neighbours_where_no_run_is_shorter_than_the_probes_are_apart(runs):
    row = "".join(what * length for what, length in runs)
    runs_are_seen = max(one - other for one, other in pairwise(evenly(len(row), 8))) <= 8
    seen, asked = walk(row)
    wanted = [at for at in range(1, len(row)) if row[at] != row[at - 1]]
    found = [other for _, other in changes(seen)]
    assert all(other - one == 1 for one, other in changes(seen))
    assert {at: row[at] for at in seen} == seen
    assert set(found) <= set(wanted)
    assert not runs_are_seen or found == wanted
    assert len(asked) <= 8 + len(found) * len(row).bit_length()


def seen_as(release: str, what: str) -> ReleaseResult:
    """A sighting: `.` passes, `u` is unsupported, any other letter is an exception of its own."""
    case = clip_exception()
    if what in ".u":
        outcome = "pass" if what == "." else "unsupported"
        return ReleaseResult(release, outcome, "compare", "", outcome, 0, (), "3.11", "2")
    return release_result(
        release, case, verdict({"x": "no kernel for it", "y": "bad shape"}[what]), "3.11", "2"
    )


def bisected(row: str, seen_on: str = "") -> dict[str, object]:
    releases = [f"1.{at}.0" for at in range(len(row))]

    def look(release: str) -> ReleaseResult:
        what = row[int(release.split(".")[1])]
        if what == "?":
            raise Unavailable("no wheel")
        return seen_as(release, what)

    return document(bisect_releases(releases, look, seen_on), {})


def answer(found: dict[str, object]) -> tuple[object, ...]:
    return tuple(found[name] for name in ("last_good", "first_bad", "last_bad", "first_fixed"))


def test_a_release_that_words_the_same_failure_anew_shows_no_other():
    releases = ["1.0.0", "1.1.0", "1.2.0"]
    words = {"1.0.0": "no kernel found for it here", "1.1.0": "no kernel for it found here"}

    def look(release: str) -> ReleaseResult:
        if release not in words:
            return seen_as(release, ".")
        return release_result(release, clip_exception(), verdict(words[release]), "3.11", "2")

    found = document(bisect_releases(releases, look), {})
    assert (found["first_bad"], found["last_bad"], found["first_fixed"]) == ("1.0.0", "1.1.0", "1.2.0")
    assert len(found["failures"]) == 1


@pytest.mark.parametrize(
    ("row", "seen_on", "expected"),
    [
        ("......xxxxxx", "", ("1.5.0", "1.6.0", "1.11.0", None)),
        ("xxx.........", "", (None, "1.0.0", "1.2.0", "1.3.0")),
        ("...xxx...xxx", "", ("1.8.0", "1.9.0", "1.11.0", None)),
        ("...xxx...xxx", "1.4.0", ("1.2.0", "1.3.0", "1.5.0", "1.6.0")),
        ("...xxxyyyyyy", "", ("1.5.0", "1.6.0", "1.11.0", None)),
        ("...xxxyyyyyy", "1.3.0", ("1.2.0", "1.3.0", "1.5.0", "1.6.0")),
        ("uuuxxx??....", "", (None, "1.3.0", "1.5.0", "1.8.0")),
        ("............", "", (None, None, None, None)),
    ],
)
def test_the_answer_is_the_newest_interval_or_that_of_the_release_named(row, seen_on, expected):
    assert answer(bisected(row, seen_on)) == expected


def test_several_failures_are_told_apart_and_what_was_skipped_is_named():
    found = bisected("..?.yyyyxxxx")
    assert [each["intervals"] for each in found["failures"]] == [
        [{"last_good": "1.7.0", "first_bad": "1.8.0", "last_bad": "1.11.0", "first_fixed": None}],
        [{"last_good": "1.3.0", "first_bad": "1.4.0", "last_bad": "1.7.0", "first_fixed": "1.8.0"}],
    ]
    assert "bad shape" in found["failures"][1]["symptom"]
    assert [each["release"] for each in bisected("??xx")["skipped"]] == ["1.0.0", "1.1.0"]


@pytest.mark.parametrize("text", ["1.2", "", "a..b", "2.0..1.0"])
def test_a_range_that_is_none_is_the_users_mistake(text):
    with pytest.raises(UserError, match="versions"):
        Range.parse(text)


def test_a_range_holds_its_ends_and_builds_of_them():
    held = Range.parse("1.9.0..1.10.0")
    names = ["1.8.5", "1.9.0", "1.9.2.post1", "1.10.0", "1.10.0+cpu", "1.10.1"]
    assert [held.holds(each) for each in names] == [False, True, True, True, True, False]
    assert Range.parse("..").holds("0.1")


def test_a_package_is_looked_at_on_the_cases_target_or_on_its_own_backend():
    basic = Target.parse("ort@opt=basic")
    assert target_for("onnxruntime", basic) == basic
    assert target_for("onnxruntime-gpu", basic) == basic
    assert target_for("apache-tvm", basic) == Target("tvm")
    assert target_for("torch", Target("inductor")) == Target("inductor")
    with pytest.raises(UserError, match="no backend"):
        target_for("requests", basic)


def test_each_release_gets_the_interpreter_nearest_to_our_own():
    major, minor = OWN
    here = {each: Interpreter(each, Path(f"/{each}")) for each in [(major, minor - 2), (major, minor), OWN]}
    offered = {
        (major, minor - 3): ["0.9"],
        (major, minor - 2): ["0.9.1", "1.0"],
        OWN: ["1.0", "1.10", "1.2+cpu"],
    }
    offer = choose_interpreters("p", here, offered)
    assert {release: each.minor for release, each in offer.runnable.items()} == {
        "0.9.1": (major, minor - 2),
        "1.0": OWN,
        "1.2": OWN,
        "1.10": OWN,
    }
    assert list(offer.runnable) == ["0.9.1", "1.0", "1.2", "1.10"]
    assert "Python" in offer.others["0.9"]
    with pytest.raises(UserError, match="no release"):
        choose_interpreters("p", here, {OWN: []})


def write_wheel(
    folder: Path,
    name: str,
    version: str,
    tag: str = "py3-none-any",
    needs: str = "Requires-Python: >=3.8",
    files: Mapping[str, str] | None = None,
) -> None:
    """A wheel with one module that holds its version, or these files; `needs` is a line of its metadata."""
    info = f"{name}-{version}.dist-info"
    files = {
        **(files or {f"{name}.py": f"__version__ = {version!r}\n"}),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    rows = []
    with zipfile.ZipFile(folder / f"{name}-{version}-{tag}.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            rows.append(f"{path},sha256={digest},{len(text)}")
        wheel.writestr(f"{info}/RECORD", "\n".join([*rows, f"{info}/RECORD,,"]))


RELEASE = """
import pathlib
_real = pathlib.Path({real!r})
__path__ = [str(_real)]
exec(compile((_real / "__init__.py").read_text(), str(_real / "__init__.py"), "exec"))
__version__ = {version!r}
from onnxruntime.capi import onnxruntime_pybind11_state as core
_session, UNOPTIMISED = core.InferenceSession, core.GraphOptimizationLevel.ORT_DISABLE_ALL


def session(options, model, *rest):
    {does}
    return _session(options, model, *rest)


core.InferenceSession = session
"""


def write_onnxruntime(folder: Path, version: str, does: str) -> None:
    """A wheel of our onnxruntime under another number, whose sessions first do this; a numpy too."""
    site = Path(sysconfig.get_path("purelib"))
    write_wheel(folder, "numpy", "9.0", files={"real.pth": f"{site}\n"})
    text = RELEASE.format(real=str(site / "onnxruntime"), version=version, does=does)
    write_wheel(folder, "onnxruntime", version, files={"onnxruntime/__init__.py": text})


@pytest.fixture
def index(tmp_path, monkeypatch) -> Path:
    """A folder of wheels that is all that pip may ask."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for variable in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def test_releases_are_those_that_pip_finds_for_an_interpreter_that_is_here(index):
    for version in ("1.9.0", "1.10.0", "1.11.0"):
        write_wheel(index, "sample", version)
    write_wheel(index, "sample", "1.12.0", "cp27-cp27m-manylinux1_x86_64")
    offer = list_releases("sample", Range("1.9.0", "1.11.0"))
    assert list(offer.runnable) == ["1.9.0", "1.10.0", "1.11.0"]
    assert {each.minor for each in offer.runnable.values()} == {OWN}


def test_nightly_builds_are_bisected_where_an_end_of_the_range_is_one_and_come_before_their_release(index):
    nightly = ("1.10.0.dev20260102", "1.10.0.dev20260301")
    for version in ("1.9.0", *nightly, "1.10.0"):
        write_wheel(index, "sample", version)
    wanted = Range.parse(f"{nightly[0]}..1.10.0")
    offered = list_releases("sample", wanted).runnable
    assert [each for each in offered if wanted.holds(each)] == [*nightly, "1.10.0"]
    assert list(list_releases("sample", Range("1.9.0", "1.10.0")).runnable) == ["1.9.0", "1.10.0"]


def test_environments_are_made_once_with_a_numpy_that_works_and_pruned_by_size(index, tmp_path):
    for name, versions in {"sample": ("1.0", "2.0"), "numpy": ("1.26", "2.3")}.items():
        for version in versions:
            write_wheel(index, name, version)
    asked = []

    def works(python: Path) -> tuple[str, str]:
        (found,) = python.parents[1].glob("lib/python*/site-packages/numpy.py")
        numpy = found.read_text().split("'")[1]
        asked.append(numpy)
        return ("built for another numpy" if numpy > "2" else ""), numpy

    said = []
    cache = EnvironmentCache(tmp_path / "cache", "sample", works, say=said.append)
    own = list_releases("sample", Range("1.0", "2.0")).runnable["1.0"]
    with cache.environment("1.0", own) as made:
        assert (made.numpy, made.python.is_file()) == ("1.26", True)
    with cache.environment("1.0", own) as again:
        assert again == made
    assert (asked, len(said)) == (["2.3", "1.26"], 1)
    with pytest.raises(Unavailable, match="sample"), cache.environment("3.0", own):
        pass
    assert sorted(each.name for each in cache.root.iterdir() if each.is_dir()) == [f"sample-1.0-{TAG}"]

    small = EnvironmentCache(cache.root, "sample", works, most_bytes=1)
    with small.environment("1.0", own):
        assert small.prune() == []
    assert small.prune() == [f"sample-1.0-{TAG}"]
    assert not made.python.exists()


@pytest.mark.slow
def test_an_environment_that_a_kill_left_half_made_is_made_anew(index, tmp_path):
    write_wheel(index, "sample", "1.0")
    write_wheel(index, "numpy", "2.3")
    half = tmp_path / "cache" / f"sample-1.0-{TAG}"
    (half / "bin").mkdir(parents=True)
    (half / "bin" / "python").write_text("not finished")
    cache = EnvironmentCache(tmp_path / "cache", "sample", lambda python: ("", "2.3"))
    own = list_releases("sample", Range("1.0", "1.0")).runnable["1.0"]
    with cache.environment("1.0", own) as made:
        assert json.loads((half / "environment.json").read_text())["release"] == "1.0"
        assert b"not finished" not in made.python.read_bytes()
