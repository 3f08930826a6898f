"""The domain of torch's own operators in ONNX models."""

DOMAIN = "org.pytorch.aten"
