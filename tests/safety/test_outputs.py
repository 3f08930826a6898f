"""What lies in a folder and is not crux's stays; what a stranger brings gets no name among our files."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from corpus.case import Case
from corpus.errors import UserError
from corpus.load import open_case
from corpus.outputs import LOCK, MARKER, held, own, put
from corpus.reading import write_fresh
from tests.helpers.models import contents, external, relu, write
from triage.cli import run
from triage.reports.bundle import write_bundle

CRASHES = "sh -c 'exit 0' # {}"
"""A check by which every model is interesting."""


def stranger(folder: Path, location: str, elements: int = 4) -> Path:
    """A model whose weights lie in a file of that name."""
    path = write(folder, external(location, elements))
    (folder / location).parent.mkdir(parents=True, exist_ok=True)
    (folder / location).write_bytes(np.arange(elements, dtype=np.float32).tobytes())
    return path


@pytest.mark.parametrize("name", ["numpy.py", "reduction.json", "a/b/c.bin", "-rf"])
def test_weights_are_saved_under_their_digest_alone(tmp_path, name):
    case = open_case(stranger(tmp_path / "in", name))
    case.save(tmp_path / "out")
    place = f"weights/{case.external[0].digest}"
    assert contents(tmp_path / "out").keys() == {"case.json", "model.onnx", "inputs.npz", place}
    loaded = Case.load(tmp_path / "out")
    assert loaded == case.relocated == loaded.relocated
    assert [file.location for file in loaded.external] == [place]
    onnx.load(tmp_path / "out" / "model.onnx")  # with its weights


def test_an_older_case_folder_is_read_as_it_is(tmp_path):
    case = open_case(stranger(tmp_path / "in", "old name.bin"))
    case.write_exactly(tmp_path / "old")
    assert Case.load(tmp_path / "old") == case
    assert (tmp_path / "old" / "old name.bin").exists()


def reduced(model: Path, out: Path, *more: str) -> int:
    return run(["reduce", str(model), "-o", str(out), "--check", CRASHES, "--max-checks", "3", *more])


def test_a_reduction_writes_no_name_of_a_stranger(tmp_path):
    model = stranger(tmp_path / "in", "numpy.py", elements=4096)
    assert reduced(model, tmp_path / "out") == 0
    ours = {"case.json", "model.onnx", "inputs.npz", "reduction.json", "reduction.html"}
    ours.add("journal.jsonl")
    assert {each for each in contents(tmp_path / "out") if not each.startswith("weights/")} == ours


@pytest.mark.parametrize("name", ["model.onnx", "repro.py", "reduction.html", "weights"])
def test_a_reduction_refuses_a_folder_with_a_file_of_the_users(tmp_path, capsys, name):
    model = write(tmp_path / "in", relu())
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("mine")
    (tmp_path / "out" / "notes.txt").write_text("mine")
    before = contents(tmp_path / "out")
    assert reduced(model, tmp_path / "out") == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert str(tmp_path / "out" / name) in said
    assert contents(tmp_path / "out") == before


def test_what_else_lies_in_a_folder_stays(tmp_path):
    model = write(tmp_path / "in", relu())
    mine = tmp_path / "out" / ".out.precious" / "thesis.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    (tmp_path / "out" / "journal.jsonl.tmp").write_text("mine")
    assert reduced(model, tmp_path / "out") == 0
    assert mine.read_text() == "mine"
    assert (tmp_path / "out" / "journal.jsonl.tmp").read_text() == "mine"


def test_a_generated_program_overwrites_nothing(tmp_path):
    (tmp_path / "seed-0").mkdir()
    (tmp_path / "seed-0" / "model.onnx").write_text("mine")
    assert run(["generate", "-o", str(tmp_path), "--count", "1", "--ops", "2"]) == 2
    assert contents(tmp_path) == {"seed-0/model.onnx": b"mine"}


FILES = {"issue.md": b"text", "sub/a.txt": b"a"}


def test_a_report_replaces_an_earlier_one(tmp_path):
    for _ in range(2):
        write_bundle(tmp_path / "C0001", FILES, {})
    assert contents(tmp_path).keys() == {"C0001.zip", *(f"C0001/{name}" for name in (*FILES, "SHA256SUMS"))}


SPOILS: dict[str, Callable[[Path], object]] = {
    "C0001/issue.md": lambda path: path.write_text("edited"),
    "C0001/notes.txt": lambda path: path.write_text("mine"),
    "C0001/link": lambda path: path.symlink_to("/etc/passwd"),
    "C0001.zip": lambda path: path.write_text("mine"),
}


@pytest.mark.parametrize("name", SPOILS)
def test_a_report_removes_nothing_that_it_did_not_write(tmp_path, name):
    write_bundle(tmp_path / "C0001", FILES, {})
    SPOILS[name](tmp_path / name)
    before = contents(tmp_path)
    with pytest.raises(UserError, match=name):
        write_bundle(tmp_path / "C0001", FILES, {})
    assert contents(tmp_path) == before


def test_a_page_replaces_only_its_own(tmp_path):
    put(tmp_path / "index.html", "first")
    put(tmp_path / "index.html", "second")
    assert (tmp_path / "index.html").read_text() == "second"
    (tmp_path / "other.html").write_text("mine")
    with pytest.raises(UserError, match=r"other\.html"):
        put(tmp_path / "other.html", "third")
    assert (tmp_path / "other.html").read_text() == "mine"


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "other text"])
def test_a_false_list_lists_nothing(tmp_path, kind):
    elsewhere = tmp_path / "elsewhere"
    own(elsewhere, ["mine.html"])
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.html").write_text("mine")
    if kind == "link":
        (out / MARKER).symlink_to(elsewhere / MARKER)
    elif kind == "pipe":
        os.mkfifo(out / MARKER)
    elif kind == "folder":
        (out / MARKER).mkdir()
    else:
        (out / MARKER).write_text("mine.html\n")
    before = contents(out)
    with pytest.raises(UserError, match=r"\.crux: no list"):
        put(out / "mine.html", "new")
    assert (out / "mine.html").read_text() == "mine"
    assert contents(out) == before


def test_a_lock_that_a_kill_has_left_is_taken(tmp_path):
    (tmp_path / LOCK).write_text("1\n")
    with held(tmp_path):
        pass
    assert not (tmp_path / LOCK).exists()


def test_a_second_reduction_into_a_folder_leaves_the_first_alone(tmp_path, capsys):
    model = write(tmp_path / "in", relu())
    (tmp_path / "out").mkdir()
    with open(tmp_path / "out" / LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        print(4711, file=lock, flush=True)
        assert reduced(model, tmp_path / "out") == 2
    assert "process 4711 is writing there" in capsys.readouterr().err
    assert contents(tmp_path / "out").keys() == {LOCK}


def test_a_write_removes_no_file_of_another_writer(tmp_path):
    (tmp_path / "a.tmp").write_text("mine")
    write_fresh(tmp_path / "a", "new")
    assert contents(tmp_path) == {"a.tmp": b"mine", "a": b"new"}


def test_a_file_that_is_a_pipe_is_written_to(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    put(tmp_path / "pipe", "text")
    assert os.read(reader, 9) == b"text"
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()
    assert not (tmp_path / MARKER).exists()
