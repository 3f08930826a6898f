"""Results to stdout: a table for a person, one JSON document with `--json`, JSON lines into a pipe."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

Document = dict[str, Any]


def emit(
    documents: Iterable[Document],
    *,
    as_json: bool,
    show: Callable[[list[Document]], RenderableType],
    single: bool = False,
) -> list[Document]:
    """Write results and hand them back; with `single` the JSON document is the only result, not a list.

    JSON lines go out one by one as the results come in. A list has a line for each of its documents.
    """
    done: list[Document] = []
    lines = not as_json and not sys.stdout.isatty()
    for document in documents:
        done.append(document)
        if lines:
            write_line(json.dumps(document, ensure_ascii=False))
    if as_json:
        write_line(json.dumps(done[0], ensure_ascii=False, indent=2) if single else _listed(done))
    elif not lines:
        stdout_console().print(show(done))
    return done


def _listed(documents: list[Document]) -> str:
    lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in documents)
    return f"[\n{lines}\n]" if documents else "[]"


def write_line(text: str) -> None:
    """One line to stdout; when nobody reads it any more, the work goes on and the exit code stays true."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say(text: str) -> None:
    """One line of progress to stderr."""
    try:
        print(text, file=sys.stderr, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> Table:
    """A table for a terminal, which folds long cells and takes no cell for markup."""
    from rich.table import Table
    from rich.text import Text

    made = Table(title=title or None, header_style="bold", box=None, pad_edge=False)
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*(Text(str(cell)) for cell in row))
    return made


def stdout_console() -> Console:
    """A console on stdout that does not colour numbers and paths by itself."""
    from rich.console import Console

    return Console(highlight=False)


def stderr_console() -> Console:
    """The same on stderr."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)
