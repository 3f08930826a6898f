"""Relax programs by type (RFC "Type-Directed Relay Fuzzing Library"), as documents of the format `relax`.

A target type and some fuel go in, a program that has a result of this type comes out; no framework is loaded.
`choices.py` says what programs look like, `making.py` grows them by the forms of `forms/`, `ops/` holds the
operators: what type a call can have, and what operands and attributes give it. The strategy `relax` and
`crux generate` call `programs.py`.
"""
