"""The languages of programs, to what generates them: one module each, found by its name.

A module has a `LANGUAGE`, the record of `generators/language/emit.py`; its programs are grown by files of
`strategies/`. Nobody imports a module of here by its name.
"""
