"""Reduces one model of the benchmark, each check an onnxruntime session in this process; prints the result.

Arguments: the benchmark's folder, its case, the model, and the folder for the result.
"""

import json
import sys
from pathlib import Path
from typing import Any

import corpus.onnx.client
from corpus.target import Target
from oracles.judge import Judge

JUDGE = Judge(Target("ort"))
JUDGE.executor.begin()  # early, as the command does
corpus.onnx.client.begin()

import onnx  # noqa: E402

import reducer.api  # noqa: E402
from corpus.case import Case  # noqa: E402
from corpus.formats.onnx import parse  # noqa: E402
from corpus.onnx.inputs import make_inputs  # noqa: E402
from reducer.engine.journal import Answer  # noqa: E402


def main(bench: str, name: str, model: Path, out: Path) -> None:
    sys.path.insert(0, bench)
    oracle: Any = __import__("oracle").Oracle(name, "ort")

    def answering(*settings: object) -> Any:
        """In the place of a command."""
        return lambda case: Answer(oracle(parse(case.program)))

    reducer.session.Command = answering  # type: ignore[assignment, misc]
    whole = onnx.load(model)
    case = Case("onnx", model.read_bytes(), make_inputs(whole, 0), Target("ort"))
    done = reducer.api.reduce_case(case, out, reducer.api.Options(check="in this process"), judge=JUDGE)
    JUDGE.close()
    print(json.dumps({"nodes": done.after.nodes, "checks": done.checks, "calls": oracle.calls}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
