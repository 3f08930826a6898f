"""Eleven planted bugs, reduced by crux and by polygraphy in the same run; printed, never asserted.

`CRUX_REDUCE_BENCH` names the folder of the benchmark: `make_models.py`, `oracle.py` and the runners
`run_cmd.py` and `run_polygraphy.py`. Models and results go to `BENCH_OUT`, else to a temporary folder.
Polygraphy is installed into an environment of its own, and left out where it cannot be had.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3600)]

BENCH = Path(os.environ.get("CRUX_REDUCE_BENCH", "/nowhere"))
PEERS = ("polygraphy==0.53.6", "onnx_graphsurgeon")
CRUX = Path(sys.executable).with_name("crux")
Row = Mapping[str, Any]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (BENCH / "run_cmd.py").is_file():
        pytest.skip("CRUX_REDUCE_BENCH does not name the benchmark's folder")
    folder = Path(os.environ.get("BENCH_OUT") or tmp_path_factory.mktemp("bench"))
    if not list((folder / "models").glob("*.onnx")):
        run(folder, sys.executable, BENCH / "make_models.py")
    return folder


def run(out: Path, *command: object) -> None:
    environment = {**os.environ, "BENCH_OUT": str(out)}
    subprocess.run([str(part) for part in command], env=environment, check=True, stdout=subprocess.DEVNULL)


def test_crux_beside_polygraphy(
    out: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = run_crux(out)
    theirs = run_polygraphy(out, tmp_path_factory.mktemp("peer"))
    with capsys.disabled():
        print()
        print_table("crux", ours)
        for mode in ("bisect", "linear"):
            rows = [row for row in theirs if row["tool"] == f"polygraphy-{mode}"]
            print_table(f"polygraphy {mode}", rows)
            print_ratios(ours, rows)
    assert len(ours) == 11


def run_crux(out: Path) -> list[Row]:
    reduce = f'{CRUX} reduce {{model}} -o ./reduced --check "{{oracle}} {{{{}}}}"'
    line = f"{reduce} && cp ./reduced/model.onnx {{out}}"
    run(out, sys.executable, BENCH / "run_cmd.py", "--name", "crux", "--cmd", line)
    rows: list[Row] = json.loads((out / "results" / "crux_cheap.json").read_text())
    return [{**row, "last": _last_accepted(out, row)} for row in rows]


def _last_accepted(out: Path, row: Row) -> int:
    """The check of the last step; the failure is shown once more at the end."""
    facts = json.loads(
        (out / "runs" / f"crux_cheap_{row['case']}" / "reduced" / "reduction.json").read_text()
    )
    return max((int(step["check"]) for step in facts["steps"]), default=1)


def run_polygraphy(out: Path, folder: Path) -> list[Row]:
    """Its rows, none where it cannot be installed; it sees the packages of this environment."""
    run(out, sys.executable, "-m", "venv", folder)
    python = folder / "bin" / "python"
    installed = subprocess.run([python, "-m", "pip", "install", "-q", *PEERS], check=False)
    if installed.returncode:
        return []
    place = subprocess.check_output(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
    )
    Path(place.strip(), "ours.pth").write_text(sysconfig.get_path("purelib"))
    run(out, python, BENCH / "run_polygraphy.py", "--modes", "bisect,linear")
    rows: list[Row] = json.loads((out / "results" / "polygraphy_cheap.json").read_text())
    return [{**row, "last": _last_yes(out, row)} for row in rows]


def _last_yes(out: Path, row: Row) -> int:
    mode = str(row["tool"]).removeprefix("polygraphy-")
    log = out / "runs" / f"poly_cheap_{row['case']}_{mode}" / "log.jsonl"
    answers = [json.loads(line)["r"] for line in log.read_text().splitlines()] if log.exists() else []
    return max((at for at, answer in enumerate(answers, 1) if answer), default=0)


COLUMNS = ("case", "from", "nodes", "least", "last", "calls", "invalid", "bytes", "elements", "seconds")


def print_table(name: str, rows: Sequence[Row]) -> None:
    print(f"\n{name}\n" + " ".join(f"{column:>12}" for column in COLUMNS))
    for row in rows:
        final = row.get("final", {})
        cells = (row["case"], row["n0"], final.get("nodes"), row["ideal"], row["last"], row["calls"])
        rest = (row["invalid"], final.get("bytes"), final.get("input_elems"), row["wall"])
        print(" ".join(f"{cell!s:>12}" for cell in (*cells, *rest)), row["err"])
    print("sum of calls to the last accepted change:", sum(row["last"] for row in rows))
    few = sum(row["last"] for row in rows if row["case"] not in ("ancestor200", "count24"))
    print("the same without ancestor200 and count24:", few)


def print_ratios(ours: Sequence[Row], theirs: Sequence[Row]) -> None:
    """How many times more polygraphy leaves and asks."""
    peers = {row["case"]: row for row in theirs if "final" in row}
    for row in ours:
        if row["case"] in peers and "final" in row:
            peer = peers[row["case"]]
            ratios = {
                key: peer["final"][key] / max(row["final"][key], 1)
                for key in ("nodes", "bytes", "input_elems")
            }
            ratios["calls"] = peer["calls"] / row["calls"]
            print(f"{row['case']:>12} " + ", ".join(f"{key} {ratio:.1f}x" for key, ratio in ratios.items()))
