"""Programs whose sizes a solver finds (NNSmith, §3.2): operators over symbolic dims, one query for all.

In comes a plan that relations add operators to: `plan.py` holds it and asks z3, `keeping.py`, `windows.py`,
`moving.py` and `products.py` hold the relations between the dims of operands and results. Out comes the same
program with the sizes that were found (`realising.py`). The strategy `smt` calls `realising.py`.
"""
