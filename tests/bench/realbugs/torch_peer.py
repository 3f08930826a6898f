"""`python -m tests.bench.realbugs.torch_peer OUT [ID…]` reduces the same scripts by torch's own minifier.

`OUT` is a folder of `score`. Each script calls its compiled model with `TORCHDYNAMO_REPRO_AFTER=dynamo`, at
the level that compares accuracy for wrong values; the launcher that torch leaves is run, for
`CRUX_PEER_SECONDS` of wall time at most. Nodes are the calls of the smallest module that it has written.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.bench.realbugs.bugs import BUGS
from tests.bench.realbugs.torch_host import TorchBug

SECONDS = float(os.environ.get("CRUX_PEER_SECONDS", "300"))
CALLS = "import torch._dynamo.config\ntorch.compile(model, fullgraph=True)(*inputs)\n"
QUERY = re.compile(r"^(?:SUCCESS|FAIL): Went from|^Made (\d+) queries", re.M)


def main(out: Path, ids: list[str]) -> None:
    """Print a row for each bug of torch's compiler: nodes and queries of the minifier, beside crux's."""
    print("| bug | crux | torch's minifier |\n|---|---|---|")
    for bug in BUGS:
        row = out / bug.id / "row.json"
        is_asked = isinstance(bug, TorchBug) and bug.target == "inductor" and (not ids or bug.id in ids)
        if is_asked and row.exists():
            ours = json.loads(row.read_text())
            left = f"{ours.get('reduce.nodes')} nodes, {ours.get('reduce.checks')} checks"
            print(f"| {bug.id} | {left} | {minified(bug, out / bug.id)} |", flush=True)


def minified(bug: TorchBug, folder: Path) -> str:
    """What torch's minifier leaves of a script, and how often it asked."""
    work = (folder / "peer").absolute()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    (work / "run.py").write_text((folder / "model.py").read_text() + CALLS)
    level = "4" if bug.outcome == "mismatch" else "2"
    environment = {
        **os.environ,
        "TORCHDYNAMO_REPRO_AFTER": "dynamo",
        "TORCHDYNAMO_REPRO_LEVEL": level,
        "TORCH_COMPILE_DEBUG_DIR": str(work),
    }
    _run(work / "run.py", work, environment)
    launchers = sorted(work.rglob("minifier_launcher.py"))
    if not launchers:
        return "sees no failure"
    said = _run(launchers[0], work, environment)
    written = [*work.rglob("repro.py"), *(each for each in work.rglob("*.py") if "checkpoints" in each.parts)]
    sizes = [size for each in written if (size := nodes_of(each.read_text()))]
    asked = QUERY.findall(said)
    queries = next((number for number in asked if number), f"over {len(asked)}")
    return f"{min(sizes)} nodes, {queries} queries" if sizes else f"nothing written, {queries} queries"


def nodes_of(text: str) -> int:
    """The assignments of a dumped module's forward that are no placeholders: its calls."""
    _, _, body = text.partition("def forward(")
    return len(re.findall(r"^        \w+ = .*\(", body.partition("\n        return")[0], re.M))


def _run(script: Path, folder: Path, environment: dict[str, str]) -> str:
    try:
        done = subprocess.run(
            [sys.executable, script], cwd=folder, env=environment, capture_output=True, text=True,
            timeout=SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        return (error.stdout or b"").decode() + (error.stderr or b"").decode()
    return done.stdout + done.stderr


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
