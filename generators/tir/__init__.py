"""TIR programs: grown by construction, then mutated, with passes of their own (Tzer, section 3).

In come draws from a seed; out come modules of PrimFuncs that are well-formed and, by the interpreter of
`oracles/tir`, defined throughout, each with a sequence of passes. The strategy `tir` calls `programs.py`.

To add a mutator: a function in `mutators.py` under `@at_site` or `@mutator` (`sites.py`).
"""
