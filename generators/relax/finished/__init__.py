"""What is done with a Relax program once it is grown: cut into dataflow blocks, counted.

In come programs as data; out come programs, and their operators by number. `programs.py` calls it, and
`patterns.py` for what stands together.
"""
