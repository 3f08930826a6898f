"""XLA in the worker: ONNX operators lowered to jax, and modules of StableHLO compiled and run.

In comes an ONNX model, or the text of a module; out come arrays or `Unsupported`. In the worker only.
"""
