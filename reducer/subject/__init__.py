"""What is being reduced: a program with its facts, and the edits that moves are made of.

In comes a case with the types, shapes and values of its tensors; out come smaller candidates that are
well typed. ONNX models and graphs of bindings share one base (`base.py`). Moves call this room.
"""
