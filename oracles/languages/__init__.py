"""The languages of programs, to the judge: one module each, found by its name.

A module has a `LANGUAGE`, the record of `oracles/abilities.py`. What two languages share stands in the rooms
below (`probes/`, `naming/`, `numerics/`). Nobody imports a module of here by its name.
"""
