"""The database's tables, as a list of migrations: a new version adds one at the end and edits none."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlite_utils import Database, Migrations

NAME = "tensorcrux"

TABLES = """
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    command TEXT NOT NULL,
    target TEXT NOT NULL,
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
    created TEXT NOT NULL,
    note TEXT NOT NULL DEFAULT '',
    renamed INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE signatures (
    digest TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    components TEXT NOT NULL,
    first_seen TEXT NOT NULL,
    kind TEXT NOT NULL DEFAULT ''
);
CREATE INDEX signatures_by_kind ON signatures (kind, version);
CREATE TABLE aliases (
    signature TEXT PRIMARY KEY REFERENCES signatures (digest),
    cluster INTEGER NOT NULL REFERENCES clusters (id),
    how TEXT NOT NULL,
    score REAL NOT NULL,
    why TEXT NOT NULL,
    added TEXT NOT NULL,
    pinned INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX aliases_by_cluster ON aliases (cluster);
CREATE TABLE similarities (
    first TEXT NOT NULL REFERENCES signatures (digest),
    second TEXT NOT NULL REFERENCES signatures (digest),
    distance REAL NOT NULL,
    PRIMARY KEY (first, second)
) WITHOUT ROWID;
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
    release TEXT NOT NULL DEFAULT '',
    UNIQUE (case_id, target)
);
CREATE INDEX failures_by_cluster ON failures (cluster);
CREATE INDEX failures_by_status ON failures (status, cluster);
CREATE INDEX failures_by_signature ON failures (signature);
CREATE INDEX failures_by_symptom ON failures (symptom, status);
CREATE INDEX failures_by_reduced_case ON failures (reduced_case);
CREATE INDEX failures_in_order ON failures (status);
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
    finished TEXT NOT NULL,
    edition TEXT NOT NULL DEFAULT ''
);
CREATE INDEX reductions_by_failure ON reductions (failure);
CREATE TABLE reports (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    cluster INTEGER REFERENCES clusters (id),
    case_id TEXT NOT NULL,
    folder TEXT NOT NULL,
    ready INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    written TEXT NOT NULL,
    newest TEXT NOT NULL DEFAULT '',
    fixed TEXT NOT NULL DEFAULT ''
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


TALLIES = (
    """CREATE TABLE tallies (
        cluster INTEGER NOT NULL,
        status TEXT NOT NULL,
        outcome TEXT NOT NULL,
        release TEXT NOT NULL,
        failures INTEGER NOT NULL,
        PRIMARY KEY (cluster, status, outcome, release)
    ) WITHOUT ROWID""",
    """CREATE TRIGGER tally_new AFTER INSERT ON failures BEGIN
        INSERT INTO tallies VALUES (new.cluster, new.status, new.outcome, new.release, 1)
        ON CONFLICT (cluster, status, outcome, release) DO UPDATE SET failures = failures + 1;
    END""",
    """CREATE TRIGGER tally_gone AFTER DELETE ON failures BEGIN
        UPDATE tallies SET failures = failures - 1 WHERE (cluster, status, outcome, release)
            = (old.cluster, old.status, old.outcome, old.release);
        DELETE FROM tallies WHERE failures = 0 AND cluster = old.cluster;
    END""",
    """CREATE TRIGGER tally_changed AFTER UPDATE OF cluster, status, outcome, release ON failures
       WHEN (old.cluster, old.status, old.outcome, old.release)
           != (new.cluster, new.status, new.outcome, new.release) BEGIN
        UPDATE tallies SET failures = failures - 1 WHERE (cluster, status, outcome, release)
            = (old.cluster, old.status, old.outcome, old.release);
        DELETE FROM tallies WHERE failures = 0 AND cluster = old.cluster;
        INSERT INTO tallies VALUES (new.cluster, new.status, new.outcome, new.release, 1)
        ON CONFLICT (cluster, status, outcome, release) DO UPDATE SET failures = failures + 1;
    END""",
    "CREATE INDEX failures_by_first_seen ON failures (cluster, first_seen)",
    "CREATE INDEX failures_by_last_seen ON failures (cluster, last_seen)",
)
"""How many failures a cluster has, by status, outcome and release: counted as they come, never by a scan."""

RECORDS = (
    """CREATE TABLE check_results (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        case_id TEXT NOT NULL,
        target TEXT NOT NULL,
        release TEXT NOT NULL,
        outcome TEXT NOT NULL,
        phase TEXT NOT NULL,
        symptom TEXT NOT NULL,
        title TEXT NOT NULL,
        checked TEXT NOT NULL
    )""",
    "CREATE INDEX check_results_by_case ON check_results (case_id, target, release)",
    """CREATE TABLE artifacts (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        kind TEXT NOT NULL,
        subject TEXT NOT NULL,
        name TEXT NOT NULL,
        digest TEXT NOT NULL,
        bytes INTEGER NOT NULL,
        added TEXT NOT NULL,
        UNIQUE (kind, subject, name, digest)
    )""",
    "CREATE INDEX artifacts_by_digest ON artifacts (digest)",
)
"""Verdicts on any case, and files that belong to something."""

REWRITES = (
    """CREATE TABLE rewrites (
        signature TEXT NOT NULL,
        outcome TEXT NOT NULL,
        passes TEXT NOT NULL,
        ops TEXT NOT NULL,
        PRIMARY KEY (signature, outcome, passes, ops)
    ) WITHOUT ROWID""",
    """CREATE TRIGGER rewrite_new AFTER INSERT ON reductions
       WHEN json_array_length(new.document, '$.passes') > 0 BEGIN
        INSERT OR IGNORE INTO rewrites SELECT signature, outcome, json_extract(new.document, '$.passes'),
            coalesce(json_extract(new.document, '$.ops'), '[]') FROM failures WHERE id = new.failure;
    END""",
)
"""The minimal passes and operators that reductions led to, each once."""

VIEWS = (
    """CREATE VIEW bugs AS
       SELECT printf('C%04d', clusters.id) AS bug, clusters.title, clusters.status, clusters.note,
           sum(failures) AS failures, sum(failures) FILTER (WHERE tallies.status = 'reduced') AS reduced,
           replace(group_concat(DISTINCT tallies.outcome), ',', ', ') AS outcomes,
           replace(group_concat(DISTINCT nullif(release, '')), ',', ', ') AS releases,
           (SELECT strftime('%Y-%m-%d %H:%M', min(first_seen)) FROM failures WHERE cluster = clusters.id)
               AS first_seen,
           (SELECT strftime('%Y-%m-%d %H:%M', max(last_seen)) FROM failures WHERE cluster = clusters.id)
               AS last_seen,
           (SELECT folder FROM reports WHERE reports.cluster = clusters.id ORDER BY id DESC LIMIT 1) AS report
       FROM clusters JOIN tallies ON tallies.cluster = clusters.id
       WHERE clusters.status != 'merged' GROUP BY clusters.id""",
    """CREATE VIEW failure_list AS
       SELECT printf('F%05d', failures.id) AS failure, printf('C%04d', cluster) AS bug, failures.title,
           outcome, target, release, failures.status, seen,
           strftime('%Y-%m-%d %H:%M', first_seen) AS first_seen,
           strftime('%Y-%m-%d %H:%M', last_seen) AS last_seen,
           original.bytes AS bytes, smallest.bytes AS reduced_bytes,
           (SELECT group_concat(origin, ', ') FROM origins WHERE failure = failures.id) AS origins
       FROM failures JOIN cases AS original ON original.case_id = failures.case_id
       LEFT JOIN cases AS smallest ON smallest.case_id = failures.reduced_case""",
    """CREATE VIEW reduction_list AS
       SELECT printf('F%05d', failure) AS failure, printf('C%04d', cluster) AS bug, reductions.status,
           json_extract(document, '$.nodes_before') AS nodes_before,
           json_extract(document, '$.nodes_after') AS nodes_after,
           json_extract(document, '$.checks') AS checks, json_extract(document, '$.passes') AS passes,
           finished FROM reductions JOIN failures ON failures.id = failure""",
    """CREATE VIEW signature_list AS
       SELECT digest, printf('C%04d', cluster) AS bug, kind, how, score, why, components, first_seen
       FROM signatures JOIN aliases ON signature = digest""",
    """CREATE VIEW history AS
       SELECT at, kind, subject, document FROM events ORDER BY id DESC""",
)
"""The tables as a person reads them: times to the minute, releases only where they are known."""


CAUSES = (
    """CREATE TABLE faces (
        failure INTEGER PRIMARY KEY REFERENCES failures (id),
        root INTEGER REFERENCES failures (id),
        version INTEGER NOT NULL,
        checks INTEGER NOT NULL,
        why TEXT NOT NULL,
        decided TEXT NOT NULL
    )""",
    "CREATE INDEX faces_by_root ON faces (root)",
    """CREATE TABLE explanations (
        failure INTEGER PRIMARY KEY REFERENCES failures (id),
        bug INTEGER NOT NULL REFERENCES failures (id),
        version INTEGER NOT NULL,
        checks INTEGER NOT NULL,
        why TEXT NOT NULL,
        decided TEXT NOT NULL
    )""",
    "CREATE INDEX explanations_by_bug ON explanations (bug)",
)
"""Reduced failures that follow from another one, and failures that a reduced one explains."""


CAMPAIGNS = (
    """CREATE TABLE campaigns (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        target TEXT NOT NULL,
        first_seed INTEGER NOT NULL,
        started TEXT NOT NULL
    )""",
    "CREATE INDEX campaigns_by_target ON campaigns (target)",
    """CREATE TABLE lessons (
        campaign INTEGER NOT NULL REFERENCES campaigns (id),
        block INTEGER NOT NULL,
        next_seed INTEGER NOT NULL,
        document BLOB NOT NULL,
        PRIMARY KEY (campaign, block)
    ) WITHOUT ROWID""",
    """CREATE TABLE learned (
        campaign INTEGER PRIMARY KEY REFERENCES campaigns (id),
        blocks INTEGER NOT NULL,
        document BLOB NOT NULL
    )""",
)
"""What campaigns learn, by block and from the first ones together (compressed JSON)."""


NATIVE = (
    """CREATE TABLE native_libraries (
        target TEXT NOT NULL,
        build TEXT NOT NULL,
        library TEXT NOT NULL,
        blocks INTEGER NOT NULL,
        met BLOB NOT NULL,
        PRIMARY KEY (target, build)
    ) WITHOUT ROWID""",
    """CREATE TABLE native_files (
        target TEXT NOT NULL,
        library TEXT NOT NULL,
        file TEXT NOT NULL,
        pass_name TEXT NOT NULL,
        functions INTEGER NOT NULL,
        functions_met INTEGER NOT NULL,
        blocks INTEGER NOT NULL,
        blocks_met INTEGER NOT NULL,
        PRIMARY KEY (target, library, file)
    ) WITHOUT ROWID""",
    """CREATE VIEW native_passes AS
       SELECT target, pass_name AS pass, sum(functions) AS functions, sum(functions_met) AS functions_met,
           sum(blocks) AS blocks, sum(blocks_met) AS blocks_met,
           round(100.0 * sum(blocks_met) / sum(blocks), 1) AS percent
       FROM native_files WHERE pass_name != '' GROUP BY target, pass_name""",
)
"""What tests met of a target's own code: bits by build (compressed), counts by file."""


REFUSALS = (
    """CREATE TABLE refusals (
        package TEXT NOT NULL,
        release TEXT NOT NULL,
        form TEXT NOT NULL,
        PRIMARY KEY (package, release, form)
    ) WITHOUT ROWID""",
)
"""What a release was seen to refuse: operators with the element types of their operands and results."""


SEEN = (
    """CREATE TABLE samples (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        run INTEGER NOT NULL REFERENCES runs (id),
        at TEXT NOT NULL,
        tests INTEGER NOT NULL,
        valid INTEGER NOT NULL,
        failures INTEGER NOT NULL,
        coverage INTEGER NOT NULL,
        blocks INTEGER NOT NULL,
        new INTEGER NOT NULL,
        known INTEGER NOT NULL,
        waiting INTEGER NOT NULL,
        cpu REAL NOT NULL,
        memory INTEGER NOT NULL
    )""",
    "CREATE INDEX samples_by_run ON samples (run)",
    """CREATE TABLE arm_costs (
        campaign INTEGER NOT NULL REFERENCES campaigns (id),
        arm TEXT NOT NULL,
        tests INTEGER NOT NULL,
        cpu REAL NOT NULL,
        failures INTEGER NOT NULL,
        earned REAL NOT NULL,
        PRIMARY KEY (campaign, arm)
    ) WITHOUT ROWID""",
    """CREATE TABLE decisions (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        run INTEGER NOT NULL REFERENCES runs (id),
        at TEXT NOT NULL,
        choice TEXT NOT NULL,
        why TEXT NOT NULL,
        cpu REAL NOT NULL,
        gained REAL NOT NULL
    )""",
    "CREATE INDEX decisions_by_run ON decisions (run)",
    """CREATE VIEW arm_yields AS
       SELECT target, campaign, arm, tests, round(cpu, 3) AS cpu_seconds, failures, earned,
           round(1000.0 * cpu / max(tests, 1), 2) AS ms_a_test
       FROM arm_costs JOIN campaigns ON campaigns.id = campaign""",
    """CREATE VIEW choices AS
       SELECT run, choice, count(*) AS times, round(sum(cpu), 1) AS cpu_seconds,
           round(sum(gained), 1) AS gained,
           round(3600 * sum(gained) / max(sum(cpu), 0.001), 2) AS gained_a_cpu_hour
       FROM decisions GROUP BY run, choice""",
)
"""Points over time, what arms cost and earned, and what each part of a hunt was chosen for and gained."""


MIGRATIONS: Mapping[str, Sequence[str]] = {
    "create_all": (
        *filter(str.strip, TABLES.split(";")),
        *(*TALLIES, *RECORDS, *REWRITES, *VIEWS, *CAUSES, *CAMPAIGNS),
        *(*NATIVE, *REFUSALS, *SEEN),
    ),
}
"""The statements of each step, by its name."""


def is_current(connection: sqlite3.Connection) -> bool:
    """Whether every migration was applied: asked at every start, for which sqlite_utils takes too long."""
    try:
        rows = connection.execute("SELECT name FROM _sqlite_migrations WHERE migration_set = ?", (NAME,))
        return MIGRATIONS.keys() <= {name for (name,) in rows}
    except sqlite3.OperationalError:  # no such table yet
        return False


def migrations() -> Migrations:
    """The steps as sqlite_utils applies and notes them."""
    from sqlite_utils import Migrations

    steps = Migrations(NAME)
    for name, statements in MIGRATIONS.items():
        steps(name=name)(partial(apply, statements))
    return steps


def apply(statements: Sequence[str], db: Database | sqlite3.Connection) -> None:
    """Execute the statements of a step."""
    for statement in statements:
        db.execute(statement)
