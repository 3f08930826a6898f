"""A reduction that is killed goes on where it was, and ends with the same bytes."""

import json
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpus.case import Case
from corpus.errors import UserError
from reducer.api import finished, reduce_case
from reducer.course import CONFIRMATIONS, DoesNotFail, Options
from tests.helpers.commands import completed
from tests.helpers.models import contents
from tests.reducer.driving import case_of, model_of

REDUCE = Path(__file__).with_name("killed.py")
CHECK = """
import sys, time
program = open(sys.argv[1], "rb").read()
time.sleep(0.01)
sys.exit(not (b"Sin" in program and b"Exp" in program))
"""


def network() -> Case:
    """Relu and Clip of float64, whose fusion onnxruntime refuses; far from them, Sin and Exp."""
    nodes = [f"v{at + 1} = {operator} (v{at})" for at, operator in enumerate(OPERATORS)]
    edges = f"(double[2,3] v0) => (double[2,3] v{len(OPERATORS)})"
    text = f"g {edges} <double low = {{0.5}}> {{ {' '.join(nodes)} }}"
    text = text.replace("Clip (v18)", "Clip (v18, low)")
    return case_of(model_of(text), {"v0": np.linspace(-1, 1, 6).reshape(2, 3)})


def network_with_weights() -> Case:
    """A wrong value amid weights: onnxruntime folds a Pad by zeros into a MaxPool of negative numbers."""
    text = (
        "g (float[1,2,5] x) => (float[1,2,2] y) <float[2,1] w = {0.5, 2}, float[5] b = {-1, -2, -3, -4, -5},"
        " float[3,2] m = {1, 0.5, -1, 0.25, 2, -0.5}, int64[6] pads = {0, 0, 0, 0, 0, 1}> {"
        " s = Mul (x, w) t = Add (s, b) p = Pad (t, pads) q = MaxPool <kernel_shape = [2], strides = [2]> (p)"
        " r = Tanh (q) y = MatMul (r, m) }"
    )
    return case_of(model_of(text), {"x": np.linspace(-1, -0.1, 10, dtype=np.float32).reshape(1, 2, 5)})


OPERATORS = [
    *(["Neg", "Abs"] * 4 + ["Sin"]),
    *(["Neg", "Abs"] * 4 + ["Relu", "Clip"]),
    *(["Neg", "Abs"] * 4 + ["Exp", "Neg"]),
]


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("original") / "case"
    network().save(folder)
    return folder


@pytest.fixture(scope="module")
def cases(case: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """By kind of predicate."""
    weights = tmp_path_factory.mktemp("original") / "weights"
    network_with_weights().save(weights)
    return {"command": case, "ort": case, "mismatch": weights}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Mapping[str, Any]]:
    script = tmp_path_factory.mktemp("check") / "check.py"
    script.write_text(CHECK)
    return {
        "command": {"check": f"{shlex.quote(sys.executable)} -IS {shlex.quote(str(script))} {{}}"},
        "ort": {},
        "mismatch": {},
    }


Undisturbed = Mapping[str, tuple[Mapping[str, bytes], Mapping[str, Any], float]]


@pytest.fixture(scope="module")
def undisturbed(
    cases: Mapping[str, Path],
    settings: Mapping[str, Mapping[str, Any]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Undisturbed:
    """By kind of predicate: the files of a run that nothing disturbed, what it said, its seconds."""
    runs = {}
    for kind, options in settings.items():
        out = tmp_path_factory.mktemp("undisturbed") / kind
        start = time.monotonic()
        done = reduce_in_process(cases[kind], out, options)
        runs[kind] = (contents(out), json.loads(done.stdout), time.monotonic() - start)
    return runs


def command(
    case: Path, out: Path, options: Mapping[str, Any], when: str = "never", number: int = 0
) -> list[str]:
    return [sys.executable, str(REDUCE), str(case), str(out), json.dumps(options), when, str(number)]


def reduce_in_process(
    case: Path, out: Path, options: Mapping[str, Any], when: str = "never", number: int = 0
) -> subprocess.CompletedProcess[str]:
    line = command(case, out, options, when, number)
    return completed(line, check=when == "never")


def same_as(out: Path, expected: Mapping[str, bytes]) -> None:
    found = contents(out)
    assert sorted(found) == sorted(expected)
    assert [name for name in expected if found[name] != expected[name]] == []


LEAST = {"command": ["Exp", "Sin"], "ort": ["Clip", "Relu"], "mismatch": ["MaxPool", "Pad"]}


@pytest.mark.parametrize("kind", LEAST)
def test_the_reduction_is_the_least_and_its_folder_complete(undisturbed, kind):
    written, said, _ = undisturbed[kind]
    assert set(written) == {"model.onnx", "inputs.npz", "case.json", "reduction.json", "journal.jsonl"}
    assert said["minimal"]
    assert sorted(said["ops"]) == LEAST[kind]


@pytest.mark.parametrize(
    ("kind", "jobs"),
    [
        pytest.param("command", 1, marks=pytest.mark.slow),
        pytest.param("command", 2, marks=pytest.mark.slow),
        ("ort", 1),
        pytest.param("ort", 2, marks=pytest.mark.slow),
    ],
)
def test_killed_after_some_checks_again_and_again(case, settings, undisturbed, tmp_path, kind, jobs):
    expected, said, _ = undisturbed[kind]
    options = {**settings[kind], "jobs": jobs}
    for number in (1, max(2, said["checks"] // 2)):
        killed = reduce_in_process(case, tmp_path / "out", options, "check", number)
        assert killed.returncode == -signal.SIGKILL
    again = reduce_in_process(case, tmp_path / "out", options)
    assert json.loads(again.stdout)["checks"] == said["checks"]
    same_as(tmp_path / "out", expected)


def test_killed_at_a_call_of_the_predicate(cases, settings, undisturbed, tmp_path):
    """A sample of the sweep below."""
    expected, said, _ = undisturbed["mismatch"]
    options = {**settings["mismatch"], "jobs": 2}
    killed_at(said["checks"] - 3, cases["mismatch"], tmp_path / "out", options, expected)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("kind", LEAST)
def test_killed_at_every_single_call_of_the_predicate(cases, settings, undisturbed, tmp_path, kind, jobs):
    expected, said, _ = undisturbed[kind]
    for number in range(1, said["checks"] + 1):
        out = tmp_path / str(number)
        killed_at(number, cases[kind], out, {**settings[kind], "jobs": jobs}, expected)


def killed_at(
    number: int, case: Path, out: Path, options: Mapping[str, Any], expected: Mapping[str, bytes]
) -> None:
    killed = reduce_in_process(case, out, options, "call", number)
    assert killed.returncode == -signal.SIGKILL
    assert finished(out) is None
    reduce_in_process(case, out, options)
    same_as(out, expected)


COUNTED = """
import hashlib, os, signal, sys, time
program, inputs = (open(path, "rb").read() for path in (sys.argv[2], sys.argv[2][:-10] + "inputs.npz"))
file = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(file, hashlib.sha256(program + inputs).hexdigest().encode() + b"\\n")
if os.fstat(file).st_size == 65 * int(sys.argv[3]):
    os.kill(int(os.environ["REDUCING"]), signal.SIGKILL)
time.sleep(0.02)
sys.exit(not (b"Sin" in program and b"Exp" in program))
"""
KILLS = (3, 12)
"""After how many calls in all; a line of what is noted has 65 bytes."""


def test_after_kills_nothing_is_asked_again_but_what_each_worker_was_at(case, tmp_path):
    """At each kill, and when the search ends, each worker is at one call; the result is asked again then.

    What is guessed may depend on how quick the answers come.
    """
    asked = calls(case, tmp_path / "killed", 2)
    assert len(asked) - len(set(asked)) <= 2 * (len(KILLS) + 1) + CONFIRMATIONS


def calls(case: Path, folder: Path, jobs: int) -> list[str]:
    """What the command itself noted as it was started, by all runs together."""
    folder.mkdir()
    script, noted = folder / "check.py", folder / "noted"
    script.write_text(COUNTED)
    line = shlex.join([sys.executable, "-IS", str(script), str(noted)])
    options = {"check": f"{line} {{}} $(cat {shlex.quote(str(folder / 'kill'))})", "jobs": jobs}
    for number in (*KILLS, 0):
        (folder / "kill").write_text(str(number))
        process = subprocess.run(command(case, folder / "out", options), check=False)
        assert process.returncode == (-signal.SIGKILL if number else 0)
    return noted.read_text().split()


@pytest.mark.slow
def test_killed_while_files_are_written(case, settings, undisturbed, tmp_path):
    """Whatever file was to be put in its place next, the one more run that follows ends the same."""
    expected, *_ = undisturbed["ort"]
    options = {**settings["ort"], "jobs": 2}
    number, was_killed = 1, True
    while was_killed:
        out = tmp_path / str(number)
        killed = reduce_in_process(case, out, options, "file", number)
        was_killed = killed.returncode == -signal.SIGKILL
        if finished(out) is None:
            reduce_in_process(case, out, options)
        same_as(out, expected)
        number += 1
    assert number > 3


def test_a_finished_reduction_run_again_asks_nothing_and_changes_nothing(
    case, settings, undisturbed, tmp_path
):
    expected, said, _ = undisturbed["command"]
    for name, content in expected.items():
        (tmp_path / name).write_bytes(content)
    script = Path(shlex.split(settings["command"]["check"])[2])
    text = script.read_text()
    script.write_text("import sys; sys.exit(77)")
    try:
        again = reduce_case(Case.load(case), tmp_path, Options(**settings["command"]))
    finally:
        script.write_text(text)
    assert again.to_json()["checks"] == said["checks"]
    same_as(tmp_path, expected)


OTHER = case_of(model_of("g (float[2] x) => (float[2] y) { y = Sin (x) }"))


@pytest.mark.parametrize(("other", "check"), [(OTHER, "true"), (network(), "false")], ids=["case", "options"])
def test_the_journal_of_another_case_or_with_other_options_is_refused(undisturbed, tmp_path, other, check):
    journal = undisturbed["command"][0]["journal.jsonl"]
    (tmp_path / "journal.jsonl").write_bytes(journal)
    with pytest.raises(UserError, match="another case or with other options"):
        reduce_case(other, tmp_path, Options(check=check))
    assert contents(tmp_path) == {"journal.jsonl": journal}


def test_a_line_cut_short_by_a_kill_is_asked_again(case, settings, undisturbed, tmp_path):
    expected, *_ = undisturbed["command"]
    journal = expected["journal.jsonl"]
    (tmp_path / "journal.jsonl").write_bytes(journal[: len(journal) - 20])
    reduce_case(Case.load(case), tmp_path, Options(**settings["command"]))
    same_as(tmp_path, expected)


def test_a_case_that_does_not_fail_leaves_no_result(tmp_path):
    with pytest.raises(DoesNotFail):
        reduce_case(network(), tmp_path / "out", Options(check="false"))
    assert finished(tmp_path / "out") is None
    assert not (tmp_path / "out" / "model.onnx").exists()


def test_a_spent_budget_leaves_the_best_so_far_and_more_budget_goes_on_from_there(
    case, settings, undisturbed, tmp_path
):
    expected, said, _ = undisturbed["command"]
    half = said["checks"] // 2
    early = reduce_case(Case.load(case), tmp_path, Options(**settings["command"], max_checks=half))
    assert not early.is_minimal
    assert early.checks == half
    assert early.after.nodes < early.before.nodes
    assert Case.load(tmp_path).case_id == early.case.case_id
    assert finished(tmp_path) is None
    reduce_case(Case.load(case), tmp_path, Options(**settings["command"]))
    same_as(tmp_path, expected)


def test_minutes_are_told_by_the_clock_of_the_options(tmp_path):
    still = reduce_case(network(), tmp_path / "still", Options(minutes=1e-9, clock=lambda: 0.0))
    assert still.is_minimal  # however long it takes by another clock
    ticks = count()
    ended = reduce_case(network(), tmp_path / "ticking", Options(minutes=1, clock=lambda: 10.0 * next(ticks)))
    assert not ended.is_minimal
    assert ended.checks < still.checks
