"""Programs whose sizes a solver finds (NNSmith, §3.2): one query for all operators of a program.

A program is drawn as any other, on sizes that note what is computed with them (`dims.py`, `sketch.py`); the
type rules themselves are so the constraints that z3 gets. Out comes the same program in the sizes that were
found (`realising.py`). The strategy `smt` calls `realising.py`.
"""
