"""The database: SQLite in WAL mode, contents by their hash beside it; all SQL stands here.

In come records; out come records. Every write is one `BEGIN IMMEDIATE` transaction. Bugs, campaigns and
commands call it; nothing here runs a case.
"""
