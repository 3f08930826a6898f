"""Mutations of valid files of every format through every loader: no traceback, no hang, nothing written.

Run with `pytest -s tests/bench/bench_mutations.py -m bench`; `CRUX_MUTATIONS` says how many (100,000 by
default).
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from corpus.case import Case
from corpus.errors import UserError
from corpus.load import open_case
from reducer.engine.journal import Answer, Journal
from reducer.result import finished
from triage.store.database import Store
from triage.store.maintenance.import_archive import copy_foreign, unpack

MUTATIONS = int(os.environ.get("CRUX_MUTATIONS", "100000"))
CPU_SECONDS = 10.0
Loader = Callable[[Path], object]


def small_case() -> Case:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy")
    weight = helper.make_tensor("w", TensorProto.FLOAT, [3], [1.0, 2.0, 3.0])
    nodes = [helper.make_node("Mul", ["x", "w"], ["m"], name="first"), helper.make_node("Relu", ["m"], ["y"])]
    graph = helper.make_graph(nodes, "small", [x], [y], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return Case("onnx", model.SerializeToString(), {"x": np.ones((2, 3), np.float32)})


def graph_program(format: str) -> bytes:
    op = {"torch": "torch.relu", "relax": "relax.nn.relu"}[format]
    main = {
        "inputs": [["x", "float32", [2]]],
        "bindings": [["y", op, [{"ref": "x"}], {}], ["z", op, [{"ref": "c"}], {}]],
        "outputs": ["y", "z"],
    }
    document = {
        "format": format,
        "version": 1,
        "main": main,
        "constants": {"c": ["float32", [1], "AACAPw=="]},
    }
    return json.dumps({**document, "functions": {}, "opaque": {}, "facts": {"main": "main"}}).encode()


def opened_in(folder: Path, name: str) -> Loader:
    """A loader of a case folder in which one file is the mutated one."""

    def load(path: Path) -> object:
        (folder / name).write_bytes(path.read_bytes())
        return open_case(folder)

    return load


def read_journal(path: Path) -> None:
    with closing(Journal(path, {"case_id": "a"})) as journal:
        journal.open()


def import_copy(path: Path) -> None:
    copy = path.with_name("copy.db")
    copy.unlink(missing_ok=True)
    copy_foreign(path, copy)


def kinds(folder: Path) -> Iterator[tuple[str, str, bytes, Loader]]:
    """Each format: what it is called, its file's name, a valid one's bytes, its loader."""
    small_case().save(folder / "case")
    yield "model.onnx", "m.onnx", (folder / "case/model.onnx").read_bytes(), open_case
    for name in ("case.json", "inputs.npz", "model.onnx"):
        small_case().save(folder / name)
        yield f"{name} of a case", name, (folder / name / name).read_bytes(), opened_in(folder / name, name)
    for format in ("torch", "relax"):
        yield format, f"p.{format}.json", graph_program(format), open_case
    journal = Journal(folder / "journal.jsonl", {"case_id": "a"})
    journal.open()
    for number in range(5):
        journal.add(f"{number}", Answer(True, "x"))
    journal.close()
    yield "journal", "journal.jsonl", (folder / "journal.jsonl").read_bytes(), read_journal
    result = {"nodes_before": 3, "nodes_after": 1, "bytes_before": 9, "bytes_after": 3, "checks": 4}
    text = json.dumps({**result, "symptom": "", "minimal": True}).encode()
    yield "reduction.json", "reduction.json", text, lambda path: finished(path.parent)
    with Store(folder / "some.db") as store:
        store.add_case(small_case())
        store.copy_to(folder / "packed.db")
    yield "database", "d.db", (folder / "packed.db").read_bytes(), import_copy
    with zipfile.ZipFile(folder / "some.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(folder / "packed.db", "crux.db")
    counter = iter(range(10**9))
    packed = (folder / "some.zip").read_bytes()
    yield "zip", "z.zip", packed, lambda path: unpack(path, path.parent / f"out-{next(counter)}")


WORDS = [b"\xff\xff\xff\xff\x0f", b"\0", b"../", b"1e999", b"null", b"[" * 50, b"-1", b"9" * 30, b'"', b"{}"]


def mutated(content: bytes, draws: random.Random) -> bytes:
    """One to four changes: bytes flipped, cut, doubled, moved, or words that parsers dislike put in."""
    data = bytearray(content)
    for _ in range(draws.randint(1, 4)):
        at = draws.randrange(len(data) + 1)
        end = min(len(data), at + draws.choice((1, 1, 2, 4, 16, 200)))
        match draws.randrange(6):
            case 0:
                data[at:end] = draws.randbytes(end - at)
            case 1:
                del data[at:end]
            case 2:
                data[at:at] = data[at:end]
            case 3:
                data[at:at] = draws.choice(WORDS)
            case 4:
                for place in range(at, end):
                    data[place] ^= 1 << draws.randrange(8)
            case _:
                del data[at:]
        data = data or bytearray(b"\0")
    return bytes(data)


@pytest.mark.bench
@pytest.mark.timeout(0)
def test_mutations_of_every_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table by format: how many were refused and opened; anything else fails at once."""
    found = list(kinds(tmp_path / "valid" if (tmp_path / "valid").mkdir() is None else tmp_path))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)

    def strike(number: int, frame: Any) -> None:
        raise AssertionError(f"over {CPU_SECONDS} CPU-seconds")

    signal.signal(signal.SIGPROF, strike)
    counts: dict[str, Counter[str]] = {name: Counter() for name, *_ in found}
    slowest = 0.0
    for number in range(MUTATIONS):
        name, file, content, load = found[number % len(found)]
        path = work / file
        path.write_bytes(mutated(content, random.Random(number)))
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        started = time.process_time()
        try:
            load(path)
            counts[name]["opened"] += 1
        except UserError:
            counts[name]["refused"] += 1
        except Exception as error:
            raise AssertionError(f"mutation {number} of {name}: {type(error).__name__}: {error}") from error
        slowest = max(slowest, time.process_time() - started)
    signal.setitimer(signal.ITIMER_PROF, 0)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"valid", "work"}
    for name, count in counts.items():
        print(f"| {name} | {count['refused']} | {count['opened']} |")
    print(f"{MUTATIONS} mutations, slowest {slowest:.2f} CPU-seconds")
