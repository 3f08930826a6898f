"""Programs that are graphs of bindings: what `torch` and `relax` programs are in crux.

In comes the JSON of such a program; out come typed nodes, functions and values, their canonical names
and their text. The formats `torch` and `relax` call this room; the reducer edits its graphs. It knows
no framework.
"""
