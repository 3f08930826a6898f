"""`crux conformance`: ONNX's own backend tests on a target."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from triage.console.options import CaseOptions, command
from triage.console.output import Document, emit, say, table

if TYPE_CHECKING:
    from rich.table import Table

Only = Annotated[str, typer.Option("--only", metavar="REGEX", help="Only tests whose name matches.")]


@command(CaseOptions)
def conformance(options: CaseOptions, only: Only = "") -> int:
    """Run ONNX's own backend tests: what passes, fails, is refused.

    Every result is compared with the one that the standard gives, within the tolerance of the test; a
    terminal shows the tests that do not pass.

    Example: crux conformance --target tvm --only reduce_
    """
    documents = emit(_results(options, only), as_json=options.json, show=_show)
    counts = Counter(document["status"] for document in documents)
    parts = ", ".join(f"{counts[word]} {word}" for word in ("passes", "fails", "refused") if counts[word])
    say(f"{len(documents)} tests: {parts or 'none of that name'}")
    return 0


def _results(options: CaseOptions, only: str) -> Iterator[Document]:
    from contextlib import ExitStack

    from triage.cases.conformance import conform, standard_tests

    target = options.target_of(None)
    tests = list(standard_tests(_expression(only)))
    with ExitStack() as stack:
        judges = [stack.enter_context(options.judge(target)) for _ in range(options.jobs)]
        yield from conform(tests, judges)


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
