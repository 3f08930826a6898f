"""Opening an ONNX model from a file: its bytes and limits, and values for its inputs.

In come paths, bytes and seeds; out come models that fit the memory, and arrays. The format `onnx` calls it.
"""
