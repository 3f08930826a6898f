"""The database's tables, as a list of migrations: a new version adds one at the end and edits none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlite_utils import Migrations

if TYPE_CHECKING:
    from sqlite_utils import Database

migrations = Migrations("tensorcrux")

TABLES = """
CREATE TABLE environments (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    document TEXT NOT NULL
);
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    command TEXT NOT NULL,
    target TEXT NOT NULL,
    environment INTEGER REFERENCES environments (id),
    started TEXT NOT NULL,
    ended TEXT,
    status TEXT NOT NULL,
    next_seed INTEGER,
    tests INTEGER NOT NULL DEFAULT 0,
    valid INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX runs_by_target ON runs (target, next_seed);
CREATE TABLE cases (
    case_id TEXT PRIMARY KEY,
    format TEXT NOT NULL,
    canonical_hash TEXT NOT NULL,
    origin TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    files TEXT NOT NULL,
    added TEXT NOT NULL
);
CREATE INDEX cases_by_canonical_hash ON cases (canonical_hash);
CREATE TABLE clusters (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    title TEXT NOT NULL,
    status TEXT NOT NULL,
    created TEXT NOT NULL
);
CREATE TABLE signatures (
    digest TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    components TEXT NOT NULL,
    first_seen TEXT NOT NULL
);
CREATE TABLE aliases (
    signature TEXT PRIMARY KEY REFERENCES signatures (digest),
    cluster INTEGER NOT NULL REFERENCES clusters (id),
    how TEXT NOT NULL,
    score REAL NOT NULL,
    why TEXT NOT NULL,
    added TEXT NOT NULL
);
CREATE INDEX aliases_by_cluster ON aliases (cluster);
CREATE TABLE failures (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    case_id TEXT NOT NULL REFERENCES cases (case_id),
    target TEXT NOT NULL,
    run INTEGER REFERENCES runs (id),
    outcome TEXT NOT NULL,
    title TEXT NOT NULL,
    symptom TEXT NOT NULL,
    verdict TEXT NOT NULL,
    signature TEXT NOT NULL REFERENCES signatures (digest),
    cluster INTEGER NOT NULL REFERENCES clusters (id),
    status TEXT NOT NULL,
    reduced_case TEXT REFERENCES cases (case_id),
    first_seen TEXT NOT NULL,
    last_seen TEXT NOT NULL,
    seen INTEGER NOT NULL DEFAULT 1,
    UNIQUE (case_id, target)
);
CREATE INDEX failures_by_cluster ON failures (cluster);
CREATE INDEX failures_by_status ON failures (status, cluster);
CREATE INDEX failures_by_signature ON failures (signature);
CREATE INDEX failures_by_symptom ON failures (symptom, status);
CREATE INDEX failures_by_reduced_case ON failures (reduced_case);
CREATE TABLE origins (
    failure INTEGER NOT NULL REFERENCES failures (id),
    origin TEXT NOT NULL,
    PRIMARY KEY (failure, origin)
) WITHOUT ROWID;
CREATE TABLE reductions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    failure INTEGER NOT NULL REFERENCES failures (id),
    reduced_case TEXT REFERENCES cases (case_id),
    status TEXT NOT NULL,
    document TEXT NOT NULL,
    finished TEXT NOT NULL
);
CREATE INDEX reductions_by_failure ON reductions (failure);
CREATE TABLE reports (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    cluster INTEGER REFERENCES clusters (id),
    case_id TEXT NOT NULL,
    folder TEXT NOT NULL,
    ready INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    written TEXT NOT NULL
);
CREATE INDEX reports_by_cluster ON reports (cluster);
CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    document TEXT NOT NULL
);
CREATE INDEX events_by_subject ON events (subject);
"""


def create_tables(db: Database) -> None:
    for statement in TABLES.split(";"):
        if statement.strip():
            db.execute(statement)


migrations(name="create_tables")(create_tables)

SIMILARITIES = """
CREATE TABLE similarities (
    first TEXT NOT NULL REFERENCES signatures (digest),
    second TEXT NOT NULL REFERENCES signatures (digest),
    distance REAL NOT NULL,
    PRIMARY KEY (first, second)
) WITHOUT ROWID;
ALTER TABLE signatures ADD COLUMN kind TEXT NOT NULL DEFAULT '';
CREATE INDEX signatures_by_kind ON signatures (kind, version);
ALTER TABLE aliases ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;
ALTER TABLE clusters ADD COLUMN note TEXT NOT NULL DEFAULT '';
ALTER TABLE clusters ADD COLUMN renamed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE failures ADD COLUMN release TEXT NOT NULL DEFAULT '';
"""


def compare_signatures(db: Database) -> None:
    for statement in SIMILARITIES.split(";"):
        if statement.strip():
            db.execute(statement)


migrations(name="compare_signatures")(compare_signatures)
