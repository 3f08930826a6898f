"""Mutates what crux reads from others, and opens it: an answer, or one line about what is wrong, and soon.

    python -m tests.safety.fuzz_ourselves --count 20000 --seed 7 [--surface onnx]

Each input has a name, `SURFACE/SEED`, by which it is made again. What falls is printed with where it fell.
"""

import argparse
import copy
import io
import json
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from corpus.case import Case
from corpus.errors import UserError
from corpus.load import load_regression, open_case
from generators.feedback import LESSON, CoverageSnapshot
from reducer.engine.journal import Journal
from reducer.result import finished
from tests.helpers.failing import clip_exception, verdict
from tests.helpers.models import external, relu
from triage.bugs.failures import history_of_folder, record_failure
from triage.bugs.known import read_known
from triage.bugs.overview import overview
from triage.console.output import disk_complaint
from triage.store.database import Store
from triage.store.failures import verdict_of
from triage.store.import_archive import copy_foreign, must_hold_true

CPU_SECONDS = 10.0
Json = Any


class TooLong(BaseException):
    """An input took longer than any may."""


# Mutations

NUMBERS = (0, 1, -1, 7, 127, 128, 255, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 62, (1 << 63) - 1)
ODD: list[Json] = [
    *(None, True, False, 0, -1, 1.5, 1e308, *NUMBERS, 1 << 63, -(1 << 63), 1 << 200),
    *(
        "",
        "x",
        "\ud800",
        "\x00",
        "\x1b[2J",
        "../../x",
        "/etc/passwd",
        "a" * 5000,
        "<script>",
        "$(touch ran)",
        "#0",
    ),
    *([], {}, [[]], [None], {"": None}, {"ref": "x"}, float("inf"), float("nan")),
]


def mutated_bytes(data: bytes, random_: random.Random) -> bytes:
    """Bytes with a few changes of the kinds that fuzzers make."""
    found = bytearray(data)
    for _ in range(random_.choice((1, 1, 1, 2, 4, 16))):
        at = random_.randrange(len(found) + 1)
        end = min(len(found), at + random_.choice((1, 1, 2, 4, 8, 64)))
        match random_.randrange(7):
            case 0 if found and at < len(found):
                found[at] ^= 1 << random_.randrange(8)
            case 1:
                found[at:end] = random_.randbytes(end - at)
            case 2:
                del found[at:end]
            case 3:
                found[at:at] = found[at:end] * random_.choice((1, 2, 100))
            case 4:
                size = random_.choice((1, 2, 4, 8))
                number = random_.choice(NUMBERS) & ((1 << 8 * size) - 1)
                found[at : at + size] = number.to_bytes(size, random_.choice(("little", "big")))
            case 5:
                del found[at:]
            case 6:
                other = random_.randrange(len(found) + 1)
                found[at:end] = found[other : other + end - at]
    return bytes(found)


def mutated_json(document: Json, random_: random.Random) -> Json:
    """A document with one to three of its parts replaced, dropped, doubled or swapped."""
    document = json.loads(json.dumps(document))
    for _ in range(random_.choice((1, 1, 2, 3))):
        places = list(_places(document))
        if not places:
            return copy.deepcopy(random_.choice(ODD))
        holder, key = random_.choice(places)
        match random_.randrange(6):
            case 0 | 1:
                holder[key] = copy.deepcopy(random_.choice(ODD))
            case 2:
                other, place = random_.choice(places)
                holder[key] = json.loads(json.dumps(other[place]))
            case 3:
                del holder[key]
            case 4 if isinstance(holder, list):
                holder.extend([json.loads(json.dumps(holder[key]))] * random_.choice((1, 2, 1000)))
            case 4 if isinstance(holder, dict):
                holder[str(random_.choice(ODD))[:100]] = json.loads(json.dumps(holder[key]))
            case 5:
                nested = holder[key]
                for _ in range(random_.choice((1, 3, 50, 300))):
                    nested = [nested] if random_.random() < 0.5 else {"a": nested}
                holder[key] = nested
            case _:
                pass
    return document


def _places(document: Json) -> Iterator[tuple[Any, Any]]:
    waiting = [document]
    while waiting:
        item = waiting.pop()
        if isinstance(item, (dict, list)):
            for key in item if isinstance(item, dict) else range(len(item)):
                yield item, key
                waiting.append(item[key])


def spelled(document: Json, random_: random.Random) -> bytes:
    """A document as text: mostly as it should be, now and then with changed bytes."""
    try:
        text = json.dumps(document).encode()
    except RecursionError:
        text = b"[" * 100_000
    return mutated_bytes(text, random_) if random_.random() < 0.15 else text


# What is opened


@cache
def samples() -> Path:
    """Sound files of every kind."""
    folder = Path(tempfile.mkdtemp(prefix="crux-fuzz-samples-"))
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    Case("onnx", relu().SerializeToString(), {"x": x}).save(folder / "onnx")
    clip_exception().save(folder / "clip")
    (folder / "weights").mkdir()
    (folder / "weights" / "model.onnx").write_bytes(external("w.bin", 4).SerializeToString())
    (folder / "weights" / "w.bin").write_bytes(bytes(16))
    (folder / "rich").mkdir()
    (folder / "rich" / "model.onnx").write_bytes(_rich())
    with Store(folder / "crux.db") as store:
        record_failure(store, clip_exception(), verdict())
    header = {"case_id": "0" * 64, "target": "ort"}
    journal = Journal(folder / "journal.jsonl", header)
    journal.open()
    from reducer.engine.journal import Answer

    journal.add("a", Answer(True, "b", ((1, 2),)))
    journal.close()
    return folder


def _rich() -> bytes:
    """A model with subgraphs, a function, constants of several types, sequences and optionals."""
    tensor, text = helper.make_tensor("w", 1, [2, 3], list(range(6))), helper.make_tensor("s", 8, [1], [b"a"])
    branch = helper.make_graph(
        [helper.make_node("Identity", ["w"], ["b"])],
        "branch",
        [],
        [helper.make_tensor_value_info("b", 1, [2, 3])],
    )
    nodes = [
        helper.make_node("If", ["c"], ["i"], then_branch=branch, else_branch=branch),
        helper.make_node("F", ["i"], ["y"], domain="own"),
        helper.make_node("Identity", ["s"], ["t"]),
    ]
    function = helper.make_function(
        "own", "F", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], [helper.make_opsetid("", 17)]
    )
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("y", 1, [2, "n"]), helper.make_tensor_value_info("t", 8, [1])],
        [tensor, text],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_model(
        graph, opset_imports=opsets, ir_version=8, functions=[function]
    ).SerializeToString()


def looked_at(folder: Path) -> None:
    """Open a case and all that is made of it before anything is run."""
    from triage.language import list_case
    from triage.views.listing import describe_value

    case = open_case(folder, memory_bytes=1 << 28)
    assert case.case_id
    assert case.canonical_hash
    assert case.measure.nodes >= 0
    list_case(case)
    for value in case.inputs.values():
        describe_value(value)
    case.save(folder.parent / "saved")
    assert Case.load(folder.parent / "saved") == case.relocated


Surface = Callable[[Path, random.Random], None]


def onnx_bytes(place: Path, random_: random.Random) -> None:
    """The bytes of a model."""
    name = random_.choice(("onnx", "clip", "weights", "rich"))
    shutil.copytree(samples() / name, place / "case")
    path = place / "case" / "model.onnx"
    path.write_bytes(mutated_bytes(path.read_bytes(), random_))
    looked_at(place / "case")


def npz_bytes(place: Path, random_: random.Random) -> None:
    """The bytes of the inputs: the zip's, or those of an array within it."""
    shutil.copytree(samples() / "onnx", place / "case")
    path = place / "case" / "inputs.npz"
    if random_.random() < 0.4:
        path.write_bytes(mutated_bytes(path.read_bytes(), random_))
    else:
        packed = io.BytesIO()
        with zipfile.ZipFile(path) as archive, zipfile.ZipFile(packed, "w", random_.choice((0, 8))) as other:
            for name in archive.namelist():
                content = mutated_bytes(archive.read(name), random_)
                if random_.random() < 0.5:
                    dtype = random_.choice(
                        ("<U0", "<U1", ">f8", "|O", "|V4", "<M8[s]", "<c8", "<f2", "|b1", "<i8")
                    )
                    content = archive.read(name).replace(b"<f4", dtype.encode())
                other.writestr(
                    random_.choice((name, f"../{name}", "x#0.npy", "x.npy", "x#absent.npy")), content
                )
        path.write_bytes(packed.getvalue())
    looked_at(place / "case")


def case_json(place: Path, random_: random.Random) -> None:
    """The facts of a case."""
    shutil.copytree(samples() / random_.choice(("onnx", "weights", "clip")), place / "case")
    path = place / "case" / "case.json"
    facts = json.loads(path.read_text()) if path.exists() else {"format": "onnx", "version": 1}
    facts["target"] = random_.choice((facts.get("target"), "ort@opt=basic", "tvm:cuda", "x@y=/z", "@", "a@b"))
    path.write_bytes(spelled(mutated_json(facts, random_), random_))
    looked_at(place / "case")


def program_json(name: str) -> Surface:
    """A program of one of the formats that are documents."""

    def surface(place: Path, random_: random.Random) -> None:
        (place / "case").mkdir()
        document = json.loads(random_.choice(documents(name)))
        (place / "case" / f"program.{name}.json").write_bytes(
            spelled(mutated_json(document, random_), random_)
        )
        (place / "case" / "case.json").write_text(json.dumps({"format": name}))
        looked_at(place / "case")

    surface.__doc__ = f"A {name} program."
    return surface


@cache
def documents(name: str) -> tuple[bytes, ...]:
    """Programs of a format that crux itself has generated."""
    from generators.mixture import Options, generate

    if name == "torch":
        main = {
            "inputs": [["x", "float32", [2]]],
            "bindings": [["y", "torch.nn.functional.relu", [{"ref": "x"}], {}]],
            "outputs": ["y"],
        }
        document = {"format": "torch", "version": 1, "main": main, "constants": {}, "functions": {}}
        return (json.dumps({**document, "opaque": {}, "facts": {}}).encode(),)
    folder = samples() / f"made-{name}"
    generate(folder, 8, 4, options=Options(strategy=name))
    return tuple(path.read_bytes() for path in sorted(folder.glob("*/program.*.json")))


def journal(place: Path, random_: random.Random) -> None:
    """A reduction's journal."""
    text = (samples() / "journal.jsonl").read_bytes()
    (place / "journal.jsonl").write_bytes(mutated_bytes(text, random_))
    opened = Journal(place / "journal.jsonl", {"case_id": "0" * 64, "target": "ort"})
    with closing(opened):
        opened.open()


RESULT = {
    **{
        "nodes_before": 9,
        "nodes_after": 2,
        "bytes_before": 100,
        "bytes_after": 20,
        "checks": 7,
        "symptom": "a | b",
    },
    **{
        "minimal": True,
        "kept": [1],
        "curve": [{"check": 1, "nodes": 2, "bytes": 3}],
        "passes": ["A"],
        "ops": ["Relu"],
    },
    "steps": [{"move": "cut", "check": 1, "nodes": 1, "elements": 1, "bytes": 1}],
    "pass_set": {
        "minimal": ["A"],
        "fired": [],
        "cures": [],
        "checks": 1,
        "level": "all",
        "beyond_passes": False,
    },
}
BISECTED = {
    **{
        "first_bad": "1.2",
        "last_good": "1.1",
        "first_fixed": None,
        "last_bad": None,
        "title": "t",
        "symptom": "s",
    },
    "tried": [{"release": "1.2", "shows": "failure 1", "title": "t"}],
}


def results(place: Path, random_: random.Random) -> None:
    """What lies beside a reduced case, and its page."""
    from triage.pages.differences import write_page

    Case.load(samples() / "clip").save(place / "out")
    for name, document in (("reduction.json", RESULT), ("bisect.json", BISECTED)):
        (place / "out" / name).write_bytes(spelled(mutated_json(document, random_), random_))
    with suppress(UserError):
        finished(place / "out")
    with suppress(UserError):
        write_page(place / "out", None)
    history_of_folder(place / "out").sentences()


def expectation(place: Path, random_: random.Random) -> None:
    """What a case of the regression corpus should show."""
    Case.load(samples() / "onnx").save(place / "case")
    document = {"title": "t", "package": "p", "shown": {"1.0": ["crash", "execute", "SIGSEGV"]}}
    (place / "case" / "expected.json").write_bytes(spelled(mutated_json(document, random_), random_))
    load_regression(place / "case")


KNOWN = b"""[an-issue]
title = "t"
package = "onnxruntime"
since = "1.0"
issue = "https://example.org/1"
match = { kind = "a.*b", site = "x" }
"""


def known_issues(place: Path, random_: random.Random) -> None:
    """A file of known issues."""
    (place / "known.toml").write_bytes(mutated_bytes(KNOWN, random_))
    read_known(place / "known.toml")


def snapshot(place: Path, random_: random.Random) -> None:
    """What a block of a campaign has taught."""
    from corpus.reading import held_to

    document = {
        "covered": {"a": 1},
        "trials": [{"key": "k", "bred": {"parent": "", "changed": "fresh"}, "news": ["n"], "program": "p"}],
        "pool": {"entries": [{"key": "k", "program": "p", "passes": ["A"]}], "seen": ["n"]},
    }
    CoverageSnapshot.of(held_to(mutated_json(document, random_), LESSON, "a lesson"))


def database_bytes(place: Path, random_: random.Random) -> None:
    """The bytes of a database."""
    path = place / "crux.db"
    path.write_bytes(mutated_bytes((samples() / "crux.db").read_bytes(), random_))
    shutil.copytree(samples() / "crux.db.blobs", place / "crux.db.blobs")
    if random_.random() < 0.5:
        copy_foreign(path, place / "copy.db")
        path = place / "copy.db"
    _look_at(path)


def database_values(place: Path, random_: random.Random) -> None:
    """A value in a row of a database, or its schema."""
    path = place / "crux.db"
    shutil.copyfile(samples() / "crux.db", path)
    shutil.copytree(samples() / "crux.db.blobs", place / "crux.db.blobs")
    with closing(sqlite3.connect(path)) as opened:
        tables = [name for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        table = random_.choice([name for name in tables if "search" not in name])
        columns = [row[1] for row in opened.execute(f"PRAGMA table_info({table})")]
        value = random_.choice(ODD)
        value = json.dumps(value) if isinstance(value, (list, dict)) or random_.random() < 0.3 else value
        with suppress(sqlite3.Error, OverflowError, UnicodeEncodeError):
            opened.execute(f'UPDATE {table} SET "{random_.choice(columns)}" = ?', (value,))
            opened.commit()
    if random_.random() < 0.5:
        copy_foreign(path, place / "copy.db")
        shutil.copytree(samples() / "crux.db.blobs", place / "copy.db.blobs")
        path = place / "copy.db"
        with Store(path) as store:
            must_hold_true(store, path)
    _look_at(path)


def _look_at(path: Path) -> None:
    with Store(path) as store:
        overview(store, ())
        for row in store.rows("SELECT id FROM failures"):
            verdict_of(store, int(row["id"]))
        for row in store.rows("SELECT case_id FROM cases"):
            store.load_case(row["case_id"])


SURFACES: dict[str, Surface] = {
    "onnx": onnx_bytes,
    "npz": npz_bytes,
    "case.json": case_json,
    "relax": program_json("relax"),
    "tir": program_json("tir"),
    "torch": program_json("torch"),
    "journal": journal,
    "results": results,
    "expectation": expectation,
    "known issues": known_issues,
    "snapshot": snapshot,
    "database bytes": database_bytes,
    "database values": database_values,
}


# Running


@dataclass(frozen=True, slots=True)
class Fall:
    """An input that neither opened nor was refused in one line."""

    name: str
    error: str
    where: str


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


def try_one(surface: str, seed: int) -> Fall | None:
    """Make an input and open it; None where that goes as it should."""
    name = f"{surface}/{seed}"
    with tempfile.TemporaryDirectory(prefix="crux-fuzz-") as folder:
        try:
            with limited(CPU_SECONDS):
                SURFACES[surface](Path(folder), random.Random(name))
        except UserError as error:
            if "\n" in str(error).strip():
                return Fall(name, "several lines", str(error)[:200])
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if isinstance(error, Exception) and disk_complaint(error):
                return None
            frames = traceback.extract_tb(error.__traceback__)
            ours = [frame for frame in frames if "site-packages" not in frame.filename][-1]
            where = f"{Path(ours.filename).name}:{ours.lineno} {ours.name}"
            return Fall(name, f"{type(error).__name__}: {error}"[:200].replace(folder, "…"), where)
    return None


def fuzz(surfaces: list[str], count: int, seed: int, say: Callable[[str], object] = print) -> list[Fall]:
    """Try so many inputs of each surface in turn; the first fall of each kind."""
    falls: dict[tuple[str, str], Fall] = {}
    seen: Counter[str] = Counter()
    for number in range(seed, seed + count):
        surface = surfaces[number % len(surfaces)]
        seen[surface] += 1
        fall = try_one(surface, number)
        if fall is not None and (fall.where, fall.error[:20]) not in falls:
            falls[fall.where, fall.error[:20]] = fall
            say(f"{fall.name}: {fall.error} at {fall.where}")
    return list(falls.values())


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--surface", choices=SURFACES, action="append")
    asked = parser.parse_args()
    began = time.monotonic()
    falls = fuzz(asked.surface or list(SURFACES), asked.count, asked.seed)
    print(f"{asked.count} inputs, {len(falls)} kinds of falls, {time.monotonic() - began:.0f} s")
    sys.exit(bool(falls))


if __name__ == "__main__":
    main()
