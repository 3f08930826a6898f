"""Mutated files end in an answer or in one line; what once fell stays a test."""

import json
import os
import random
import sqlite3
from contextlib import closing

import pytest

from corpus.errors import UserError
from corpus.graphs.program import parse_program
from corpus.reading import held_to
from generators.feedback import LESSON, CoverageSnapshot
from tests.safety.fuzz_ourselves import SURFACES, fuzz, mutated_bytes, mutated_json, try_one
from triage.cli import run
from triage.store.database import Store

COUNT = int(os.environ.get("CRUX_FUZZ_COUNT", "20000"))


@pytest.mark.parametrize("surface", SURFACES)
def test_a_few_mutated_inputs_of_each_kind(surface):
    assert fuzz([surface], 12, 0, say=lambda text: None) == []


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_many_mutated_inputs():
    assert fuzz(list(SURFACES), COUNT, 1_000_000) == []


@pytest.mark.parametrize(
    "make", [lambda r: mutated_bytes(b"abcdef" * 9, r), lambda r: mutated_json({"a": [1]}, r)]
)
def test_the_same_seed_gives_the_same_input(make):
    assert [make(random.Random(f"{n}")) for n in range(50)] == [
        make(random.Random(f"{n}")) for n in range(50)
    ]


# What fell


def test_a_list_of_blocks_is_cut_off(tmp_path):
    for blocks in ("AA", "not base64!", "eJwrSS0uAQAEXQHB"):
        lesson = {"sightings": [{"build": "b", "arm": "a", "blocks": blocks, "lineage": None}]}
        with pytest.raises(UserError, match="lesson"):
            CoverageSnapshot.of(held_to(lesson, LESSON, "a lesson"))


@pytest.mark.parametrize("dim", [{}, [], 1.5])
def test_a_dim_of_a_program_is_a_number_or_a_name(dim):
    main = {"inputs": [["x", "float32", [dim]]], "bindings": [], "outputs": ["x"]}
    document = {"format": "torch", "version": 1, "main": main, "constants": {}, "functions": {}}
    text = json.dumps({**document, "opaque": {}, "facts": {}}).encode()
    with pytest.raises(UserError, match="is no dim"):
        parse_program(text, "torch", "it")


@pytest.mark.parametrize(
    ("table", "column"), [("failures", "cluster"), ("signatures", "version"), ("failures", "seen")]
)
def test_a_number_in_the_database_is_one(tmp_path, table, column, capsys):
    from tests.helpers.failing import clip_exception, verdict
    from triage.bugs.failures import record_failure

    path = tmp_path / "crux.db"
    with Store(path) as store:
        record_failure(store, clip_exception(), verdict())
    with closing(sqlite3.connect(path)) as opened:
        opened.execute(f"UPDATE {table} SET {column} = '{{}}'")
        opened.commit()
    assert run(["triage", "--db", str(path)]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_a_schema_that_is_no_text_is_damage(tmp_path, capsys):
    path = tmp_path / "crux.db"
    Store(path).close()
    content = path.read_bytes()
    at = content.index(b"CREATE TABLE")
    path.write_bytes(content[:at] + b"\xff" + content[at + 1 :])
    assert run(["triage", "--db", str(path)]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


FELL = (
    *("relax/127011", "results/501893", "database bytes/502457", "database values/116716", "tir/11908"),
    *("archive/10011539", "tir/10020910", "database bytes/10018565"),
)


@pytest.mark.parametrize("name", FELL)
def test_what_fell_does_not_fall_again(name):
    surface, seed = name.rsplit("/", 1)
    assert try_one(surface, int(seed)) is None
