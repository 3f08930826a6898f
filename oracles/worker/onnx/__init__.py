"""ONNX models in the worker: decoded without the rest of crux, and caught from documented tests.

In comes a model's bytes or a test file; out come plain nodes and values. In the worker only.
"""

DOMAIN = "org.pytorch.aten"
"""The domain of torch's own operators in ONNX models."""
