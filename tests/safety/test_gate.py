"""What a case, a database or a lesson says is parsed at one place, and says nothing about what runs."""

import ast
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

import tensorcrux
from corpus.target import Target
from tests.helpers.failing import verdict as made_up
from tests.helpers.sources import sources
from tests.safety.test_trust import small_case, trap
from triage.bugs.failures import record_failure
from triage.cli import run
from triage.store.database import Store, open_to_read

GIVEN = {"triage/console/options.py", "triage/commands/check.py", "corpus/target.py"}
"""Where the user's own command line names a target."""


def test_only_the_command_line_makes_a_target_that_is_trusted():
    found = {
        path
        for path, tree in sources().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "parse"
        if isinstance(node.value, ast.Name) and node.value.id in ("Target", "cls")
    }
    assert found == GIVEN


def test_what_is_foreign_stays_so_when_it_is_changed():
    target = Target.of_data("ort@opt=basic").with_setting("python", "x").without_setting("opt")
    assert target.is_foreign
    assert target.complaint == "@python=x"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database with a failure whose target names a program."""
    program, _ = trap(tmp_path)
    case = small_case(Target.parse(f"ort@python={program}"))
    path = tmp_path / "crux.db"
    with Store(path) as store:
        record_failure(store, case, made_up())
    return path


COMMANDS = {
    "reduce all": ["reduce", "--all"],
    "check": ["check", "F00001"],
    "reduce": ["reduce", "F00001", "-o", "{out}"],
    "report": ["report", "C0001", "-o", "{out}"],
    "pages": ["report", "--html", "-o", "{out}"],
    "passes": ["passes", "F00001"],
    "triage": ["triage"],
    "bisect": ["bisect", "F00001", "--package", "onnxruntime", "--versions", "1.0..1.1"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_runs_what_a_database_names(database, tmp_path, name, capsys):
    words = [word.format(out=tmp_path / "out") for word in COMMANDS[name]]
    assert run([*words, "--db", str(database)]) in (0, 1, 2)
    assert not (tmp_path / "it-ran").exists()
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("call", ["check", "reduce", "report"])
def test_the_library_runs_nothing_that_a_case_names(tmp_path, call):
    program, mark = trap(tmp_path)
    small_case(Target.parse(f"ort@python={program}")).save(tmp_path / "case")
    more = {"check": {}, "reduce": {"out": tmp_path / "out"}, "report": {}}
    positional = [tmp_path / "bundle"] if call == "report" else []
    with pytest.raises(tensorcrux.UserError, match="trust"):
        getattr(tensorcrux, call)(tmp_path / "case", *positional, **more[call])
    assert not mark.exists()


FOREIGN = (
    "CREATE TRIGGER sqlite_more AFTER INSERT ON cases BEGIN DELETE FROM cases; END",
    "CREATE TABLE sqlite_mine (x DEFAULT (abs(1)))",
    "CREATE INDEX sqlite_autoindex_mine ON cases (abs(bytes))",
    "CREATE TABLE sqlite_sequence (name, seq, more DEFAULT (abs(1)))",
)


def write_schema(path: Path, statement: str) -> None:
    """Put an object into a database whose name SQLite keeps for itself."""
    kind, name = statement.split()[1:3]
    with closing(sqlite3.connect(path, isolation_level=None)) as opened:
        opened.execute("PRAGMA writable_schema = ON")
        opened.execute("DELETE FROM sqlite_master WHERE name = ?", (name,))
        row = (kind.lower(), name, "cases" if kind in ("TRIGGER", "INDEX") else name, statement)
        opened.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, 0, ?)", row)


@pytest.mark.parametrize("statement", FOREIGN)
def test_an_object_named_like_sqlites_own_is_refused(tmp_path, statement, capsys):
    path = tmp_path / "crux.db"
    with Store(path) as store:
        store.add_case(small_case())
    write_schema(path, statement)
    assert run(["triage", "--db", str(path)]) == 2
    assert run(["db", "import", str(path), "--db", str(tmp_path / "ours.db")]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 2


ENDLESS = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
    " SELECT max(i) AS name, 1 AS migration_set FROM n"
)


def test_the_list_of_steps_may_not_be_an_endless_view(tmp_path):
    path = tmp_path / "crux.db"
    with closing(sqlite3.connect(path)) as opened:
        opened.execute(f"CREATE VIEW _sqlite_migrations AS {ENDLESS}")
    assert run(["triage", "--db", str(path)]) == 2


def test_a_query_without_end_ends_with_a_signal(tmp_path):
    """What is stored may take long to read; a signal ends it."""
    code = f"""
import sys
from pathlib import Path
from triage import cli
from triage.store.database import Store, open_to_read
def asked(arguments):
    print("begun", flush=True)
    with Store(Path({str(tmp_path / "crux.db")!r})) as store:
        store.rows({ENDLESS!r})
cli._context = asked
sys.exit(cli.run([]))
"""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        process.stdout.readline()
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 130
        assert process.stderr.read().startswith("crux: interrupted")


def test_a_command_that_asks_changes_no_row(tmp_path: Path) -> None:
    path = tmp_path / "crux.db"
    with Store(path) as store:
        store.add_case(small_case())
    with open_to_read(path) as store, pytest.raises(sqlite3.OperationalError, match="readonly"):
        store.write("DELETE FROM cases")
