"""Failing modules of StableHLO of over 100 operations, reduced; printed, never asserted.

Two read beside a tensor when IREE runs them, which StableHLO's `gather` must not; in eight a rewrite of three
operations in a row is called wrong by a command. Needs jax and IREE.
"""

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from corpus.load import open_case
from corpus.target import Target
from oracles.sandbox.scripts import open_foreign
from oracles.verdict import Limits
from reducer.api import Reduction, reduce_case
from reducer.course import Options
from tests.bench import stablehlo_chain
from tests.helpers.commands import needs

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3600), needs("iree"), needs("jax")]

CHAIN = Path(stablehlo_chain.__file__)
IREE = Options(target=Target("iree"))
HEAD = "| Module | What is wrong | Operations | Left | Checks | Seconds |\n|---|---|---|---|---|---|"


def options() -> Iterator[tuple[str, str, Options]]:
    """The network, what is wrong with it, and how that is asked."""
    for name in ("ranked", "lookup"):
        yield name, "gather on IREE", IREE
    for name, chains in stablehlo_chain.PLANTED.items():
        for chain in chains:
            command = f"{shlex.join([sys.executable, str(CHAIN), chain])} {{}}"
            yield name, chain, Options(target=Target("iree"), check=command)


def reduced(module: Path, chosen: Options, out: Path) -> Reduction:
    target = chosen.target
    case = open_case(module, target=target, importer=lambda *file: open_foreign(target, Limits(), *file))
    return reduce_case(case, out, chosen)


def row(name: str, wrong: str, done: Reduction) -> str:
    left = ", ".join(each.rpartition(".")[2] for each in done.after.ops)
    before = done.before.nodes + done.before.function_nodes
    return (
        f"| {name} | {wrong} | {before} | {done.after.nodes}: {left} | {done.checks} | {done.seconds:.0f} |"
    )


def test_modules_of_over_a_hundred_operations(tmp_path, say):
    subprocess.run([sys.executable, str(CHAIN.with_name("stablehlo_models.py")), str(tmp_path)], check=True)
    say(f"\n{HEAD}")
    for place, (name, wrong, chosen) in enumerate(options()):
        done = reduced(tmp_path / f"{name}.mlir", chosen, tmp_path / str(place))
        say(row(name, wrong, done))
