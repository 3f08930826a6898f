"""What is being reduced: a program with its facts, and the edits that moves are made of.

In comes a case with the types, shapes and values of its tensors; out come smaller candidates that are
well typed. `base.py` says what every kind answers; `onnx/`, `graphs/` and `tir/` are the kinds, which know
nothing of one another. Moves and the engine call this room.
"""
