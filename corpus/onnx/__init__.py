"""ONNX models: walking, checking, inferring, repairing, inlining and printing them, one concern a module.

In comes a `ModelProto` or its bytes; out come facts about it, or a changed copy. onnx's own checker and
inference can crash, so `client.py` asks them in a child process (`server.py`). Any room may call this
one.
"""
