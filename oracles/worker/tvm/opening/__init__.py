"""Users' files and TVM's own tests, opened in the worker: TVMScript, JSON, and what a test gives to a pass.

In come texts; out come programs as plain data, and ONNX models written of Relax functions. The TVM backend
calls it. Python 3.8 syntax.
"""
