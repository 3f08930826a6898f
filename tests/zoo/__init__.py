"""Models that real exporters write, made anew by each run and kept in a folder of the caller's.

In: the name of an entry of `tests.zoo.models.ZOO`. Out: a case folder with `model.onnx` and `inputs.npz`.
The networks are small copies of what people ship, with random weights; torch's two exporters, onnxruntime's
quantiser or the ONNX helpers write them. Tests and benchmarks alone call this.
"""
