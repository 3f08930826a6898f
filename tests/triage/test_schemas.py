"""What commands print with `--json` is what `crux schema` says, and each field is described."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.failing import clip_exception, healthy, verdict
from tests.house.reference import commands
from tests.triage.test_newest import with_a_bug
from triage.bisection.bisection import GOOD, Bisection, ReleaseResult, document
from triage.bugs.failures import record_failure
from triage.bugs.overview import overview_with_states
from triage.cli import run
from triage.commands.hunt import bug_document
from triage.console.schemas import BUG, SCHEMAS, schema_of
from triage.store.database import Store

KINDS: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}


def misfits(value: Any, schema: Any, where: str = "$") -> Iterator[str]:
    """Where a value does not have the form, by the keywords that the schemas use.

    A field that no schema describes is a misfit here, though users of a schema may meet it.
    """
    if "anyOf" in schema:
        branches = [list(misfits(value, each, where)) for each in schema["anyOf"]]
        if all(branches):
            yield from min(branches, key=len)
        return
    kinds = schema.get("type", [])
    names = [kinds] if isinstance(kinds, str) else kinds
    fits = any(
        isinstance(value, KINDS[name]) and (name == "boolean") == isinstance(value, bool) for name in names
    )
    if not fits or value not in schema.get("enum", [value]):
        yield f"{where}: {value!r}"
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from misfits(each, schema["items"], f"{where}[{at}]")
    elif isinstance(value, dict) and schema.get("properties"):
        yield from (f"{where}: lacks {name}" for name in schema["required"] if name not in value)
        for name, each in value.items():
            known = schema["properties"].get(name)
            yield from misfits(each, known, f"{where}.{name}") if known else [f"{where}.{name}: unknown"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    clip_exception().save(tmp_path / "clip")
    healthy().save(tmp_path / "fine")
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "a.txt").write_text("RuntimeError: no such thing")
    with Store(tmp_path / "crux.db") as store:
        record_failure(store, clip_exception(), verdict())
    return tmp_path


CALLS = [
    "check fine",
    "check clip fine --repeat 2 --db other.db",
    "check clip --locate",
    "check clip --targets ort,reference",
    "reduce clip -o small",
    "reduce --all",
    "passes clip",
    "report clip -o reports",
    "triage",
    "triage traces traces",
    "generate -o programs --count 2 --ops 3",
    "fuzz --tests 3",
    "config",
    "replay clip --record",
    "show F00001",
    "diff clip fine",
    "triage why F00001 F00001",
    "triage mark C0001 filed https://example.org/1 --assign ann --note later",
    "triage rename C0001 other",
    "triage limits",
    "triage coverage",
    "db check",
    "db gc",
    "db export snapshot",
    "db import crux.db --db other.db",
    "db views",
    "patterns list",
    "conformance --target ort --only relu",
]


@pytest.mark.parametrize("line", CALLS)
def test_real_output_has_the_form_of_its_schema(line, folder, capsys):
    if line.startswith("replay"):
        run(["replay", str(folder / "clip"), "--record", "--json"])
        line = "replay clip"
        capsys.readouterr()
    if run([*line.split(), "--json"]) not in (0, 1):
        pytest.fail(capsys.readouterr().err)
    printed = capsys.readouterr().out
    if not printed:
        pytest.skip("the installed onnxruntime does not show the bug")
    name = max((each for each in SCHEMAS if line.startswith(each)), key=len)
    assert list(misfits(json.loads(printed), schema_of(name))) == []


def test_documents_that_take_long_to_make_have_the_form_of_their_schema(tmp_path: Path):
    with Store(with_a_bug(tmp_path)) as store:
        (bug,) = overview_with_states(store)
        assert list(misfits(bug_document(store, bug), BUG)) == []
    seen = {each: ReleaseResult(each, "crash", "execute", "s", "t", 1, (), "3.11", "2.0") for each in "123"}
    faces = {0: GOOD, 1: "A", 2: GOOD}
    found = document(Bisection(("1", "2", "3"), faces, seen, {"A": seen["2"]}, {}, "A"), {"4": "no wheel"})
    assert (found["first_bad"], found["first_fixed"]) == ("2", "3")
    given = {"case": "x", "package": "onnxruntime", "target": "ort"}
    assert list(misfits(found | given, schema_of("bisect"))) == []


def test_the_validator_of_these_tests_sees_what_is_wrong():
    good: dict[str, Any] = {"name": "seed", "value": 1, "from": "default"}
    schema = schema_of("config")
    assert list(misfits([good], schema)) == []
    bads: list[dict[str, Any]] = [{}, good | {"name": 3}, good | {"more": 1}, good | {"value": []}]
    for bad in bads:
        assert list(misfits([bad], schema))


def test_each_schema_is_of_a_command_and_is_printed(capsys):
    assert run(["schema"]) == 0
    names = capsys.readouterr().out.splitlines()
    assert names == [*SCHEMAS]
    assert {*names} <= commands().keys()
    for name in names:
        assert run(["schema", *name.split()]) == 0
        assert json.loads(capsys.readouterr().out)["title"] == f"crux {name} --json"
    assert run(["schema", "nothing"]) == 2
