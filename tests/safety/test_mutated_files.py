"""Sound files of every kind, mutated and opened: an answer, or one line about what is wrong, and soon.

Each input has a name, `FILE/SEED`, by which it is made again.
"""

import copy
import io
import json
import os
import random
import shutil
import signal
import sqlite3
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpus.case import Case
from corpus.errors import UserError
from corpus.load import load_regression, open_case
from corpus.reading import held_to, read_json
from generators.feedback import LESSON, CoverageSnapshot
from generators.mixture import Options, generate
from reducer.engine.journal import Answer, Journal
from reducer.result import finished
from tests.helpers.failing import clip_exception, verdict
from tests.helpers.models import external, model_of
from triage.bugs.failures import history_of_folder, record_failure
from triage.bugs.known import read_known
from triage.bugs.overview import overview
from triage.language import list_case
from triage.pages.differences import write_page
from triage.store.database import Store
from triage.store.failures import verdict_of
from triage.store.import_archive import copy_foreign, must_hold_true
from triage.views.listing import describe_value

CPU_SECONDS = 10.0
COUNT = int(os.environ.get("CRUX_FUZZ_COUNT", "20000"))
Json = Any


class TooLong(BaseException):
    """An input took longer than any may."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `TooLong` in the block after so much CPU time."""

    def stop(number: int, frame: object) -> None:
        raise TooLong

    earlier = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, earlier)


# Mutations

NUMBERS = (0, 1, -1, 7, 127, 255, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 62, (1 << 63) - 1)
TEXTS = ("", "x", "\ud800", "\x00", "\x1b[2J", "../../x", "/etc/passwd", "a" * 5000, "<script>", "#0")
ODD: list[Json] = [
    *(None, True, 1.5, 1e308, float("inf"), float("nan"), 1 << 63, -(1 << 63), 1 << 200, *NUMBERS, *TEXTS),
    *([], {}, [[]], [None], {"": None}, {"ref": "x"}),
]


def mutated_bytes(data: bytes, chance: random.Random) -> bytes:
    """Bytes with a few changes of the kinds that fuzzers make."""
    found = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4, 16))):
        at = chance.randrange(len(found) + 1)
        end = min(len(found), at + chance.choice((1, 1, 2, 4, 8, 64)))
        match chance.randrange(6):
            case 0 if at < len(found):
                found[at] ^= 1 << chance.randrange(8)
            case 1:
                found[at:end] = chance.randbytes(end - at)
            case 2:
                del found[at : chance.choice((end, len(found)))]
            case 3:
                found[at:at] = found[at:end] * chance.choice((1, 2, 100))
            case 4:
                size = chance.choice((1, 2, 4, 8))
                number = chance.choice(NUMBERS) & ((1 << 8 * size) - 1)
                found[at : at + size] = number.to_bytes(size, chance.choice(("little", "big")))
            case 5:
                other = chance.randrange(len(found) + 1)
                found[at:end] = found[other : other + end - at]
    return bytes(found)


def mutated_json(text: bytes, chance: random.Random) -> bytes:
    """A document with one to three of its parts replaced, dropped, doubled, swapped or buried."""
    document = json.loads(text)
    for _ in range(chance.choice((1, 1, 2, 3))):
        places = list(_places(document))
        if not places:
            break
        holder, key = chance.choice(places)
        match chance.randrange(5):
            case 0 | 1:
                holder[key] = copy.deepcopy(chance.choice(ODD))
            case 2:
                other, place = chance.choice(places)
                holder[key] = copy.deepcopy(other[place])
            case 3 if isinstance(holder, list):
                holder.extend([copy.deepcopy(holder[key])] * chance.choice((1, 2, 1000)))
            case 3:
                del holder[key]
            case 4:
                for _ in range(chance.choice((1, 3, 50, 300))):
                    holder[key] = [holder[key]] if chance.random() < 0.5 else {"a": holder[key]}
    try:
        made = json.dumps(document).encode()
    except RecursionError:
        made = b"[" * 100_000
    return mutated_bytes(made, chance) if chance.random() < 0.15 else made


def _places(document: Json) -> Iterator[tuple[Any, Any]]:
    waiting = [document]
    while waiting:
        item = waiting.pop()
        if isinstance(item, (dict, list)):
            for key in item if isinstance(item, dict) else range(len(item)):
                yield item, key
                waiting.append(item[key])


def mutated_members(content: bytes, chance: random.Random) -> bytes:
    """The bytes of a zip, or of what is in it, with other names and element types."""
    if chance.random() < 0.4:
        return mutated_bytes(content, chance)
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as archive, zipfile.ZipFile(packed, "w") as other:
        for name in archive.namelist():
            dtype = chance.choice((b"<f4", b"<U0", b"<U1", b">f8", b"|O", b"|V4", b"<M8[s]", b"|b1"))
            member = mutated_bytes(archive.read(name).replace(b"<f4", dtype), chance)
            other.writestr(chance.choice((name, f"../{name}", f"{name}#0.npy")), member)
    return packed.getvalue()


def mutated_rows(path: Path, chance: random.Random) -> None:
    """Put an odd value into a column of a database."""
    with closing(sqlite3.connect(path)) as opened:
        tables = [name for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        table = chance.choice([name for name in tables if "search" not in name])
        columns = [row[1] for row in opened.execute(f"PRAGMA table_info({table})")]
        value = chance.choice(ODD)
        value = json.dumps(value) if isinstance(value, (list, dict)) else value
        with suppress(sqlite3.Error, OverflowError, UnicodeEncodeError):
            opened.execute(f'UPDATE {table} SET "{chance.choice(columns)}" = ?', (value,))
            opened.commit()


# What is opened

RICH = """g (bool c, float[2,3] x) => (float[2,n] y, string[1] t) <float[2,3] v = {0,1,2,3,4,5}> {
    i = If (c) <then_branch = a () => (float[2,3] b) { b = Identity (v) },
        else_branch = e () => (float[2,3] d) { d = Add (x, w) }>
    y = own.F (i) s = Constant <value_string = "a"> () t = Unsqueeze (s, z) }
    <opset_import: ["" : 17], domain: "own"> F (p) => (q) { q = Relu (p) }"""
TORCH = {
    "format": "torch",
    "version": 1,
    "main": {
        "inputs": [["x", "float32", [2]]],
        "bindings": [["y", "torch.nn.functional.relu", [{"ref": "x"}], {}]],
        "outputs": ["y"],
    },
    **{"constants": {}, "functions": {}, "opaque": {}, "facts": {}},
}
RESULT = {
    **{"nodes_before": 9, "nodes_after": 2, "bytes_before": 100, "bytes_after": 20, "checks": 7},
    **{"symptom": "a | b", "minimal": True, "kept": [1], "passes": ["A"], "ops": ["Relu"]},
    "curve": [{"check": 1, "nodes": 2, "bytes": 3}],
    "steps": [{"move": "cut", "check": 1, "nodes": 1, "elements": 1, "bytes": 1}],
    "pass_set": {"minimal": ["A"], "fired": [], "cures": [], "checks": 1, "level": "all"},
}
BISECTED = {
    **{"first_bad": "1.2", "last_good": "1.1", "first_fixed": None, "last_bad": None, "title": "t"},
    "tried": [{"release": "1.2", "shows": "failure 1", "title": "t"}],
}
EXPECTED = {"title": "t", "package": "p", "shown": {"1.0": ["crash", "execute", "SIGSEGV"]}}
LEARNT = {
    "covered": {"a": 1},
    "trials": [{"key": "k", "bred": {"parent": "", "changed": "fresh"}, "news": ["n"], "program": "p"}],
    "pool": {"entries": [{"key": "k", "program": "p", "passes": ["A"]}], "seen": ["n"]},
}
KNOWN = """[an-issue]
title = "t"
package = "onnxruntime"
since = "1.0"
issue = "https://example.org/1"
match = { kind = "a.*b", site = "x" }
"""
HEADER = {"case_id": "0" * 64, "target": "ort"}


def look_at(path: Path) -> None:
    """Open a case and all that is made of it before anything is run."""
    case = open_case(path.parent, memory_bytes=1 << 28)
    assert case.case_id
    assert case.canonical_hash
    assert case.measure.nodes >= 0
    list_case(case)
    for value in case.inputs.values():
        describe_value(value)
    case.save(path.parents[1] / "saved")
    assert Case.load(path.parents[1] / "saved") == case.relocated


def look_at_results(path: Path) -> None:
    with suppress(UserError):
        finished(path.parent)
    with suppress(UserError):
        write_page(path.parent, None)
    history_of_folder(path.parent).sentences()


def go_on(path: Path) -> None:
    with closing(Journal(path, HEADER)) as opened:
        opened.open()


def look_at_database(path: Path) -> None:
    copied = path.with_name("copy.db")
    copy_foreign(path, copied)
    shutil.copytree(path.with_name("crux.db.blobs"), path.with_name("copy.db.blobs"))
    for each in (path, copied):
        with Store(each) as store:
            if each is copied:
                must_hold_true(store, path)
            overview(store, ())
            for row in store.rows("SELECT id FROM failures"):
                verdict_of(store, int(row["id"]))
            for row in store.rows("SELECT case_id FROM cases"):
                store.load_case(row["case_id"])


OPENERS: dict[str, Callable[[Path], object]] = {
    "onnx/model.onnx": look_at,
    "onnx/case.json": look_at,
    "onnx/inputs.npz": look_at,
    "relax/program.relax.json": look_at,
    "tir/program.tir.json": look_at,
    "torch/program.torch.json": look_at,
    "journal.jsonl": go_on,
    "clip/reduction.json": look_at_results,
    "clip/bisect.json": look_at_results,
    "clip/expected.json": lambda path: load_regression(path.parent),
    "known.toml": read_known,
    "lesson.json": lambda path: CoverageSnapshot.of(held_to(read_json(path), LESSON, "a lesson")),
    "crux.db": look_at_database,
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sound files of every kind."""
    folder = tmp_path_factory.mktemp("sound")
    rich = model_of(RICH, domains="own", z=np.array([0]))
    rich.graph.initializer.append(external("w.bin", 6).graph.initializer[0])
    (folder / "given").mkdir()
    (folder / "given/model.onnx").write_bytes(rich.SerializeToString())
    (folder / "given/w.bin").write_bytes(bytes(24))
    open_case(folder / "given").save(folder / "onnx")
    clip_exception().save(folder / "clip")
    for name in ("relax", "tir"):
        generate(folder / f"{name}s", 1, 4, options=Options(strategy=name))
        next((folder / f"{name}s").glob("seed-*")).rename(folder / name)
    (folder / "torch").mkdir()
    (folder / "torch/case.json").write_text('{"format": "torch"}')
    documents = {"torch/program.torch.json": TORCH, "clip/reduction.json": RESULT, "lesson.json": LEARNT}
    documents |= {"clip/bisect.json": BISECTED, "clip/expected.json": EXPECTED}
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document))
    (folder / "known.toml").write_text(KNOWN)
    with closing(Journal(folder / "journal.jsonl", HEADER)) as journal:
        journal.open()
        journal.add("a", Answer(True, "b", ((1, 2),)))
    with Store(folder / "crux.db") as store:
        record_failure(store, clip_exception(), verdict())
    return folder


def mutate(path: Path, chance: random.Random) -> None:
    content = path.read_bytes()
    if path.suffix == ".db" and chance.random() < 0.5:
        mutated_rows(path, chance)
    else:
        kinds = {".json": mutated_json, ".npz": mutated_members}
        path.write_bytes(kinds.get(path.suffix, mutated_bytes)(content, chance))


def complaint(sound: Path, place: Path, name: str, seed: int) -> str:
    """What is wrong with how a mutated file is opened; nothing where it opens or is refused in one line."""
    shutil.copytree(sound, place)
    mutate(place / name, random.Random(f"{name}/{seed}"))
    try:
        with limited(CPU_SECONDS):
            OPENERS[name](place / name)
    except UserError as error:
        return f"{name}/{seed}: several lines" if "\n" in str(error).strip() else ""
    except (Exception, TooLong) as error:
        return f"{name}/{seed}: {type(error).__name__}: {error}"
    finally:
        shutil.rmtree(place)
    return ""


@pytest.mark.parametrize("name", OPENERS)
def test_a_mutated_file_opens_or_is_refused_in_one_line(sound, tmp_path, name):
    shutil.copytree(sound, tmp_path / "sound")
    OPENERS[name](tmp_path / "sound" / name)
    found = [complaint(sound, tmp_path / "place", name, seed) for seed in range(12)]
    assert [each for each in found if each] == []


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_many_mutated_files(sound, tmp_path):
    names = random.Random(COUNT).choices([*OPENERS], k=COUNT)
    found = [complaint(sound, tmp_path / "place", name, 1000 + at) for at, name in enumerate(names)]
    assert [each for each in found if each] == []
