"""JSON schemas of what commands print with `--json`: a promise of each version.

A document may have more fields than its schema names, as versions add some; those named stay.
"""

from collections.abc import Mapping
from typing import Any

from oracles.verdict import Outcome, Phase

Schema = Mapping[str, Any]

DRAFT = "https://json-schema.org/draft/2020-12/schema"
TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
WHOLE: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
FLAG: Schema = {"type": "boolean"}


def words(description: str) -> Schema:
    """A text, with what it means."""
    return {"type": "string", "description": description}


def one_of(values: Any) -> Schema:
    """One of these texts."""
    return {"type": "string", "enum": [str(each) for each in values]}


def listed(items: Schema) -> Schema:
    """A list of such."""
    return {"type": "array", "items": items}


def maybe(kind: Schema) -> Schema:
    """Such a value or null."""
    return {"anyOf": [kind, {"type": "null"}]}


def record(fields: Mapping[str, Schema], also: Mapping[str, Schema] = {}) -> Schema:
    """An object that has all of `fields`, and those of `also` where they apply."""
    return {"type": "object", "required": [*fields], "properties": {**fields, **also}}


def texts(*names: str) -> dict[str, Schema]:
    """Fields that are texts."""
    return dict.fromkeys(names, TEXT)


def counts(*names: str) -> dict[str, Schema]:
    """Fields that are counts."""
    return dict.fromkeys(names, COUNT)


def lists(*names: str) -> dict[str, Schema]:
    """Fields that are lists of texts."""
    return dict.fromkeys(names, listed(TEXT))


def one_or_more(document: Schema) -> Schema:
    """The document of one case, or the list of several cases' documents."""
    return {"anyOf": [document, listed(document)]}


DISTANCE: Schema = {
    "anyOf": [NUMBER, {"type": "string", "description": "nan, inf or -inf"}, {"type": "null"}]
}
SEEN = {
    "outcome": one_of(each.value for each in Outcome),
    "phase": one_of(each.value for each in Phase),
    "symptom": words("names the failure for comparison; empty without a bug"),
    "title": words("one line for a person"),
}
WRONG = record(
    {
        "output": TEXT,
        "side": words("which side is wrong, if that is known"),
        "kind": TEXT,
        "error": DISTANCE,
        "truth": TEXT,
        "unoptimised_off_truth": DISTANCE,
        "optimised_off_truth": DISTANCE,
        "first_divergent": TEXT,
        "operator": TEXT,
        "times_further": DISTANCE,
        "map": {
            **listed(TEXT),
            "description": "the error over the output: . equal, 9 the greatest, X not finite",
        },
    }
)
LOCATED = record(
    {"tensor": TEXT, "node": TEXT, "op": TEXT, "error": DISTANCE, "right_until": listed(TEXT)},
)
SIDE = record({**SEEN, "target": TEXT})
CHECK = record(
    {"case": TEXT, **SEEN, "bug": FLAG, "target": TEXT, "notes": listed(TEXT)},
    {
        "wrong": WRONG,
        "repeats": COUNT,
        "same": COUNT,
        "id": words("the failure in the database of --db"),
        "past": listed(
            record({"node": TEXT, "op": TEXT, "outcome": TEXT, "title": TEXT, "limit": FLAG, "known": TEXT})
        ),
        "behind": record({"outcome": TEXT, "title": TEXT}),
        "located": maybe(LOCATED),
        "targets": listed(SIDE),
        "alone": words("of --targets, the one that stands alone; empty if none does"),
    },
)
NODES = ("nodes_before", "nodes_after", "function_nodes_before", "function_nodes_after")
REDUCE = record(
    {
        **counts(*NODES, "bytes_before", "bytes_after", "checks", "sweep_checks", "confirmations", "cached"),
        "seconds": NUMBER,
        "symptom": TEXT,
        "signature": words("names the bug"),
        "minimal": {**FLAG, "description": "no single node can go"},
        "minimal_covers": TEXT,
        "minimal_in_full": FLAG,
        "cut_short": listed(TEXT),
        "failure_rate": NUMBER,
        "runs_per_decision": COUNT,
        **lists("moves", "ops", "passes", "sequence"),
        "passes_unique": maybe(FLAG),
        "passes_cures": listed(TEXT),
        "pass_checks": COUNT,
        "timeouts": COUNT,
    },
    {
        "private": FLAG,
        "words_left": listed(TEXT),
        **texts("id", "cluster"),
        "root": {"type": "object"},
    },
)
REPORT = record(
    {
        "id": TEXT,
        "title": TEXT,
        "ready": {**FLAG, "description": "it can be filed as it is"},
        "state": TEXT,
        "folder": TEXT,
        "checks": listed(record({"holds": FLAG, "text": TEXT})),
    },
    texts("known", "issue", "newest", "fixed", "zip", "test", "signature", "page"),
)
LIST = one_of(("to file", "to reduce", "known", "fixed", "limits", "closed"))
FAILURE = record(
    {
        "id": TEXT,
        "origins": listed(words("the paths or seeds it came from")),
        "outcome": SEEN["outcome"],
        **texts("signature", "status", "case"),
        "seen": COUNT,
    }
)
CLUSTER = record(
    {
        **texts("id", "title", "status"),
        "state": words("regressed, new, ready, known, not reduced, fixed in X, or what a person decided"),
        "list": LIST,
        "package": TEXT,
        "signatures": listed(TEXT),
        "count": COUNT,
        "reduced": COUNT,
        "note": TEXT,
        "assignee": TEXT,
        "notes": listed(words("what people wrote of it, the oldest first")),
        "known": TEXT,
        "issue": TEXT,
        "failures": listed(FAILURE),
        "related": {"type": "object"},
        "faces": listed(record({"title": TEXT, "failures": COUNT, "first": TEXT})),
        "explained": listed(record({"why": TEXT, "failures": COUNT, "first": TEXT})),
        "report": words("the folder of its last report"),
        "outdated": {**FLAG, "description": "the report has not tried the newest release"},
    }
)
TESTED = counts("tests", "valid", "failures", "clusters") | {"seconds": NUMBER, "tests_per_second": NUMBER}
FUZZ = record(
    {**TESTED, "supported": COUNT, "failing": listed(TEXT)},
    {"patterns": COUNT, "fired": COUNT, "around": COUNT, "triggering": COUNT, "native_blocks": COUNT},
)
BUG = record(
    {
        "id": TEXT,
        "title": TEXT,
        **counts(*NODES),
        "minimal": FLAG,
        "failures": COUNT,
        "folder": TEXT,
        "ready": FLAG,
        "state": TEXT,
        "list": LIST,
        "known": TEXT,
        "issue": TEXT,
    }
)
GENERATE = record(counts("models", "op_types", "op_dtype", "op_shape", "op_edge") | {"seconds": NUMBER})
PASSES = record(
    {
        "case": TEXT,
        "minimal": listed(TEXT),
        "checks": COUNT,
        "unique": FLAG,
        "level": TEXT,
        "fired": listed(TEXT),
        "cures": listed(TEXT),
        "beyond_passes": FLAG,
        "symptom": TEXT,
    }
)
ENDS = dict.fromkeys(("last_good", "first_bad", "last_bad", "first_fixed"), maybe(TEXT))
BISECT = record(
    {
        **texts("case", "package", "target"),
        **ENDS,
        "symptom": TEXT,
        "title": TEXT,
        "tried": listed(
            record({"release": TEXT, **SEEN, "phase": TEXT, "python": TEXT, "numpy": TEXT, "shows": TEXT})
        ),
        "failures": listed(
            record(
                {
                    **texts("shows", "symptom", "title"),
                    "intervals": listed(record(ENDS)),
                }
            )
        ),
        "skipped": listed(record({"release": TEXT, "why": TEXT})),
    }
)
REPLAY = record(
    {
        **texts("case", "title", "target", "release"),
        "status": one_of(("new", "as expected", "differs")),
        "expected": TEXT,
        "seen": TEXT,
    }
)
SETTING = record(
    {
        "name": TEXT,
        "value": {"type": ["string", "number", "boolean", "null"]},
        "from": words("default, a file, a variable of the environment, or command line"),
    }
)
PART = record({"part": TEXT, "works": FLAG, "text": TEXT, "core": FLAG, "advice": TEXT})

DECIDED = record({"id": TEXT, "title": TEXT, "status": TEXT, "note": TEXT})
SHARES = counts("functions", "functions_met", "blocks", "blocks_met")
SHOW = record(
    {
        **texts("case", "case_id", "format", "target"),
        "settings": {"type": "object"},
        "origin": TEXT,
        **counts("nodes", "function_nodes", "bytes"),
        "ops": listed(TEXT),
        "notes": listed(TEXT),
        "inputs": {"type": "object", "additionalProperties": TEXT},
        "text": words("the program"),
    }
)
DIFF = record(
    {
        "a": TEXT,
        "b": TEXT,
        "same_case": FLAG,
        "same_but_for_names": FLAG,
        "only_a": {"type": "object"},
        "only_b": {"type": "object"},
        "words": listed(TEXT),
        "more": {**COUNT, "description": "differences that `words` leaves out"},
        "pictures": listed(TEXT),
    }
)
WHY = record(
    {
        "together": FLAG,
        **texts("first", "second"),
        **dict.fromkeys(("distance", "average"), maybe(NUMBER)),
        "words": listed(TEXT),
    }
)
DECLARED = record(
    {
        **texts("target", "operator", "form", "words", "failure", "release"),
        "count": COUNT,
        "clusters": listed(TEXT),
        "reduced": FLAG,
    }
)
TABLES = ("cases", "failures", "clusters", "signatures", "reductions", "check_results", "artifacts")
SOUND = record(
    {"path": TEXT, "sound": FLAG, "problems": listed(TEXT)},
    counts(*TABLES, "reports", "runs", "events", "blobs", "unused_blobs"),
)
COLLECTED = ("blobs", "blobs_removed", "leavings_removed", "kept_for_now", "bytes_before", "bytes_after")
CHANGE = ("case", "title", "change", "since", "before", "now")

SCHEMAS: Mapping[str, Schema] = {
    "bisect": BISECT,
    "check": one_or_more(CHECK),
    "config": listed(SETTING),
    "conformance": listed(
        record(texts("test", "status", "seen", "target", "release") | {"operators": listed(TEXT)})
    ),
    "db check": SOUND,
    "db export": record({"path": TEXT, "blobs": COUNT}),
    "db gc": record({"path": TEXT, **counts(*COLLECTED)}),
    "db import": record({"source": TEXT, **dict.fromkeys((*TABLES, "renamed", "known_issues"), WHOLE)}),
    "db views": record({"title": TEXT, "description": TEXT, "databases": {"type": "object"}}),
    "diff": DIFF,
    "doctor": listed(PART),
    "fuzz": FUZZ,
    "generate": GENERATE,
    "hunt": record({**TESTED, "bugs": listed(BUG)}),
    "passes": PASSES,
    "patterns extract": record(
        {"files": COUNT, "skipped": COUNT, "folder": TEXT}, {"patterns": COUNT, "no ONNX model": COUNT}
    ),
    "patterns list": listed(
        record(texts("name", "pass", "backend", "opsets", "origin") | {"operators": listed(TEXT)})
    ),
    "reduce": one_or_more(REDUCE),
    "replay": listed(REPLAY),
    "report": one_or_more(REPORT),
    "scrub": record(
        {
            "file": TEXT,
            "complaint": record({"kind": TEXT, "text": TEXT}),
            "notes": listed(TEXT),
            "cases": listed(CHECK),
            "reduced": {"anyOf": [REDUCE, record({"script": TEXT, "checks": COUNT}), {"type": "null"}]},
        }
    ),
    "show": SHOW,
    "triage": listed(CLUSTER),
    "triage coverage": listed(
        record({"target": TEXT, **SHARES, "passes": listed(record({"name": TEXT, **SHARES}))})
    ),
    "triage limits": listed(DECLARED),
    **dict.fromkeys(("triage mark", "triage merge", "triage rename", "triage split"), DECIDED),
    "triage traces": {"type": "object", "additionalProperties": TEXT},
    "triage why": WHY,
    "watch": listed(
        record(
            {"package": TEXT, "release": TEXT, "cases": COUNT},
            counts("fixed", "regressed", "new", "fails", "passes", "unknown", "silent")
            | {"changes": listed(record(texts(*CHANGE)))},
        )
    ),
    "wrap": listed(CHECK),
}
"""By command; of `report`, those of bundles."""


def schema_of(command: str) -> dict[str, Any]:
    """The schema of a command's document, complete with its draft."""
    return {"$schema": DRAFT, "title": f"crux {command} --json", **SCHEMAS[command]}
