"""`python -m tests.bench.realbugs.peers OUT [ID…]` reduces the same models by what else people have.

Polygraphy's `debug reduce` by bisection, and onnx's extractor with bisection over the nodes' order. Both ask
one process on the bug's release, and are given the recorded values of what they cut; each may take
`CRUX_PEER_SECONDS` of CPU time a bug. `OUT` is a folder of `score`, whose table takes the results;
`OUT/peers.md` says who is ahead, bug by bug.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx.utils import Extractor

from tests.bench.realbugs.bug import Bug
from tests.bench.realbugs.bugs import BUGS
from tests.bench.realbugs.score import PEERS, Row, python_of, table, told

WANTED = ("polygraphy==0.53.6", "onnx_graphsurgeon")
SERVER = Path(__file__).with_name("peer_server.py")
SECONDS = float(os.environ.get("CRUX_PEER_SECONDS", "60"))


def main(out: Path, ids: list[str]) -> None:
    """Print a row for each bug: nodes, checks and CPU seconds of each tool, beside crux's."""
    tools = _installed(out / "tools")
    named = {"polygraphy bisect": _by_polygraphy(tools / "polygraphy"), "extractor": _by_extractor}
    for name, tool in named.items():
        for bug in BUGS:
            row = out / bug.id / "row.json"
            if row.exists() and bug.target == "ort" and (not ids or bug.id in ids):
                _ask(bug, out / bug.id, name, tool)
    lines = compared(out, list(named))
    (out / "peers.md").write_text(table(lines))
    print(table(lines))


def _ask(bug: Bug, folder: Path, name: str, tool: Tool) -> None:
    """Let a tool reduce a bug's model, unless it has."""
    kept = folder / PEERS
    left = json.loads(kept.read_text()) if kept.exists() else {}
    if name not in left:
        left[name] = _reduced(bug, folder, tool)
        kept.write_text(json.dumps(left))
        print(bug.id, name, told(left[name]), flush=True)


COUNTED = {"nodes": 0, "checks": 1, "CPU s": 2}


def compared(out: Path, tools: Sequence[str]) -> list[list[str]]:
    """By tool on how many bugs it leaves the least, and by column how often crux is ahead, equal, behind.

    Checks and seconds are compared where both left the same number of nodes.
    """
    found = {bug.id: out / bug.id for bug in BUGS if (out / bug.id / PEERS).exists()}
    rows = {name: json.loads((folder / "row.json").read_text()) for name, folder in found.items()}
    left = {name: json.loads((folder / PEERS).read_text()) for name, folder in found.items()}
    lines = [["tool", "bugs", "at least", *(f"crux {word}: {key}" for key in COUNTED for word in WORDS)]]
    least = sum(row["reduce.is_least"] for row in rows.values())
    lines.append(["crux", str(len(rows)), str(least), *[""] * len(lines[0][3:])])
    for tool in tools:
        pairs = [(row, left[name][tool]) for name, row in rows.items() if tool in left[name]]
        least = sum(nodes is not None and nodes <= row["reduce.least"] for row, (nodes, *_) in pairs)
        lines.append(
            [tool, str(len(pairs)), str(least), *_shares([(_ours(row), other) for row, other in pairs])]
        )
    return lines


def _ours(row: Row) -> list[Any]:
    return [row.get(f"reduce.{key}") for key in ("nodes", "checks", "cpu")]


WORDS = ("ahead", "equal", "behind")
MOST = 1 << 30


def _shares(pairs: Sequence[tuple[Sequence[Any], Sequence[Any]]]) -> Iterator[str]:
    for at in COUNTED.values():
        fair = [(one, other) for one, other in pairs if at == 0 or one[0] == other[0] is not None]
        gaps = [
            (MOST if other[at] is None else other[at]) - (MOST if one[at] is None else one[at])
            for one, other in fair
        ]
        yield from (
            str(sum(gap > 0 for gap in gaps)),
            str(sum(gap == 0 for gap in gaps)),
            str(sum(gap < 0 for gap in gaps)),
        )


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


@dataclass(frozen=True)
class Work:
    """What a tool is given: a folder, the script that asks of a model, and what ends it at the bound."""

    folder: Path
    script: Path
    ask: Callable[[Path], bool]
    server: int

    def run(self, command: Sequence[str | Path]) -> bool:
        """Whether a program ended by itself within the bound, with what it has the server do."""
        before = _spent(self.server) + time.process_time()
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(command, cwd=self.folder, start_new_session=True, **quiet)  # type: ignore[call-overload]
        while process.poll() is None:
            if _spent(process.pid) + _spent(self.server) + time.process_time() - before > SECONDS:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return False
            time.sleep(0.1)
        return True


def _spent(process: int) -> float:
    """The CPU seconds of a process and of its children that ended."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


Tool = Callable[[Path, Work], Path | None]


def _reduced(bug: Bug, folder: Path, tool: Tool) -> tuple[int | None, int, float, str]:
    """The nodes that a tool leaves of a bug's model, its questions, CPU seconds, and how it ended."""
    work = (folder / "peer").absolute()
    work.mkdir(exist_ok=True)
    np.savez(work / "values.npz", **_values(folder))
    with _asked(bug, folder, work) as given:
        before = sum(os.times()[:4]) + _spent(given.server)
        left = tool((folder / "model.onnx").absolute(), given)
        spent = sum(os.times()[:4]) + _spent(given.server) - before
    checks = len((work / "log").read_text().splitlines())
    size = len(onnx.load(left).graph.node) if left is not None and left.exists() else None
    return size, checks, round(spent, 1), "stopped" if spent >= SECONDS else ""


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
def _asked(bug: Bug, folder: Path, work: Path) -> Iterator[Work]:
    """A process on the bug's release that says of a model whether it fails in the same way."""
    for name in ("question", "answer", "log"):
        (work / name).unlink(missing_ok=True)
    os.mkfifo(work / "question")
    os.mkfifo(work / "answer")
    (work / "log").touch()
    (work / "ask.sh").write_text(f'echo "$1" > {work}/question; read r < {work}/answer; exit $r\n')
    other = python_of(bug, bug.against) if bug.against else sys.executable
    command = [
        python_of(bug, bug.release),
        SERVER,
        work,
        (folder / "model.onnx").absolute(),
        bug.outcome,
        other,
    ]

    def ask(path: Path) -> bool:
        return subprocess.run(["sh", work / "ask.sh", path], check=False).returncode == 1

    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:
        try:
            ask(folder.absolute() / "model.onnx")  # the server has started by then
            (work / "log").write_text("")
            yield Work(work, work / "ask.sh", ask, server.pid)
        finally:
            server.kill()


def _by_polygraphy(tool: Path) -> Tool:
    def reduce(model: Path, work: Work) -> Path | None:
        left = work.folder / "polygraphy.onnx"
        left.unlink(missing_ok=True)
        command = [tool, "debug", "reduce", model, "-o", left, "--mode", "bisect", "--hide-fail-output"]
        check = ["--check", "sh", work.script, "polygraphy_debug.onnx"]
        return left if work.run([*command, *check]) else None

    return reduce


def _by_extractor(model: Path, work: Work) -> Path | None:
    """The shortest beginning that fails, then its shortest end, each by bisection."""
    whole = onnx.load(model)
    extractor, nodes = Extractor(onnx.shape_inference.infer_shapes(whole)), list(whole.graph.node)
    weights = {each.name for each in whole.graph.initializer}

    def saved(first: int, last: int) -> Path:
        made = {name for node in nodes[first : last + 1] for name in node.output}
        read = {name for node in nodes[first : last + 1] for name in node.input if name} - made
        part = extractor.extract_model(sorted(read - weights), [name for name in nodes[last].output if name])
        path = work.folder / "part.onnx"
        onnx.save(part, path)
        return path

    low, high = 0, len(nodes) - 1
    try:
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if work.ask(saved(0, middle)) else (middle + 1, high)
        last, low, high = high, 0, high
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if work.ask(saved(middle, last)) else (low, middle - 1)
        return saved(low, last) if work.ask(saved(low, last)) else None
    except Exception:  # whatever the extractor cannot cut
        return None


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
