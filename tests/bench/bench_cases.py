"""Real failing models, fuzzed failures and a model of 3 GB, reduced; printed, never asserted.

`CRUX_CASES_BENCH` and `CRUX_FAILURES_BENCH` name folders of case folders: `model.onnx`, `inputs.npz` and a
`meta.json` that says the least operators known (`known_minimal_ops`, `reduced_ops`).
"""

import json
import math
import os
import statistics
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from corpus.load import open_case
from corpus.target import Target
from reducer.api import Reduction, reduce_case
from reducer.course import DoesNotFail, Options
from reducer.engine.speculation import MEASURED, MoveBenefit

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3600)]

ORT = Options(target=Target("ort"))
WIDTH, WEIGHTS, LAYERS = 2048, 192, 1000


def folders(variable: str) -> list[Path]:
    root = Path(os.environ.get(variable, "/nowhere"))
    if not root.is_dir():
        pytest.skip(f"{variable} names no folder")
    return sorted(path.parent for path in root.glob("*/meta.json"))


def models(folder: Path) -> Iterator[tuple[str, Path, Path]]:
    """The case and, where there is one, the same bug within a network."""
    for prefix in ("", "big_"):
        model, inputs = folder / f"{prefix}model.onnx", folder / f"{prefix}inputs.npz"
        if model.is_file() and inputs.is_file():
            yield f"{folder.name}{' (big)' if prefix else ''}", model, inputs


def reduce_quietly(model: Path, inputs: Path | None, out: Path) -> Reduction | None:
    try:
        return reduce_case(open_case(model, inputs=inputs), out, ORT)
    except DoesNotFail:
        return None


def row(name: str, done: Reduction, least: list[str] | None) -> str:
    known = "–" if least is None else str(len(least))
    spent = f"{done.checks} | {done.sweep_checks} | {done.seconds:.1f}"
    return f"| {name} | {done.before.nodes} → {done.after.nodes} | {known} | {done.after.bytes} | {spent} |"


HEAD = "| Case | Nodes | Least known | Bytes | Checks | Sweep | Seconds |\n|---|---|---|---|---|---|---|"


def test_cases(tmp_path, say):
    chosen = [folder for folder in folders("CRUX_CASES_BENCH") if _meta(folder)["package"] == "onnxruntime"]
    say(f"\n{HEAD}")
    for name, model, inputs in (each for folder in chosen for each in models(folder)):
        done = reduce_quietly(model, inputs, tmp_path / name)
        least = _meta(model.parent).get("known_minimal_ops")
        say(row(name, done, least) if done else f"| {name} | is no bug of this release |")


def test_fuzzed_failures(tmp_path, say):
    checks, more, yields = [], [], []
    for folder in folders("CRUX_FAILURES_BENCH"):
        meta = _meta(folder)
        now = (meta.get("by_version") or {}).get("1.31.1", {}).get("status")
        if meta["package"] != "onnxruntime" or meta["verdict"] != "bug" or now != "same":
            continue
        done = reduce_quietly(folder / "model.onnx", folder / "inputs.npz", tmp_path / folder.name)
        if done is None or done.after.nodes > len(meta["reduced_ops"]):
            more.append(folder.name)
        if done is not None:
            checks.append(done.checks)
            yields.append(done.asked)
    median = statistics.median(checks)
    say(
        f"\n{len(checks)} failures: median {median} checks, most {max(checks)}; more nodes than known: {more}"
    )
    say("\n".join(yields_of(yields)))


def yields_of(reductions: list[Mapping[str, MoveBenefit]]) -> Iterator[str]:
    """A line a move: what it asked and found in all of them, and what `MEASURED` has."""
    for move in sorted({name for each in reductions for name in each}):
        own = [each[move] for each in reductions if move in each]
        runs = sorted(each.run for each in own if each.found)
        run = runs[math.ceil(0.98 * len(runs)) - 1] if runs else 0
        asked, found = sum(each.asked for each in own), sum(each.found for each in own)
        yield f"{move}: {MoveBenefit(asked, found, run)} of {len(own)}, written: {MEASURED.get(move)}"


def test_three_gigabytes_of_weights(tmp_path, say):
    write_large_model(tmp_path)
    start = time.monotonic()
    done = reduce_quietly(tmp_path / "model.onnx", None, tmp_path / "out")
    assert done is not None
    say(f"\n{HEAD}\n{row('3 GB', done, ['Relu', 'Clip'])}")
    say(f"{time.monotonic() - start:.0f} s in all")


def write_large_model(folder: Path) -> None:
    """A chain of a thousand layers, 3 GB of weights, and Relu with Clip in float64 in the middle."""
    weight = (np.random.default_rng(0).standard_normal((WIDTH, WIDTH)) * 0.01).astype(np.float32).tobytes()
    nodes, tensors, name = [], [], "x"
    with (folder / "weights.bin").open("wb") as file:
        for layer in range(LAYERS):
            made = f"/layer.{layer}/out"
            if layer % 5 == 2 and len(tensors) < WEIGHTS:
                tensors.append(_external(f"w{layer}", file.tell(), len(weight)))
                file.write(weight)
                nodes.append(helper.make_node("MatMul", [name, f"w{layer}"], [made]))
            elif layer == LAYERS // 2:
                nodes += [
                    helper.make_node("Cast", [name], ["wide"], to=TensorProto.DOUBLE),
                    helper.make_node("Relu", ["wide"], ["positive"]),
                    helper.make_node("Clip", ["positive", "low"], ["clipped"]),
                    helper.make_node("Cast", ["clipped"], [made], to=TensorProto.FLOAT),
                ]
            else:
                nodes.append(
                    helper.make_node(("Relu", "Tanh", "Abs", "Neg", "Sigmoid")[layer % 5], [name], [made])
                )
            name = made
    tensors.append(numpy_helper.from_array(np.array(0.5), "low"))
    sides = [helper.make_tensor_value_info(each, TensorProto.FLOAT, [4, WIDTH]) for each in ("x", name)]
    graph = helper.make_graph(nodes, "large", sides[:1], sides[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "model.onnx")


def _external(name: str, offset: int, length: int) -> TensorProto:
    tensor = TensorProto(data_type=TensorProto.FLOAT, dims=[WIDTH, WIDTH], name=name)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "weights.bin"), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def _meta(folder: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((folder / "meta.json").read_text())
    return facts
