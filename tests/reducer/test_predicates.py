"""What a user's command and a target say of a candidate."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from corpus.case import Case
from corpus.formats.onnx import parse
from corpus.target import Target
from oracles.judge import Judge
from oracles.probes.context import Context
from oracles.rules.failures import crash
from oracles.verdict import Config, Phase, Run, Status, Verdict
from reducer.api import reduce_case
from reducer.course import Options
from reducer.engine.journal import Answer
from reducer.engine.predicates import FLOOR, AdaptiveTimeout, Command, JudgePool, SameSymptom
from tests.helpers.commands import is_gone, processes_with, waited_for
from tests.reducer.driving import ORT, case_of, model_of


def small_case() -> Case:
    model = model_of("g (float[3] x) => (float[3] y) { y = Neg (x) }")
    return case_of(model, {"x": np.array([1, 2, 3], np.float32)})


@pytest.mark.parametrize(
    ("command", "wanted", "interesting"),
    [
        ("exit 0", 0, True),
        ("exit 1", 0, False),
        ("exit 1", 1, True),
        ("exit 125", 125, False),
        ("kill -SEGV $$", 0, False),
        ("no-such-command-anywhere", 0, False),
    ],
)
def test_the_exit_code_decides(command, wanted, interesting):
    line = command if command.startswith("no-such") else f"test -f {{}}; {command}"
    assert Command(line, wanted)(small_case()).interesting is interesting


def test_the_candidate_and_its_inputs_lie_side_by_side(tmp_path):
    case = small_case()
    copy = shlex.quote(str(tmp_path / "seen"))
    assert Command(f"cp -r $(dirname {{}}) {copy}")(case).interesting
    assert {path.name for path in (tmp_path / "seen").iterdir()} == {"model.onnx", "inputs.npz", "case.json"}
    assert (tmp_path / "seen" / "model.onnx").read_bytes() == case.program
    assert np.load(tmp_path / "seen" / "inputs.npz")["x"].tolist() == [1, 2, 3]


def test_without_braces_the_model_comes_last(tmp_path):
    copy = shlex.quote(str(tmp_path / "seen.onnx"))
    assert Command(f"copy() {{ cp $1 {copy}; }}; copy")(small_case()).interesting
    assert (tmp_path / "seen.onnx").read_bytes() == small_case().program


def test_the_path_is_quoted(tmp_path, monkeypatch):
    odd = tmp_path / 'a folder\'s "$(touch harm)" & name'
    odd.mkdir()
    monkeypatch.setenv("TMPDIR", str(odd))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.chdir(tmp_path)
    assert Command("test -f {}")(small_case()).interesting
    assert [path.name for path in tmp_path.rglob("harm")] == []
    assert list(odd.iterdir()) == []


def test_it_runs_in_the_callers_folder_and_environment_and_says_nothing(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GREETING", "hello")
    line = f': {{}}; cat; echo said; test "$GREETING" = hello && test "$PWD" = {shlex.quote(str(tmp_path))}'
    assert Command(line)(small_case()).interesting
    assert capfd.readouterr() == ("", "")


def test_out_of_time_is_not_interesting_and_takes_grandchildren_along(tmp_path):
    pid = tmp_path / "pid"
    line = f": {{}}; (sleep 600 & echo $! > {shlex.quote(str(pid))}; wait) & wait"
    assert Command(line, timeout=3.0)(small_case()) == Answer(False, "timeout")
    assert waited_for(lambda: is_gone(int(pid.read_text())))


def test_what_a_command_leaves_running_ends_with_it(tmp_path):
    pid = tmp_path / "pid"
    assert Command(f": {{}}; sleep 60 & echo $! > {shlex.quote(str(pid))}")(small_case()).interesting
    assert waited_for(lambda: is_gone(int(pid.read_text())))


def test_also_keeps_what_a_second_command_needs(tmp_path):
    case = case_of(model_of("g (float[2] x) => (float[2] y) { a = Erf (x) b = Neg (a) y = Exp (b) }"))
    options = Options(check="grep -q Erf", also="grep -q Neg")
    assert sorted(reduce_case(case, tmp_path, options).after.ops) == ["Erf", "Neg"]


def test_a_pool_lends_each_judge_to_one_thread_at_a_time():
    pool = JudgePool(lambda: Judge(ORT))
    with pool.one() as first, pool.one() as second:
        assert first is not second
    with pool.one() as again:
        assert again in (first, second)
    pool.close()


def division() -> Case:
    model = model_of("g (int32[2] a, int32[2] b) => (int32[2] y) { y = Mod (a, b) }")
    lowest = np.array([np.iinfo(np.int32).min, 4], np.int32)
    return case_of(model, {"a": lowest, "b": np.array([-1, 3], np.int32)})


def test_a_target_is_interesting_with_the_same_symptom_only():
    pool = JudgePool(lambda: Judge(Target("ort")))
    others: list[Case] = []
    with pool.one() as judge:
        verdict = judge.verdict(division())
    assert verdict.symptom is not None
    same = SameSymptom(pool, verdict.symptom, on_other=lambda case, other: others.append(case))
    clip = case_of(
        model_of("g (double[2] x) => (double[2] y) <double low = {0.5}> { r = Relu (x) y = Clip (r, low) }"),
        {"x": np.array([-1.0, 1.0])},
    )
    try:
        answers = [same(case).interesting for case in (division(), clip, small_case())]
    finally:
        pool.close()
    assert answers == [True, False, False]
    assert [parse(case.program).graph.node[0].op_type for case in others] == ["Relu"]


def test_no_process_outlives_a_reduction(tmp_path):
    """Two workers of the target, killed amid a check."""
    marker = start_reduction(tmp_path, {"jobs": 2}, "call", "3")[1]
    assert all_gone(marker)


def test_no_process_outlives_a_kill_while_commands_run(tmp_path):
    """Nor what the commands have started, in the background too."""
    begun = shlex.quote(str(tmp_path / "begun"))
    check = f": {{}}; echo >> {begun}; sleep 600 & (sleep 600; :); :"
    process, marker = start_reduction(tmp_path, {"jobs": 2, "check": check}, "never", "0")
    assert waited_for(lambda: process.poll() is not None or both_began(tmp_path / "begun"))
    assert process.poll() is None
    assert len(processes_with(marker, "environ")) > 4
    process.kill()
    process.wait()
    assert all_gone(marker)


def both_began(path: Path) -> bool:
    return path.exists() and path.stat().st_size >= 2


def start_reduction(
    folder: Path, options: Mapping[str, object], when: str, number: str
) -> tuple[subprocess.Popen[bytes], str]:
    """A reduction in a process of its own, ended where it kills itself, and what marks all its children."""
    name, value = "TENSORCRUX_TEST", f"{os.getpid()}-{folder.name}"
    division().save(folder / "case")
    script = Path(__file__).with_name("killed.py")
    process = subprocess.Popen(
        [sys.executable, script, folder / "case", folder / "out", json.dumps(options), when, number],
        env={**os.environ, name: value},
    )
    if when != "never":
        assert process.wait() == -signal.SIGKILL
    return process, f"{name}={value}"


def all_gone(marker: str) -> bool:
    return waited_for(lambda: not processes_with(marker, "environ"))


def test_a_candidate_gets_a_multiple_of_what_the_others_took_and_no_less_than_a_stall():
    patience = AdaptiveTimeout(300)
    assert patience.limit == 300
    for seconds in (1.0, 2.0, 3.0, 2.0):
        patience.taken.append(seconds)
    assert patience.limit == 20 * 2.0
    assert AdaptiveTimeout(10, patience.taken).limit == 10
    patience.taken.extend([0.01] * 10)
    assert patience.limit == FLOOR


@pytest.mark.parametrize(("line", "seconds", "counted"), [("sleep 60; :", 0.2, 0), ("true", 300, 1)])
def test_only_what_ended_in_time_counts(line, seconds, counted):
    command = Command(line, timeout=seconds, patience=AdaptiveTimeout(seconds))
    command(small_case())
    assert len(command.patience.taken) == counted


# A crash of the optimiser's, and no other


class Showing:
    """Stands for a judge whose target did this and that: the verdict is the rule's own."""

    def __init__(self, *statuses: Status) -> None:
        labels = ("none", "all")
        self.seen = tuple(
            Run(Config(label), status, Phase.OPTIMISE, signal=11 if status is Status.CRASH else 0)
            for label, status in zip(labels, statuses, strict=True)
        )
        self.executor = self

    def hurry(self, wall_seconds: float) -> None:
        """As a judge's executor."""

    def verdict(self, case: Case, *, only: Config | None = None, baseline: Run | None = None) -> Verdict:
        context = cast(Context, SimpleNamespace(names=frozenset()))
        found = crash(case, self.seen, context)
        assert found is not None
        return found


@pytest.mark.parametrize(
    ("first", "baseline", "needed", "interesting"),
    [
        (Status.OK, Status.OK, True, True),
        (Status.OK, Status.EXCEPTION, True, False),
        (Status.OK, Status.CRASH, True, False),
        (Status.CRASH, Status.CRASH, False, True),
    ],
)
def test_what_the_baseline_refuses_or_dies_of_is_not_the_same_crash(first, baseline, needed, interesting):
    """Unless the baseline of the original died as well."""
    symptom = Showing(first, Status.CRASH).verdict(small_case()).symptom
    assert symptom is not None
    pool = JudgePool(lambda: cast(Judge, Showing(baseline, Status.CRASH)))
    assert SameSymptom(pool, symptom, needs_baseline=needed)(small_case()).interesting is interesting
