"""Graphs of bindings (`torch`, `relax`) as subjects: their bindings look like nodes.

In comes a graph program with its inputs and facts; out come smaller ones of which the framework finds no
fault. `edits.py` has what an edit looks at, and the edits; `subject.py` puts them together. Moves call the
room.
"""
