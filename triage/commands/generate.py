"""`crux generate`: programs only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from triage.console.options import CaseOptions, command
from triage.console.output import emit, in_rows, quoted, say
from triage.console.program_options import Bounds, Mode, Modes, Source

Out = Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Where the case folders go.")]
Count = Annotated[int, typer.Option("--count", metavar="N", help="How many programs.", min=1)]
Ops = Annotated[int, typer.Option("--ops", metavar="N", help="Nodes other than Constant in each.", min=1)]
Strategy = Annotated[
    str,
    typer.Option(
        "--strategy",
        metavar="X",
        help="How graphs grow: random, coverage, backward, functions, mutate, patterns, relax, relax_mutate, "
        "relax_patterns, high_order, relax_high_order, smt, uniform; or PATH.py:NAME, a function "
        "of yours (with --trust).",
    ),
]


@command(CaseOptions, unsaid=("inputs",))
def generate(
    options: CaseOptions,
    *,
    out: Out,
    count: Count = 10,
    ops: Ops = 10,
    strategy: Strategy = "random",
    source: Source = None,
    mode: Modes = Mode.STRICT,
    bounds: Bounds,
) -> int:
    """Write programs, one case folder each; the same seed writes the same bytes.

    Disruptive programs hold exactly one violation each, vulnerable ones one dangerous thing; the notes in
    case.json name it. A program that would exceed a bound has fewer nodes instead.

    Example: crux generate -o programs --count 100 --ops 10
    """
    from generators import mixture, modes
    from triage.console.status import progress

    how = mixture.Options(strategy, source, modes.Mode(mode.value), bounds.budget, options.trust)
    with progress() as shown:
        done = mixture.generate(
            out,
            count,
            ops,
            seed=options.seed or 0,
            jobs=options.jobs,
            options=how,
            progress=lambda number: shown.status(f"{number:,} of {count:,} programs"),
        )
    emit(iter([done.facts()]), as_json=options.json, show=in_rows("programs"), single=True)
    say(f"next: crux check {quoted(str(out))}/*")
    return 0
