"""Sessions of ONNX Runtime: their options, and a run of a small model."""

from __future__ import annotations

from typing import Any

from onnxruntime.capi import onnxruntime_pybind11_state

from oracles.in_worker.ort.names import LEVELS

core: Any = onnxruntime_pybind11_state
"""What the public classes of onnxruntime call, without their checks."""


def session_options(settings: dict[str, Any]) -> Any:
    """Return the options of a session with these settings."""
    options = core.SessionOptions()
    level = LEVELS[settings.get("level", "all")]
    options.graph_optimization_level = getattr(core.GraphOptimizationLevel, level)
    options.intra_op_num_threads = int(settings.get("threads") or 1)
    options.inter_op_num_threads = 1
    options.log_severity_level = 0 if settings.get("log") else 4
    return options


def run_small(program: bytes, feeds: dict[str, Any]) -> Any:
    """Return the first result of a small model, un-optimised."""
    session = core.InferenceSession(session_options({"level": "none"}), program, False, False)
    session.initialize_session(["CPUExecutionProvider"], [{}], set())
    return session.run_with_ort_values(feeds, ["y"], None)[0]
