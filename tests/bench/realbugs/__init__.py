"""Real, public bugs of compilers, written anew from their facts, each on a release that had it.

`bug` says what a record is, `ort_*` and its like hold the records, `host` puts a bug within a large model,
and `python -m tests.bench.realbugs.score` reduces them and prints the score.
"""
