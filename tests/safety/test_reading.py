"""Every file is read within bounds; what it spells is parsed into what is expected, or refused in a line."""

import ast
import json
import os
import re
import shutil
import sqlite3
import threading
import zlib
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest

from corpus.case import Case
from corpus.errors import UserError
from corpus.reading import Fields, Text, held_to, read_bytes, unpack
from tests.helpers.failing import division_crash, verdict
from tests.helpers.models import relu
from tests.helpers.sources import sources
from tests.safety.test_mutated_files import ODD
from triage.bugs.failures import history_of_folder, record_failure
from triage.cli import run
from triage.store.database import Store

# What is read


def _too_large(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


KINDS: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "endless device": lambda path: path.symlink_to("/dev/zero"),
    "link to nothing": lambda path: path.symlink_to("nowhere"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "too large": _too_large,
    "no text": lambda path: path.write_bytes(b"\xff\xfe{"),
    "brackets": lambda path: path.write_text("[" * 100_000),
    "digits": lambda path: path.write_text("1" * 100_000),
    "another document": lambda path: path.write_text('[{"a": [1, null, {}]}, 7]'),
}


PLACES = {
    "case.json": ["check", "{folder}"],
    "model.onnx": ["check", "{folder}"],
    "inputs.npz": ["check", "{folder}"],
    "test_data_set_0/input_0.pb": ["check", "{folder}"],
    "expected.json": ["replay", "{folder}"],
    "reduction.json": ["reduce", "{folder}", "-o", "{folder}", "--check", "true"],
    "journal.jsonl": ["reduce", "{folder}/model.onnx", "-o", "{folder}/out", "--check", "true"],
    "crux.db.known.toml": ["triage", "--db", "{folder}/crux.db"],
    "crux.db": ["triage", "--db", "{folder}/crux.db"],
    "coverage.json": [
        *("generate", "-o", "{folder}/out", "--count", "1", "--ops", "2"),
        *("--strategy", "coverage", "--from", "{folder}/coverage.json"),
    ],
    "--inputs": ["check", "{folder}/model.onnx", "--inputs", "{folder}/--inputs"],
    "other.db": ["db", "import", "{folder}/other.db", "--db", "{folder}/crux.db"],
    "trace.txt": ["triage", "traces", "{folder}"],
    "program.py": ["check", "{folder}/program.py", "--trust"],
    "bisect.json": ["report", "{folder}", "-o", "{folder}/out"],
}


QUICK = ("pipe", "endless device", "brackets")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "kind", [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS]
)
def test_no_file_of_a_folder_hangs_or_breaks_a_command(tmp_path, place, kind, capsys):
    folder = tmp_path / "folder"
    Case("onnx", relu().SerializeToString(), {"x": np.ones((2, 3), np.float32)}).save(folder)
    if place.startswith("test_data"):
        (folder / "inputs.npz").unlink()
    if place.startswith("crux.db."):
        Store(folder / "crux.db").close()
    path = folder / ("out" if place == "journal.jsonl" else ".") / place
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    KINDS[kind](path)
    code = run([word.format(folder=folder) for word in PLACES[place]])
    said = capsys.readouterr().err
    assert code in (0, 1, 2), said
    assert code == 0 or len(said.strip().splitlines()) == 1, said


def _write_to(pipe: Path) -> None:
    with suppress(BrokenPipeError):
        pipe.write_bytes(b"x")


def test_a_pipe_is_not_waited_for_even_if_somebody_writes(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=_write_to, args=[tmp_path / "pipe"], daemon=True)
    writer.start()
    with pytest.raises(UserError, match="not a regular file"):
        read_bytes(tmp_path / "pipe", 10)
    os.close(os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK))


def test_what_swells_is_cut_off():
    assert unpack(zlib.compress(b"a" * 100), 100, "it") == b"a" * 100
    for content in (zlib.compress(bytes(1 << 24)), zlib.compress(b"abc")[:-3], b"x", b""):
        with pytest.raises(UserError, match=r"^it: damaged"):
            unpack(content, 1 << 20, "it")


SHAPE = Fields({"n": int}, {"t": Text(), "l": [Text(r"[a-z]+")], "m": {"": float}, "o": (int, type(None))})


@pytest.mark.parametrize("name", ["n", "t", "l", "m", "o", "other"])
def test_a_member_is_of_its_type_or_refused(name):
    for value in [*ODD, "a\n|b`", "a" * (1 << 21)]:
        with suppress(UserError):
            found = held_to({"n": 1, name: value}, SHAPE, "it")
            assert "other" not in found
            assert type(found["n"]) is int
            assert all(isinstance(each, str) for each in found.get("l", ()))
            assert found.get("t", "").isprintable()
            assert len(found.get("t", "")) <= 1 << 20


# What others say of a case

RELEASES = {"first_bad": None, "last_good": None, "first_fixed": None}
SIZES = {"nodes_before": 2, "nodes_after": 1, "checks": 1}


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("bisect.json", RELEASES | {"first_bad": "1.0`|\n# x"}),
        ("bisect.json", RELEASES | {"tried": [7]}),
        ("reduction.json", SIZES | {"nodes_before": "<b>"}),
        ("reduction.json", SIZES | {"passes": ["a`\n# b"]}),
        ("reduction.json", "nodes_before nodes_after checks"),
    ],
)
def test_a_foreign_document_beside_a_case_is_of_releases_numbers_and_names(tmp_path, name, document):
    (tmp_path / name).write_text(json.dumps(document))
    with pytest.raises(UserError, match=rf"{name}: "):
        history_of_folder(tmp_path)


def test_a_link_of_a_known_issue_is_a_link(tmp_path):
    from triage.bugs.known import read_known

    path = tmp_path / "known.toml"
    for url in ("javascript:alert(1)", "https://a/b) [x](http://c", "https://a/`"):
        path.write_text(f'[a]\ntitle = "t"\npackage = "p"\nissue = "{url}"\nmatch = {{kind = "x"}}\n')
        with pytest.raises(UserError, match="https://"):
            read_known(path)


COLUMNS = [
    ("failures", "verdict", "{}"),
    ("failures", "verdict", '{"runs": 7, "title": "", "outcome": "", "phase": ""}'),
    ("signatures", "components", '[["a"]]'),
    ("signatures", "components", '{"a": 1}'),
    ("failures", "target", "ort@opt=\n|`<b>"),
    ("failures", "title", "<script>|`\n# x"),
    ("failures", "release", "1`|\n# x"),
    ("failures", "cluster", "{}"),
    ("failures", "seen", "{}"),
    ("signatures", "version", "{}"),
]


@pytest.mark.parametrize(("table", "column", "value"), COLUMNS)
def test_no_value_of_a_database_breaks_a_command(tmp_path, table, column, value, capsys):
    path = tmp_path / "crux.db"
    with Store(path) as store:
        record_failure(store, division_crash(), verdict())
    with closing(sqlite3.connect(path)) as opened:
        opened.execute(f"UPDATE {table} SET {column} = ?", (value,))
        opened.commit()
    for words in (
        ["triage"],
        ["report", "--html", "-o", str(tmp_path / "page")],
        ["db", "check"],
        ["show", "F00001"],
    ):
        assert run([*words, "--db", str(path)]) in (0, 1, 2), capsys.readouterr().err
        shutil.rmtree(tmp_path / "page", ignore_errors=True)


# Contracts

OPENERS = {
    "triage/console/settings.py": "a file of settings: of a bounded size, a regular one",
    "corpus/outputs.py": "our own lists, opened without following links",
    "corpus/reading.py": "the reader; hashes weights, which were looked at when the case was opened",
    "corpus/onnx/model_file.py": "maps a model and its weights into memory after they were looked at",
    "generators/tir/programs.py": "shipped with crux",
    "triage/public/case.py": "in the caller's process, what crux has written just now",
    "generators/legality.py": "shipped with crux",
    "generators/mixture.py": "compares a program that it is about to write",
    "triage/bisection/environments.py": "what pip has installed",
    "triage/cases/conformance.py": "the tests that come with onnx",
    "triage/projects/tvm/relax.py": "crux's own code",
    "oracles/tvm_log.py": "crux's own code",
    "triage/reports/bundle.py": "the sums of a report, bounded there",
    "triage/environment.py": "the processor, as Linux tells it",
    "corpus/values.py": "members of a zip, counted and measured on the way",
    "corpus/processes.py": "what another process of ours sends",
    "triage/clustering/grouping.py": "the end of a text, of a regular file",
    "triage/repro/proving.py": "what a script of ours has printed",
    "triage/store/database.py": "SQLite's own reader, after the schema was compared",
    "triage/store/artifacts.py": "a report's zip that was written just now",
    "triage/store/blobs.py": "contents named by their hash, which is compared",
    "triage/store/vacuum.py": "shipped with crux",
    "triage/store/import_archive.py": "writes members of a zip that was looked at",
}


INSIDE = ("oracles/worker/", "oracles/sandbox/", "oracles/backends/", "oracles/native/")
"""Where the other side of the sandbox is, and what knows machine code."""
READING = re.compile(
    r"\.open\('r|path\.open\(\)|os\.open\(.*O_RDONLY|ZipFile\(\w+\)|sqlite3\.connect\((?!':mem)|^(np|onnx|pickle)\.load"
)
READS = ("read_text", "read_bytes", "memmap", "fromfile")


def opened(tree: ast.Module) -> set[str]:
    """The ways in which a module opens files."""
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    plain = {call.id for call in calls if isinstance(call, ast.Name)} & {"open"}
    plain |= {call.attr for call in calls if isinstance(call, ast.Attribute)} & set(READS)
    return plain | {text for text in map(ast.unparse, calls_of(tree)) if READING.search(text)}


def calls_of(tree: ast.Module) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def test_nothing_but_the_reader_reads_files_of_others():
    found = {path for path, tree in sources().items() if opened(tree) and not path.startswith(INSIDE)}
    assert found == OPENERS.keys()
