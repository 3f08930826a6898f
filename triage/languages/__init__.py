"""The languages of programs, as people see them: one module each, found by its name.

A module has a `LANGUAGE`, the record of `triage/language.py`. Nobody imports a module of here by its name.
"""
