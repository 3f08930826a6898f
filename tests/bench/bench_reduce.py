"""Eleven planted bugs, reduced by crux, polygraphy and torch's fx minifier; printed, never asserted.

`CRUX_REDUCE_BENCH` names the folder of the benchmark: `make_models.py`, `oracle.py` and the runners
`run_cmd.py`, `run_polygraphy.py` and `run_fx.py`. Models and results go to `BENCH_OUT`, else to a temporary
folder. Polygraphy is installed into an environment of its own, and left out where it cannot be had.
`CRUX_REDUCE_FX_SECONDS` is what the fx minifier gets for a case, `CRUX_REDUCE_TIMED` the cases that are timed
with an onnxruntime session in each check.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.bench.bench_reduce_kinds import left

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3600)]

BENCH = Path(os.environ.get("CRUX_REDUCE_BENCH", "/nowhere"))
PEERS = ("polygraphy==0.53.6", "onnx_graphsurgeon")
CRUX = Path(sys.executable).with_name("crux")
IN_PROCESS = Path(__file__).with_name("reduce_in_process.py")
FX_SECONDS = os.environ.get("CRUX_REDUCE_FX_SECONDS", "60")
TIMED = os.environ.get("CRUX_REDUCE_TIMED", "chain300,pair200,shapes").split(",")
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


def test_crux_beside_polygraphy(out, polygraphy, capsys):
    ours = run_crux(out)
    theirs = run_polygraphy(out, polygraphy) if polygraphy else []
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
    return [{**row, **_facts(out / "runs" / f"crux_cheap_{row['case']}" / "reduced")} for row in rows]


def _facts(reduced: Path) -> Row:
    """The check of the last step, those after it, and the bound of these."""
    facts = json.loads((reduced / "reduction.json").read_text())
    last = max((int(step["check"]) for step in facts["steps"]), default=1)
    return {
        "last": last,
        "sweep": facts["sweep_checks"],
        "bound": 3 * left(onnx.load(reduced / "model.onnx")),
    }


@pytest.fixture(scope="module")
def polygraphy(out: Path, tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """An interpreter that has it; None where it cannot be installed. It sees this environment's packages."""
    folder = tmp_path_factory.mktemp("peer")
    run(out, sys.executable, "-m", "venv", folder)
    python = folder / "bin" / "python"
    installed = subprocess.run([python, "-m", "pip", "install", "-q", *PEERS], check=False)
    if installed.returncode:
        return None
    place = subprocess.check_output(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
    )
    Path(place.strip(), "ours.pth").write_text(sysconfig.get_path("purelib"))
    return python


def run_polygraphy(out: Path, python: Path) -> list[Row]:
    run(out, python, BENCH / "run_polygraphy.py", "--modes", "bisect,linear")
    rows: list[Row] = json.loads((out / "results" / "polygraphy_cheap.json").read_text())
    return [{**row, "last": _last_yes(out, row)} for row in rows]


def _last_yes(out: Path, row: Row) -> int:
    mode = str(row["tool"]).removeprefix("polygraphy-")
    log = out / "runs" / f"poly_cheap_{row['case']}_{mode}" / "log.jsonl"
    answers = [json.loads(line)["r"] for line in log.read_text().splitlines()] if log.exists() else []
    return max((at for at, answer in enumerate(answers, 1) if answer), default=0)


def test_crux_beside_the_fx_minifier(out, say):
    """Translated to torch one to one; the case with a body is none that it can take."""
    run(out, sys.executable, BENCH / "run_fx.py", "--budget", FX_SECONDS)
    rows: list[Row] = json.loads((out / "results" / "fx_minifier.json").read_text())
    say(f"\nfx minifier, at most {FX_SECONDS} s a case")
    for row in rows:
        final = row.get("final", {})
        cells = (row["case"], row.get("n0"), final.get("nodes"), row.get("ideal"), row.get("calls"))
        say(*(f"{cell!s:>12}" for cell in (*cells, final.get("input_elems"), row.get("err"))))


def test_times_with_a_session_in_each_check(out, polygraphy, say):
    """Whole processes, from start to end, in turns: seconds by the wall and of CPU."""
    say(f"\n{'case':>12} {'crux':>18} {'polygraphy bisect':>18}   times")
    for case in TIMED:
        ours = _timed(out, *_our_command(out, case))
        theirs = _timed(out, *_their_command(polygraphy, case)) if polygraphy else (0.0, 0.0)
        ratios = ", ".join(f"{their / our:.1f}" for our, their in zip(ours, theirs, strict=True))
        cells = (f"{wall:.1f} s, {cpu:.1f} CPU" for wall, cpu in (ours, theirs))
        say(f"{case:>12}", *(f"{cell:>18}" for cell in cells), f"  {ratios}")


def _our_command(out: Path, case: str) -> tuple[object, ...]:
    reduced = out / "runs" / f"timed_{case}"
    shutil.rmtree(reduced, ignore_errors=True)
    return sys.executable, IN_PROCESS, BENCH, case, out / "models" / f"{case}.onnx", reduced


def _their_command(python: Path, case: str) -> tuple[object, ...]:
    return python, BENCH / "run_polygraphy.py", "--backend", "ort", "--modes", "bisect", "--cases", case


def _timed(out: Path, *command: object) -> tuple[float, float]:
    """Wall and CPU seconds of a command and all that it waited for."""
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    run(out, *command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - start, cpu


COLUMNS = ("case", "from", "nodes", "least", "last", "calls", "sweep", "bound")
COLUMNS += ("invalid", "bytes", "elements", "seconds")


def print_table(name: str, rows: Sequence[Row]) -> None:
    print(f"\n{name}\n" + " ".join(f"{column:>12}" for column in COLUMNS))
    for row in rows:
        final = row.get("final", {})
        cells = (row["case"], row["n0"], final.get("nodes"), row["ideal"], row["last"], row["calls"])
        rest = (
            row.get("sweep"),
            row.get("bound"),
            row["invalid"],
            final.get("bytes"),
            final.get("input_elems"),
            row["wall"],
        )
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
