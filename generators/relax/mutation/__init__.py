"""Changes to a Relax program that somebody else made: a user's, or one that was grown before.

In comes a program as data with values of its inputs; out comes one with a few bindings inserted, replaced,
deleted or moved, still well typed. `mutant.py` says what is certain of the program's names without TVM and
grows at a place inside it, `mutations.py` holds the changes. The strategies `mutate` and `relax_mutate` call
`mutations.py`.
"""
