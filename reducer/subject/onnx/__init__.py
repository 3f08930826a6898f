"""ONNX models as subjects: what can be asked of one, and every edit that moves are made of.

In comes a model with its inputs and facts; out come smaller models that are well typed. `nodesets.py` has
what an edit looks at, each other file one kind of edit or measure, and `subject.py` puts them together. Moves
call the room, and the session for facts and partings.
"""
