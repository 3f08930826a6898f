"""Graphs of bindings (`torch`, `relax`) as subjects: their bindings look like nodes.

In comes a graph program with its inputs and facts; out come smaller ones of which the framework finds no
fault. `view.py` is what an edit looks at; `subject.py` puts it together with the edits. Moves call the room.
"""
