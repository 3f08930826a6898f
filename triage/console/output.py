"""Results to stdout: tables and words, for a pipe, too; one JSON document with `--json`."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

from corpus.errors import UserError
from triage.console.foot import FOOT

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

Document = dict[str, Any]

Show = Callable[[list[Document]], "RenderableType"]
"""What a person sees of the documents of a command."""
UNFOLDED = 10_000
"""Columns of a table in a pipe: a row is a line, for `grep` and `cut`."""
TITLES = frozenset({"title", "what was seen", "symptom", "its words"})
"""The columns that hold sentences of a compiler, of any length."""
LINES_OF_A_TITLE = 2


def emit(
    documents: Iterable[Document],
    *,
    as_json: bool,
    show: Show,
    single: bool = False,
    lines_if_piped: bool = False,
) -> list[Document]:
    """Write results as they come, and hand them back.

    With `single` the JSON document is the only result, not a list. With `lines_if_piped` a pipe gets a JSON
    line for each result as soon as there is one. The lines of a JSON list go out one by one, too, each whole
    as soon as its case was judged, and it stays JSON where a result is never made.
    """
    is_list = as_json and not single
    is_lines = lines_if_piped and not as_json and not is_terminal(sys.stdout)
    done: list[Document] = []
    try:
        for document in documents:
            if is_list:
                write_line(("," if done else "[\n") + in_json(document))
            elif is_lines:
                write_line(in_json(document))
            done.append(document)
    except BaseException:
        if is_list and done:
            write_line("]")
        raise
    if is_list:
        write_line("]" if done else "[]")
    elif as_json:
        write_line(in_json(done[0], indent=2))
    elif not is_lines:
        _write_shown(show(done))
    return done


def _write_shown(shown: RenderableType) -> None:
    """Print words and tables; a pipe gets them unfolded, without colour and without blanks at the ends."""
    console = stdout_console()
    FOOT.clear()
    if is_terminal(sys.stdout):
        console.print(shown)
        return
    with console.capture() as captured:
        console.print(shown)
    write_line("\n".join(line.rstrip() for line in captured.get().splitlines()))


def in_json(document: Document, indent: int | None = None) -> str:
    """A document as JSON in which nothing steers a terminal: what is not plain is written as `\\uXXXX`."""
    text = json.dumps(document, ensure_ascii=False, indent=indent)
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() or sign == "\n" else json.dumps(sign)[1:-1] for sign in text)


def write_line(text: str) -> None:
    """One line to stdout; when nobody reads it any more, the work goes on and the exit code stays true."""
    FOOT.clear()
    try:
        print(text, flush=True)
    except BrokenPipeError:
        leave_off(sys.stdout)
    except (OSError, ValueError) as error:
        leave_off(sys.stdout)
        raise UserError(f"stdout: cannot be written ({why_not(error)}); the verdict itself stands") from None


def say(text: str) -> None:
    """One line to stderr, without what would steer a terminal; of these, `--quiet` leaves `crux: …` only."""
    if is_quiet() and not text.startswith("crux"):
        return
    FOOT.clear()
    try:
        print(printable(text), file=sys.stderr, flush=True)
    except (OSError, ValueError):
        leave_off(sys.stderr)


def quoted(name: str) -> str:
    """A file's name or an id as a word of a command that a person may paste; what looks like an option is
    told apart.
    """
    word = f"./{name}" if name.startswith("-") else name
    return shlex.quote(word) if word.isprintable() else f"$'{''.join(map(_in_ansi_c, word))}'"


def _in_ansi_c(sign: str) -> str:
    """A character within the shell's `$'…'`: one that steers a terminal or ends a line by its bytes."""
    if sign.isprintable():
        return f"\\{sign}" if sign in "'\\" else sign
    return "".join(f"\\x{byte:02x}" for byte in sign.encode("utf-8", "surrogateescape"))


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal; a closed one is not."""
    return stream is not None and not stream.closed and stream.isatty()


def is_live(stream: TextIO | None) -> bool:
    """Whether progress may be drawn on a stream."""
    return is_terminal(stream) and not is_plain() and not is_quiet()


def leave_off(stream: TextIO) -> None:
    """Send to nowhere what else is written to a stream that takes nothing any more."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def why_not(error: Exception) -> str:
    """The system's word for what went wrong."""
    return str(getattr(error, "strerror", None) or error)


def printable(text: str) -> str:
    """The text with everything but plain characters written out: names come from strangers' files."""
    return "".join(sign if sign.isprintable() or sign in "\n\t" else escaped(sign) for sign in text)


def one_line(text: str) -> str:
    """The text as one line of plain characters."""
    return printable(text).replace("\n", "\\n")


def escaped(sign: str) -> str:
    """A character by its number, as Python writes it in a string."""
    return sign.encode("unicode_escape").decode("ascii")


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> Table:
    """A table that folds long cells on a terminal, shortens titles there, and takes no cell for markup."""
    from rich.table import Table
    from rich.text import Text

    made = Table(title=title or None, header_style="bold", box=None, pad_edge=False)
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        cells = [Text(printable(str(cell))) for cell in row]
        made.add_row(
            *(
                Shortened(cell) if column in TITLES else cell
                for column, cell in zip(columns, cells, strict=True)
            )
        )
    return made


def in_columns(fields: Mapping[str, str]) -> Show:
    """Show documents as a table: under each heading a field, of which a list is written word by word."""

    def cell(value: object) -> object:
        return " ".join(map(str, value)) if isinstance(value, list) else "-" if value is None else value

    return lambda documents: table(
        tuple(fields), [[cell(each[name]) for name in fields.values()] for each in documents]
    )


def in_rows(what: str) -> Show:
    """Show the one document as a table of what it says, a field a row."""
    return lambda documents: table((what, ""), documents[0].items())


class Shortened:
    """A text of which each paragraph takes at most `LINES_OF_A_TITLE` lines of a table."""

    def __init__(self, text: Text) -> None:
        self._text = text

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        from rich.measure import Measurement

        return Measurement.get(console, options, self._text)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        width = options.max_width
        for paragraph in self._text.split("\n", allow_blank=True):
            lines = paragraph.wrap(console, width, overflow="fold")
            if len(lines) > LINES_OF_A_TITLE:
                last = lines[LINES_OF_A_TITLE - 1]
                last.truncate(max(width - 1, 0))
                last.append("…")
            yield from lines[:LINES_OF_A_TITLE]


def stdout_console() -> Console:
    """A console on stdout that does not colour numbers and paths by itself; a pipe folds nothing."""
    from rich.console import Console

    width = None if is_terminal(sys.stdout) or os.environ.get("COLUMNS") else UNFOLDED
    return Console(highlight=False, force_terminal=False if is_plain() else None, width=width)


def stderr_console() -> Console:
    """The same on stderr."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, force_terminal=False if is_plain() else None)


def is_plain() -> bool:
    """Whether escapes are forbidden (NO_COLOR, https://no-color.org)."""
    return bool(os.environ.get("NO_COLOR"))


def is_quiet() -> bool:
    """Whether progress and the next command stay unsaid."""
    return bool(os.environ.get(QUIET))


@contextmanager
def appearance(color: str, quiet: bool) -> Iterator[None]:
    """Let `--color` and `--quiet` hold for a command and the processes it starts."""
    wanted = {QUIET: "1"} if quiet else {}
    wanted |= {"never": {"NO_COLOR": "1"}, "always": {"FORCE_COLOR": "1", "NO_COLOR": ""}}.get(color, {})
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


QUIET = "CRUX_QUIET"
DISK = {
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room",
    errno.EROFS: "name a place that can be written",
    errno.EACCES: "name a place that may be written, or give the right to it",
    errno.EPERM: "name a place that may be written, or give the right to it",
    errno.EFBIG: "raise the limit on files (`ulimit -f`)",
    errno.EMFILE: "raise the limit on descriptors (`ulimit -n`)",
    errno.ENFILE: "close other programs",
    errno.ENOMEM: "raise the limit on memory (`ulimit -v`), or close other programs",
    errno.EAGAIN: "raise the limit on processes (`ulimit -u`), or close other programs",
    errno.EIO: "look after the disk",
    errno.ENOTDIR: "name a place in a folder",
    errno.ENAMETOOLONG: "name a place with a shorter name",
}
"""What a person can do about an error of the system."""
DATABASE = re.compile(
    r"is full|readonly|read-only|is locked|disk I/O|unable to open|malformed|not a database|too big|encrypted"
    r"|Could not decode"
)
"""What SQLite says of the machine or the file; anything else is our own mistake."""


def disk_complaint(error: BaseException) -> str:
    """One line for an error that is the machine's, not ours; empty for any other.

    An error that was met on the way to another one counts: SQLite and zip files say it in words of their own.
    """
    import sqlite3  # `crux --help` does without

    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        if isinstance(found, sqlite3.DatabaseError) and DATABASE.search(str(found)):
            text = " ".join(str(found).split())[:160]
            return f"the database cannot be used ({text}); what it holds already is kept"
        if isinstance(found, MemoryError):
            return "there is not enough memory for this; free some, or raise the limit (`ulimit -v`)"
        if isinstance(found, OSError) and found.errno in DISK:
            where = f"{found.filename}: " if found.filename else ""
            return f"{where}{found.strerror}; {DISK[found.errno]}"
        found = found.__cause__ or found.__context__
    return ""
