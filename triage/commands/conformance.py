"""`crux conformance`: ONNX's own backend tests on a target."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triage.console.options import CaseOptions, command
from triage.console.output import Document, emit, quoted, say, table

if TYPE_CHECKING:
    from rich.table import Table

Output = Annotated[
    Path | None,
    typer.Option("-o", "--out", metavar="DIR", help="Write the failing tests as case folders, too."),
]
Only = Annotated[str, typer.Option("--only", metavar="REGEX", help="Only tests whose name matches.")]


@command(CaseOptions)
def conformance(options: CaseOptions, only: Only = "", output: Output = None) -> int:
    """Run ONNX's own backend tests: what passes, fails, is refused.

    Every result is compared with the one that the standard gives, within the tolerance of the test; a
    terminal shows the tests that do not pass.

    Example: crux conformance --target tvm --only reduce_
    """
    documents = emit(_results(options, only, output), as_json=options.json, show=_show)
    counts = Counter(document["status"] for document in documents)
    parts = ", ".join(f"{counts[word]} {word}" for word in ("passes", "fails", "refused") if counts[word])
    say(f"{len(documents)} tests: {parts or 'none of that name'}")
    if counts["fails"] and output is not None:
        failing = next(document["test"] for document in documents if document["status"] == "fails")
        say(f"next: crux show {quoted(str(output / failing))}")
    return 0


def _results(options: CaseOptions, only: str, output: Path | None) -> Iterator[Document]:
    from contextlib import ExitStack

    from triage.cases.conformance import FAILS, conform, save, standard_tests

    target = options.target_of(None)
    tests = {test.name: test for test in standard_tests(_expression(only))}
    with ExitStack() as stack:
        judges = [stack.enter_context(options.judge(target)) for _ in range(options.jobs)]
        for document in conform(tests.values(), judges):
            if output is not None and document["status"] == FAILS:
                save(tests[document["test"]], output, target)
            yield document


def _expression(text: str) -> re.Pattern[str]:
    from corpus.errors import UserError

    try:
        return re.compile(text)
    except re.error as error:
        raise UserError(f"--only {text!r}: is no regular expression ({error})") from None


def _show(documents: list[Document]) -> Table:
    columns = ("test", "status", "what was seen")
    rows = [tuple(each[name] for name in ("test", "status", "seen")) for each in documents]
    return table(columns, [row for row in rows if row[1] != "passes"])
