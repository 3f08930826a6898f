"""ONNX operators lowered to torch: one table of lowerings, and the module that runs a model with them.

In comes an ONNX model; out comes a `torch.nn.Module` or `Unsupported`. The backends `torch` and
`inductor` run ONNX programs through it; `finite.py` searches inputs by gradients. In the worker only.
"""
