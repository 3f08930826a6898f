"""The languages of programs, to the reducer: one module each, found by its name.

A module has a `LANGUAGE`, the record of `reducer/language.py`. Nobody imports a module of here by its name.
"""
