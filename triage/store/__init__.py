"""The database: SQLite in WAL mode, contents by their hash beside it; all SQL stands here.

In come cases, verdicts and decisions; out come typed rows (`Failure`, `Cluster`, `Alias`, …). Every write is
one `BEGIN IMMEDIATE` transaction. Nothing here decides which failures are one bug, and nothing runs a case.
"""
