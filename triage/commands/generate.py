"""`crux generate`: programs only."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triage.options import CaseOptions, as_command
from triage.output import Document, emit, table

if TYPE_CHECKING:
    from rich.table import Table


class Mode(StrEnum):
    STRICT = "strict"
    DISRUPTIVE = "disruptive"


class Strategy(StrEnum):
    FORWARD = "forward"


Out = Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Where the case folders go.")]
Count = Annotated[int, typer.Option("--count", metavar="N", help="How many programs.", min=1)]
Ops = Annotated[int, typer.Option("--ops", metavar="N", help="Nodes other than Constant in each.", min=1)]
Strategies = Annotated[Strategy, typer.Option("--strategy", help="How graphs grow.")]
Modes = Annotated[Mode, typer.Option("--mode", help="Valid programs only, or also broken ones.")]


def add_to(app: typer.Typer) -> None:
    app.command("generate")(as_command(CaseOptions, generate))


def generate(
    options: CaseOptions,
    out: Out,
    count: Count = 10,
    ops: Ops = 10,
    strategy: Strategies = Strategy.FORWARD,
    mode: Modes = Mode.STRICT,
) -> int:
    """Write random valid programs, one case folder each; the same seed writes the same bytes.

    Example: crux generate -o programs --count 100 --ops 10
    """
    from corpus.errors import UserError
    from generators.library import generate as write_programs
    from triage.progress import progress

    if mode is not Mode.STRICT:
        raise UserError(f"--mode {mode.value}: only strict programs can be generated so far")
    with progress() as shown:
        done = write_programs(
            out,
            count,
            ops,
            seed=options.seed or 0,
            jobs=options.jobs,
            progress=lambda number: shown.status(f"{number:,} of {count:,} programs"),
        )
    emit(iter([done.facts()]), as_json=options.json, show=_show, single=True)
    return 0


def _show(documents: list[Document]) -> Table:
    return table(("programs", ""), documents[0].items())
