"""How fast programs grow, how diverse they are and how well they run; printed, never asserted."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

from corpus.onnx.check import checker_complaint
from corpus.target import Target
from corpus.values import Value
from generators.growth.grow import Program, grow
from generators.language.profile import UNLIMITED, Counts, count
from generators.language.scope import Mark, Scope
from generators.strategies import find_strategy, strategy_names
from generators.strategies.coverage import Seen, pieces
from generators.strategies.uniform import Keep, known_operators, uniform
from oracles.backends import find_backend
from oracles.sandbox.sandbox import Job, Sandbox
from tests.bench.diversity import of_models
from tests.generators.agreement import numbers

NNSMITH = "CRUX_NNSMITH_PYTHON"
pytestmark = [pytest.mark.bench, pytest.mark.timeout(6000)]

UNOPTIMISED = find_backend("ort").configs(Target("ort"))[:1]


def counted(programs: list[Program]) -> Counts:
    counts = Counts()
    for program in programs:
        counts |= count(program.model, program.types)
    return counts


@pytest.mark.parametrize("nodes", [5, 10, 20])
@pytest.mark.parametrize("strategy", [name for name in strategy_names() if name != "smt"])
def test_programs_per_cpu_second(strategy, nodes, capsys):
    find = find_strategy(strategy)
    list(find(range(20), nodes, None, UNLIMITED))
    start = time.process_time()
    programs = list(find(range(500), nodes, None, UNLIMITED))
    cases = [program.as_case(seed) for seed, program in enumerate(programs)]
    seconds = time.process_time() - start
    with capsys.disabled():
        facts = counted(programs).facts()
        print(f"\n{strategy}, {nodes} nodes: {len(cases) / seconds:.0f} cases per CPU-second; {facts}")


def with_every_value(model: onnx.ModelProto) -> bytes:
    """The model with each inner value as an output too."""
    shown = {info.name for info in model.graph.output}
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for node in model.graph.node:
        names = [name for name in node.output if name and name not in shown]
        copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    text: bytes = copy.SerializeToString()
    return text


def is_finite(value: Value) -> bool:
    return bool(np.isfinite(numbers(value)).all())


@pytest.mark.parametrize("nodes", [10, 20])
def test_valid_and_finite_share(nodes, capsys):
    """Accepted by the checker, run un-optimised, all intermediates finite; and how many a CPU-second."""
    programs = [grow(seed, nodes) for seed in range(500)]
    accepted = sum(checker_complaint(program.model) is None for program in programs)
    ran = finite = 0
    seconds = 0.0
    with Sandbox("ort") as sandbox:
        for seed in range(500):
            start = time.process_time()
            program = grow(seed, nodes)
            (run,) = sandbox.run(Job(with_every_value(program.model), program.inputs, UNOPTIMISED))
            fine = run.is_ok and all(map(is_finite, run.outputs.values()))
            seconds += time.process_time() - start + run.cpu_seconds
            ran += run.is_ok
            finite += fine
            if not fine:
                with capsys.disabled():
                    print(f"\nseed {seed}: {run.message[:150]}")
    with capsys.disabled():
        print(f"\n{nodes} nodes: checker {accepted}, ran {ran}, finite {finite} of 500")
        print(f"{500 / seconds:.0f} verified programs per CPU-second")


def printed(capsys: pytest.CaptureFixture[str], text: str) -> None:
    with capsys.disabled():
        print(f"\n{text}")


SCORED = range(7_000_000, 7_000_200)
"""Seeds on which nothing was tuned."""

_NAMES = (
    "Add Sub Mul Div Pow Mod And BitwiseAnd Or BitwiseOr Xor Equal Less LessOrEqual Greater GreaterOrEqual "
    "Max Min BitShift Log Tan Tanh Cos Cosh Sin Sinh Acos Acosh Asin Asinh Atan Atanh Exp Erf Sqrt "
    "Reciprocal Sigmoid Floor Ceil Round Abs Sign Neg Not BitwiseNot Identity IsNaN IsInf"
)
HIRFUZZ = frozenset(_NAMES.split())
"""The paper's 58 operators (§4.2.1), as far as ONNX has them."""


def score(capsys: pytest.CaptureFixture[str], name: str, programs: Iterator[Program]) -> None:
    """HirFuzz's figure 6: every new piece of coverage is worth 1; 200 graphs of 100 operators."""
    seen, curve, seconds = Seen(), [], 0.0
    for _ in SCORED:
        start = time.process_time()
        program = next(programs)
        seconds += time.process_time() - start
        seen.add(program)
        curve.append(seen.pieces)
    edges = sum(">" in piece for piece in seen.counts)
    shapes = sum(":(" in piece for piece in seen.counts)
    gained = [after - before for before, after in zip([0, *curve[24::25]], curve[24::25], strict=False)]
    parts = f"{seen.pieces - edges - shapes} types, {shapes} shapes, {edges} edges"
    printed(capsys, f"{name}: score {seen.pieces} ({parts}) in {seconds:.1f} CPU-seconds; by 25s {gained}")


@pytest.mark.parametrize("strategy", ["uniform", "random", "coverage"])
def test_diversity_score(strategy, capsys):
    score(capsys, strategy, find_strategy(strategy)(SCORED, 100, None, UNLIMITED))


def keeps_what_is_new(seen: Seen) -> Keep:
    """The paper's NEWCOVERAGE: a step counts when it adds a piece."""

    def keep(scope: Scope, nodes: int, mark: Mark) -> bool:
        types = {value.name: value.type for value in scope.pool}
        producer = {name: node.op for node in scope.nodes for name in node.results}
        found = [
            piece
            for node in scope.nodes[nodes:]
            for piece in pieces(
                node.op,
                [types[name] for name in node.results if name in types],
                [producer.get(name, "") for name in node.operands],
            )
        ]
        is_new = any(piece not in seen.counts for piece in found)
        seen.counts.update(found if is_new else ())
        return is_new

    return keep


@pytest.mark.parametrize("creates", [True, False], ids=["creates", "on-what-is-there"])
@pytest.mark.parametrize("pool", ["all", "hirfuzz"])
@pytest.mark.parametrize("is_guided", [True, False], ids=["guided", "unguided"])
def test_the_papers_algorithm(is_guided, pool, creates, capsys):
    """HirFuzz's Algorithm 1 with and without its guide, on all operators and on those that it has."""
    chosen = [one for one in known_operators() if pool == "all" or one.name in HIRFUZZ]
    keep = {"keep": keeps_what_is_new(Seen())} if is_guided else {}
    programs = (uniform(seed, 100, operators=chosen, creates=creates, **keep) for seed in SCORED)
    score(capsys, f"Algorithm 1, guided {is_guided}, {pool} operators, creates {creates}", programs)


def of_nnsmith(folder: Path, nodes: int, models: int) -> tuple[float, list[Program]]:
    """CPU seconds and the models that its interpreter wrote."""
    script = Path(__file__).with_name("nnsmith_models.py")
    command = [os.environ[NNSMITH], str(script), str(folder), str(nodes), str(models), "120"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=3000)
    seconds = float(json.loads(done.stdout.splitlines()[-1])["seconds"])
    found = []
    for path in sorted(folder.glob("*.onnx"), key=lambda one: int(one.stem)):
        with np.load(path.with_suffix(".npz")) as values:
            found.append(Program(onnx.load(path), dict(values), {}, {}))
    return seconds, found


def shares(programs: list[Program]) -> str:
    """Accepted by the checker, loaded and run un-optimised, all intermediates finite."""
    accepted = ran = finite = 0
    with Sandbox("ort") as sandbox:
        for program in programs:
            accepted += checker_complaint(program.model) is None
            (run,) = sandbox.run(Job(with_every_value(program.model), program.inputs, UNOPTIMISED))
            ran += run.is_ok
            finite += run.is_ok and all(map(is_finite, run.outputs.values()))
    return f"checker {accepted}, run {ran}, finite {finite} of {len(programs)}"


@pytest.mark.parametrize("nodes", [10, 20])
def test_beside_nnsmith(nodes, capsys, tmp_path):
    """The same number of models with the same number of ONNX nodes, by the same measures in the same run."""
    if NNSMITH not in os.environ:
        pytest.skip(f"{NNSMITH} names no interpreter that has nnsmith")
    seconds, theirs = of_nnsmith(tmp_path, nodes, int(os.environ.get("CRUX_NNSMITH_MODELS", "500")))
    found = of_models(program.model for program in theirs)
    printed(capsys, f"NNSmith, {nodes}: {len(theirs) / seconds:.1f} models per CPU-second; {found.facts()}")
    printed(capsys, f"NNSmith, {nodes}: {shares(theirs)}")
    size = round(found.nodes / len(theirs))
    for strategy in ("random", "coverage"):
        start = time.process_time()
        ours = list(find_strategy(strategy)(range(len(theirs)), size, None, UNLIMITED))
        rate = len(ours) / (time.process_time() - start)
        facts = of_models(program.model for program in ours).facts()
        printed(capsys, f"{strategy}, {size}: {rate:.0f} models per CPU-second; {facts}")
        printed(capsys, f"{strategy}, {size}: {shares(ours)}")
