"""`python -m tests.bench.realbugs.peers OUT [ID…]` reduces the same models by what else people have.

Polygraphy's `debug reduce`, in both modes or those of `CRUX_PEER_MODES`, onnx's extractor with bisection
over the nodes' order, and Shrink Ray over the model's text. All ask one process on the bug's release, and are
given the recorded values of what they cut. `OUT` is a folder of `score`, whose table takes the results.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx.utils import Extractor

from tests.bench.realbugs.bug import Bug
from tests.bench.realbugs.bugs import BUGS
from tests.bench.realbugs.score import PEERS, python_of

WANTED = ("polygraphy==0.53.6", "onnx_graphsurgeon", "shrinkray")
SERVER = Path(__file__).with_name("peer_server.py")
SECONDS = float(os.environ.get("CRUX_PEER_SECONDS", "900"))
MODES = os.environ.get("CRUX_PEER_MODES", "bisect,linear").split(",")


def main(out: Path, ids: list[str]) -> None:
    """Print a row for each bug: nodes and checks of each tool, beside crux's."""
    tools = _installed(out / "polygraphy")
    polygraphy, shrinkray = tools / "polygraphy", tools / "shrinkray"
    named = {
        **{f"polygraphy {mode}": _by_polygraphy(polygraphy, mode) for mode in MODES},
        "extractor": _by_extractor,
        "Shrink Ray": _by_shrink_ray(shrinkray),
    }
    heads = ["bug", "crux", *named]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for bug in BUGS:
        row = out / bug.id / "row.json"
        if row.exists() and bug.target == "ort" and (not ids or bug.id in ids):
            ours = json.loads(row.read_text())
            left = {name: _reduced(bug, out / bug.id, tool) for name, tool in named.items()}
            (out / bug.id / PEERS).write_text(json.dumps(left))
            cells = [f"{ours.get('reduce.nodes')} nodes, {ours.get('reduce.checks')} checks", *left.values()]
            print(f"| {bug.id} | {' | '.join(cells)} |", flush=True)


def _installed(folder: Path) -> Path:
    """The folder of programs of an environment with the tools, which sees this one's packages."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *WANTED], check=True)
        ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
        place = subprocess.check_output([python, "-c", ask], text=True).strip()
        Path(place, "ours.pth").write_text(sysconfig.get_path("purelib"))
    return folder.absolute() / "bin"


Ask = Callable[[Path], bool]
Tool = Callable[[Path, Path, Path, Ask], Path | None]


def _reduced(bug: Bug, folder: Path, tool: Tool) -> str:
    """What a tool leaves of a bug's model and how often it asked."""
    work = (folder / "peer").absolute()
    work.mkdir(exist_ok=True)
    np.savez(work / "values.npz", **_values(folder))
    with _asked(bug, folder, work) as ask:
        left = tool((folder / "model.onnx").absolute(), work, work / "ask.sh", ask)
    checks = len((work / "log").read_text().splitlines())
    size = str(len(onnx.load(left).graph.node)) if left is not None and left.exists() else "no"
    return f"{size} nodes, {checks} checks"


def _values(folder: Path) -> dict[str, np.ndarray]:
    """The inputs, and every tensor of the un-optimised model as far as a present release can tell."""
    inputs = dict(np.load(folder / "inputs.npz"))
    model = onnx.load(folder / "model.onnx")
    names = [name for node in model.graph.node for name in node.output if name]
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        found = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, inputs)
    except Exception:  # the bug is there still, or what shows it is refused
        return inputs
    return {**inputs, **dict(zip(names, found, strict=True))}


@contextmanager
def _asked(bug: Bug, folder: Path, work: Path) -> Iterator[Ask]:
    """A process on the bug's release that says of a model whether it fails in the same way."""
    for name in ("question", "answer", "log"):
        (work / name).unlink(missing_ok=True)
    os.mkfifo(work / "question")
    os.mkfifo(work / "answer")
    (work / "log").touch()
    (work / "ask.sh").write_text(f'echo "$1" > {work}/question; read r < {work}/answer; exit $r\n')
    command = [python_of(bug, bug.release), SERVER, work, (folder / "model.onnx").absolute()]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:
        try:
            yield lambda path: subprocess.run(["sh", work / "ask.sh", path], check=False).returncode == 1
        finally:
            server.kill()


def _by_polygraphy(tool: Path, mode: str) -> Tool:
    def reduce(model: Path, work: Path, script: Path, ask: Ask) -> Path | None:
        left = work / f"{mode}.onnx"
        left.unlink(missing_ok=True)
        command = [tool, "debug", "reduce", model, "-o", left, "--mode", mode, "--hide-fail-output"]
        check = ["--check", "sh", script, "polygraphy_debug.onnx"]
        try:
            subprocess.run([*command, *check], cwd=work, capture_output=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return None
        return left

    return reduce


TEXT = """
import subprocess, sys
import onnx.parser
try:
    model = onnx.parser.parse_model(sys.stdin.read())
    onnx.checker.check_model(model, full_check=True)
except Exception:
    sys.exit(2)
onnx.save(model, "text.onnx")
sys.exit(subprocess.run(["sh", "ask.sh", "text.onnx"]).returncode != 1)
"""
"""Exits with 0 where the text of a model that onnx's checker takes fails in the same way."""


def _by_shrink_ray(tool: Path) -> Tool:
    """The least text, by a reducer that knows no models."""

    def reduce(model: Path, work: Path, script: Path, ask: Ask) -> Path | None:
        (work / "text.py").write_text(TEXT)
        (work / "model.txt").write_text(onnx.printer.to_text(onnx.load(model)))
        test, left_text = work / "text.sh", work / "left.txt"
        left_text.unlink(missing_ok=True)
        test.write_text(f"#!/bin/sh\ncd {work} && exec {sys.executable} text.py\n")
        test.chmod(0o755)
        command = [tool, "--parallelism", "1", "--timeout", "20", "--target", left_text, test]
        with suppress(subprocess.TimeoutExpired):  # the best so far lies in the file by then
            command = [*command, work / "model.txt"]
            subprocess.run(command, cwd=work, capture_output=True, timeout=SECONDS, check=False)
        if not left_text.exists():
            return None
        left = work / "text-left.onnx"
        onnx.save(onnx.parser.parse_model(left_text.read_text()), left)
        return left

    return reduce


def _by_extractor(model: Path, work: Path, script: Path, ask: Ask) -> Path | None:
    """The shortest beginning that fails, then its shortest end, each by bisection."""
    whole = onnx.load(model)
    extractor, nodes = Extractor(onnx.shape_inference.infer_shapes(whole)), list(whole.graph.node)
    weights = {each.name for each in whole.graph.initializer}

    def saved(first: int, last: int) -> Path:
        made = {name for node in nodes[first : last + 1] for name in node.output}
        read = {name for node in nodes[first : last + 1] for name in node.input if name} - made
        part = extractor.extract_model(sorted(read - weights), [name for name in nodes[last].output if name])
        path = work / "part.onnx"
        onnx.save(part, path)
        return path

    low, high = 0, len(nodes) - 1
    try:
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if ask(saved(0, middle)) else (middle + 1, high)
        last, low, high = high, 0, high
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if ask(saved(middle, last)) else (low, middle - 1)
        return saved(low, last) if ask(saved(low, last)) else None
    except Exception:  # whatever the extractor cannot cut
        return None


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
