"""Nothing that a stranger's file says runs code, unless the user trusts it."""

import json
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpus.case import Case
from corpus.formats.relax import calls_outside
from corpus.target import Target
from oracles.sandbox.sandbox import Job
from oracles.verdict import Config
from tests.helpers.models import chain_of
from triage.cli import run
from triage.store.database import Store


def small_case(target: Target | None = None) -> Case:
    program = chain_of(["Relu"]).SerializeToString()
    return Case("onnx", program, {"x": np.array([-1, 2], np.float32)}, target)


def trap(folder: Path) -> tuple[Path, Path]:
    """A program that leaves a mark where it runs, and the mark."""
    mark, program = folder / "it-ran", folder / "python"
    program.write_text(f"#!/bin/sh\ntouch {mark}\n")
    program.chmod(0o755)
    return program, mark


# What a case says to run


@pytest.mark.parametrize("command", ["check", "passes", "report", "reduce"])
def test_a_cases_own_interpreter_is_not_run(tmp_path, command, capsys):
    program, mark = trap(tmp_path)
    small_case(Target.parse(f"ort@python={program}")).save(tmp_path / "case")
    out = ["-o", str(tmp_path / "out")] if command in ("report", "reduce") else []

    assert run([command, str(tmp_path / "case"), *out]) == 2
    assert not mark.exists()
    assert "--trust" in capsys.readouterr().err


def test_the_command_lines_target_takes_the_place_of_the_cases(tmp_path):
    program, mark = trap(tmp_path)
    small_case(Target.parse(f"ort@python={program}")).save(tmp_path / "case")

    assert run(["check", str(tmp_path / "case"), "--target", "ort"]) == 0
    assert not mark.exists()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("ort@python=/x/python", True),
        ("ort@opt=/tmp/lib.so", True),
        ("ort@anything=x", True),
        ("ort:../x", True),
        ("o\nrt", True),
        ("ort@opt=basic@threads=2", False),
        ("tvm@passes=A,B", False),
    ],
)
def test_settings_that_name_programs_or_paths_are_known(text, names):
    assert bool(Target.of_data(text).complaint) is names
    assert not Target.parse(text).complaint


# torch programs


def torch_program(op: str, args: list[Any], kwargs: dict[str, Any] | None = None) -> bytes:
    main = {"inputs": [["x", "float32", [2]]], "bindings": [["y", op, args, kwargs or {}]], "outputs": ["y"]}
    document = {"format": "torch", "version": 1, "main": main, "constants": {}, "functions": {}}
    return json.dumps({**document, "opaque": {}, "facts": {}}).encode()


X = {"ref": "x"}
HOSTILE_OPERATORS = [
    ("torch.builtins.exec", ["open('mark', 'w')"]),
    ("torch.load", ["mark"]),
    ("torch.save", [X, "mark"]),
    ("torch.from_file", ["mark", True, 2]),
    ("torch.ops.aten.from_file.default", ["mark", True, 2]),
    ("torch.ops.load_library", ["mark"]),
    ("torch.ops.higher_order.print", [X]),
    ("torch.nn.functional.torch.os.system", ["touch mark"]),
    ("torch.hub.load", ["a/b", "c"]),
    ("operator.call", [X]),
    ("math.__loader__.load_module", ["os"]),
    ("os.system", ["touch mark"]),
    ("Tensor.numpy", [X]),
    ("Tensor.__reduce_ex__", [X, 2]),
    ("Tensor.storage().__class__", [X]),
    ("torch.relu(x0) or __import__('os').system", [X]),
    ("", [X]),
]


@pytest.mark.parametrize(("op", "args"), HOSTILE_OPERATORS, ids=[op or "none" for op, _ in HOSTILE_OPERATORS])
def test_a_torch_program_names_operators_only(torch_sandbox, op, args):
    job = Job(torch_program(op, args), {"x": np.ones(2, np.float32)}, (Config("plain"),), format="torch")
    (run_of_it,) = torch_sandbox.run(job)

    assert run_of_it.error == "NotData", run_of_it
    told = Config("told", (("show", "source"),))
    (printed,) = torch_sandbox.run(Job(job.program, job.inputs, (told,), format="torch"))
    assert printed.error == "NotData", printed.outputs


@pytest.mark.parametrize(
    "item",
    [
        {"layout": "strided); __import__('os').system('touch mark'"},
        {"complex": ["__import__('os').getpid()", "0"]},
        {"device": "cpu'); import os; ('"},
    ],
    ids=str,
)
def test_what_a_torch_programs_literals_print_is_data(torch_sandbox, item):
    told = Config("told", (("show", "source"),))
    program = torch_program("torch.add", [X, item])
    (printed,) = torch_sandbox.run(Job(program, {"x": np.ones(2, np.float32)}, (told,), format="torch"))

    assert "system" not in str(printed.outputs)
    assert not printed.is_ok or "device" in item


# TVM programs


def prim_func(op: str, *callees: str) -> dict[str, Any]:
    """TVM's JSON of a call as it stands in a PrimFunc."""
    nodes: list[Any] = [{"type": "None"}, {"type": "ir.Op", "data": op}]
    literals = []
    for callee in callees:
        nodes += [{"type": "ffi.String", "data": callee}]
        nodes += [{"type": "ir.StringImm", "data": {"value": len(nodes) - 1}}]
        literals.append(len(nodes) - 1)
    nodes.append({"type": "ffi.Array", "data": literals})
    nodes.append({"type": "ir.Call", "data": {"op": 1, "args": len(nodes) - 1}})
    return {"root_index": len(nodes) - 1, "nodes": nodes}


def relax_document(opaque: Any = None, binding: Any = None, **facts: Any) -> bytes:
    bindings = [binding] if binding else []
    main = {"inputs": [["x", "float32", [2]]], "bindings": bindings, "outputs": ["x"]}
    document = {"format": "relax", "version": 1, "main": main, "constants": {}, "functions": {}}
    return json.dumps(
        {**document, "opaque": {"f": opaque or {}}, "facts": {"main": "main", **facts}}
    ).encode()


PRAGMA = {"root_index": 0, "nodes": [{"type": "ffi.String", "data": "pragma_import_c"}]}
LIBRARY = {"root_index": 0, "nodes": [{"type": "runtime.Module", "data": "AAAA"}]}
EXTERN = {
    "root_index": 1,
    "nodes": [
        {"type": "ffi.String", "data": "runtime.ModuleLoadFromFile"},
        {"type": "relax.expr.ExternFunc", "data": {"global_symbol": 0}},
    ],
}


@pytest.mark.parametrize(
    "document",
    [
        relax_document(prim_func("tirx.call_extern", "system", "touch mark")),
        relax_document(prim_func("tirx.call_extern")),
        relax_document(prim_func("tirx.tvm_call_packed", "runtime.ModuleLoadFromFile", "mark")),
        relax_document(prim_func("tirx.anylist_setitem_call_packed", "vm.builtin.copy", "x", "os.system")),
        relax_document(prim_func("relax.call_py_func", "f")),
        *map(relax_document, (PRAGMA, LIBRARY, EXTERN)),
        relax_document(binding=["y", "relax.call_dps_packed", [{"extern": "rpc.Connect"}], {}]),
        relax_document(binding=["y", "relax.call_py_func", [{"string": "f"}], {}]),
        relax_document(binding=["y", "tirx.call_extern", [{"string": "system"}], {}]),
        relax_document(attrs=LIBRARY),
    ],
    ids=range(12),
)
def test_a_relax_program_calls_what_only_computes(tmp_path, document):
    path = tmp_path / "program.relax.json"
    path.write_bytes(document)
    assert calls_outside(document)
    assert run(["check", str(path)]) == 2


def test_mathematics_and_tvms_own_helpers_need_no_trust():
    packed = ["y", "relax.call_pure_packed", [{"extern": "tvm.contrib.sort.sort"}], {}]
    assert not calls_outside(relax_document(prim_func("tirx.call_pure_extern", "erff"), packed))


# Databases


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """A folder as `crux db export` makes it, with one case."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    with Store(folder / "crux.db") as store:
        store.add_case(small_case())
    return folder


def change(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / "crux.db")) as opened:
        for statement in statements:
            opened.execute(statement)
        opened.commit()


def refused(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line by which an import refuses it."""
    code = run(["db", "import", str(folder), "--db", str(tmp_path / "ours.db")])
    lines = capsys.readouterr().err.strip().splitlines()
    assert (code, len(lines)) == (2, 1), lines
    return lines[0]


def test_an_export_is_taken_in(exported, tmp_path):
    assert run(["db", "import", str(exported), "--db", str(tmp_path / "ours.db")]) == 0


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("CREATE VIEW more AS SELECT 1", "foreign schema"),
        ("CREATE TRIGGER more AFTER INSERT ON cases BEGIN SELECT 1; END", "foreign schema"),
        ("CREATE INDEX more ON cases (abs(bytes))", "foreign schema"),
        ("DROP VIEW bugs", "foreign schema"),
        ("INSERT INTO _sqlite_migrations VALUES (99, 'tensorcrux', 'fly', '2030')", "newer crux"),
        ("DELETE FROM _sqlite_migrations", "not a database of crux|foreign schema"),
        ("UPDATE cases SET files = json_set(files, '$.\"../../planted\"', '{digest}')", "leaves its folder"),
        ("UPDATE cases SET files = json_set(files, '$.\"/tmp/planted\"', '{digest}')", "leaves its folder"),
        ('UPDATE cases SET files = \'{{"model.onnx": "../../../../etc/passwd"}}\'', "no SHA-256"),
        ("UPDATE cases SET files = '[]'", "cannot stand there"),
        ("UPDATE cases SET bytes = 'many'", "cannot stand there"),
        ("UPDATE cases SET case_id = '{digest}'", "is not what its id says"),
        ("UPDATE cases SET case_id = '../../x'", "no SHA-256"),
        (
            "INSERT INTO artifacts (kind, subject, name, digest, bytes, added)"
            " VALUES ('report', 'C0001', 'report.zip', '../../etc/passwd', 1, '')",
            "no SHA-256",
        ),
    ],
)
def test_a_foreign_database_is_refused_in_one_line(exported, tmp_path, capsys, statement, words):
    digest = next((exported / "crux.db.blobs").glob("??/*")).name
    change(exported, statement.format(digest=digest))

    assert re.search(words, refused(exported, tmp_path, capsys))
    assert not (tmp_path / "planted").exists()


def test_a_blob_that_is_a_link_is_refused(exported, tmp_path, capsys):
    blob = next((exported / "crux.db.blobs").glob("??/*"))
    shutil.move(blob, tmp_path / "private")
    blob.symlink_to(tmp_path / "private")

    assert "damaged" in refused(exported, tmp_path, capsys)


def test_a_blob_that_changed_is_an_error_wherever_it_is_read(exported, capsys):
    with Store(exported / "crux.db") as store:
        (row,) = store.rows("SELECT case_id, files FROM cases")
    digest = json.loads(row["files"])["inputs.npz"]
    path = exported / "crux.db.blobs" / digest[:2] / digest
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(np.float32(2).tobytes(), np.float32(3).tobytes()))

    assert run(["check", row["case_id"], "--db", str(exported / "crux.db")]) == 2
    assert "not what its name says" in capsys.readouterr().err
    assert run(["db", "check", "--db", str(exported / "crux.db")]) == 1
