"""ONNX Runtime's half in the worker: options of sessions, values that numpy cannot hold, small models.

In come arrays and settings; out come sessions and onnxruntime's values. Called by
`oracles/backends/ort.py` in the worker only, but for `names.py`. Python 3.8 syntax.
"""
