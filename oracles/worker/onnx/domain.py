"""The domain of torch's own operators in ONNX models."""

from __future__ import annotations

DOMAIN = "org.pytorch.aten"
