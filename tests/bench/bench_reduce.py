"""Eleven planted bugs, reduced by crux, polygraphy and torch's fx minifier; printed, never asserted.

`CRUX_REDUCE_BENCH` names the folder of the benchmark: `make_models.py`, `oracle.py` and the runners
`run_cmd.py`, `run_polygraphy.py` and `run_fx.py`. Models and results go to `BENCH_OUT`, else to a temporary
folder. Polygraphy is installed into an environment of its own, and left out where it cannot be had.
`CRUX_REDUCE_FX_SECONDS` is what the fx minifier gets for a case.
"""

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3600)]

BENCH = Path(os.environ.get("CRUX_REDUCE_BENCH", "/nowhere"))
PEERS = ("polygraphy==0.53.6", "onnx_graphsurgeon")
CRUX = Path(sys.executable).with_name("crux")
FX_SECONDS = os.environ.get("CRUX_REDUCE_FX_SECONDS", "60")
Row = Mapping[str, Any]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    if not (BENCH / "run_cmd.py").is_file():
        pytest.skip("CRUX_REDUCE_BENCH does not name the benchmark's folder")
    folder = Path(os.environ.get("BENCH_OUT") or tmp_path)
    if not list((folder / "models").glob("*.onnx")):
        run(folder, sys.executable, BENCH / "make_models.py")
    return folder


def run(out: Path, *command: object) -> None:
    environment = {**os.environ, "BENCH_OUT": str(out)}
    subprocess.run([str(part) for part in command], env=environment, check=True, stdout=subprocess.DEVNULL)


def results(out: Path, name: str) -> list[Row]:
    rows: list[Row] = json.loads((out / "results" / f"{name}.json").read_text())
    return rows


def crux(out: Path) -> Iterator[list[Row]]:
    reduce = f'{CRUX} reduce {{model}} -o ./reduced --check "{{oracle}} {{{{}}}}"'
    line = f"{reduce} && cp ./reduced/model.onnx {{out}}"
    run(out, sys.executable, BENCH / "run_cmd.py", "--name", "crux", "--cmd", line)
    yield results(out, "crux_cheap")


def polygraphy(out: Path) -> Iterator[list[Row]]:
    """In both of its modes, by an environment that sees this one's packages."""
    python = out / "peer" / "bin" / "python"
    run(out, sys.executable, "-m", "venv", out / "peer")
    if subprocess.run([python, "-m", "pip", "install", "-q", *PEERS], check=False).returncode:
        return
    (packages,) = (out / "peer" / "lib").glob("python*/site-packages")
    (packages / "ours.pth").write_text(sysconfig.get_path("purelib"))
    run(out, python, BENCH / "run_polygraphy.py", "--modes", "bisect,linear")
    rows = results(out, "polygraphy_cheap")
    for mode in ("bisect", "linear"):
        yield [row for row in rows if row["tool"] == f"polygraphy-{mode}"]


def fx(out: Path) -> Iterator[list[Row]]:
    """Translated to torch one to one; the case with a body is none that it can take."""
    run(out, sys.executable, BENCH / "run_fx.py", "--budget", FX_SECONDS)
    yield results(out, "fx_minifier")


@pytest.mark.parametrize("tool", [crux, polygraphy, fx])
def test_eleven_planted_bugs(tool, out, say):
    for rows in tool(out):
        say(f"\n{tool.__name__}: case, nodes, left, least, checks")
        for row in rows:
            left = row.get("final", {}).get("nodes")
            cells = (row["case"], row.get("n0"), left, row.get("ideal"), row.get("calls"))
            say(*(f"{cell!s:>12}" for cell in cells), row["err"])
