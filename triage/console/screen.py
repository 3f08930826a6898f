"""The live screen of a hunt: numbers, arms and the last find, for a terminal of any width."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from triage.console.output import printable
from triage.console.progress import clock
from triage.console.situation import Situation

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

WIDE = 132
"""From this many columns on the parts stand side by side."""
MOST_ARMS, MOST_ARMS_WIDE = 6, 8
Cells = tuple[str, ...]


def picture(now: Situation, width: int) -> RenderableType:
    """Draw a situation for a terminal of `width` columns."""
    from rich.console import Group
    from rich.table import Table

    if width < WIDE:
        return Group(_head(now, width), _numbers(now, width), _arms(now, MOST_ARMS), _last(now, width))
    side = Table.grid(padding=(0, 4))
    side.add_column(ratio=2)
    side.add_column(ratio=3)
    left = Group(_numbers(now, width * 2 // 5), _parts(now))
    side.add_row(left, _arms(now, MOST_ARMS_WIDE))
    side.expand = True
    return Group(_head(now, width), side, _last(now, width))


def _head(now: Situation, width: int) -> RenderableType:
    """Show the present step, the progress, and a bar."""
    from rich.console import Group
    from rich.text import Text

    end = f" of {clock(now.elapsed + now.left)}, {clock(now.left)} left" if now.left is not None else ""
    time = f"{clock(now.elapsed)}{end}"
    what = now.doing if now.target in now.doing else f"{now.target}: {now.doing}"
    room = width - len(time) - 2
    what = printable(what if len(what) <= room else what[: max(room - 1, 0)] + "…")
    head = Text.assemble((what.ljust(room), "bold"), "  ", (time, "cyan"), no_wrap=True)
    if now.left is None:
        return head
    full = round(width * now.elapsed / max(now.elapsed + now.left, 1e-9))
    return Group(
        head, Text.assemble(("━" * full, "cyan"), ("━" * (width - full), "bright_black"), no_wrap=True)
    )


def _numbers(now: Situation, width: int) -> Table:
    """Return two columns of figures."""
    found = [
        ("tests", f"{now.tests:,}"),
        ("tests/s", f"{now.rate:,.0f}"),
        ("valid", f"{now.valid_share:.1%}"),
        ("coverage", f"{now.coverage:,}"),
        ("failing", f"{now.failing:,}"),
        ("waiting", f"{now.waiting:,}"),
        ("bugs, new", f"{now.new:,}"),
        ("bugs, known", f"{now.known:,}"),
        ("explained", f"{now.explained:,}"),
        ("faces", f"{now.faces:,}"),
        ("CPU", clock(now.cpu)),
        ("memory", f"{now.memory / 2**20:,.0f} MB"),
    ]
    if now.blocks:
        found.append(("code blocks", f"{now.blocks:,}"))
    return _grid(found, columns=2 if width < 64 else 3, width=width)


def _grid(found: list[tuple[str, str]], columns: int, width: int) -> Table:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    each = width // columns
    for _ in range(columns):
        grid.add_column(width=min(12, each // 2))
        grid.add_column(width=each - min(12, each // 2) - 2, overflow="ellipsis", no_wrap=True)
    for at in range(0, len(found), columns):
        row: list[Text] = []
        for name, value in found[at : at + columns]:
            style = "bold green" if name == "bugs, new" and value != "0" else "bold"
            row += [Text(name, "bright_black"), Text(value, style)]
        grid.add_row(*row)
    return grid


def _arms(now: Situation, most: int) -> RenderableType:
    """Show the tests of each strategy and mode, those with most tests first."""
    arms = sorted(now.arms, key=lambda each: -each.tests)[:most]
    rows = [
        (
            each.name.replace("|", " "),
            f"{each.tests:,}",
            f"{each.share:.0%}",
            f"{1000 * each.cpu / each.tests:.1f}" if each.tests else "",
            f"{each.failures:,}",
            f"{each.earned:.1f}",
        )
        for each in arms
    ]
    return _table(("arm", "tests", "share", "CPU ms", "failing", "earned"), rows)


def _parts(now: Situation) -> RenderableType:
    whole = sum(now.parts.values()) or 1.0
    rows = [
        (name, f"{cpu / whole:.0%}") for name, cpu in sorted(now.parts.items(), key=lambda each: -each[1])
    ]
    return _table(("CPU goes to", ""), rows)


def _table(columns: Cells, rows: Iterable[Cells]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bright_black")
    for at, column in enumerate(columns):
        made.add_column(column, justify="right" if at else "left", no_wrap=True)
    filled = False
    for row in rows:
        made.add_row(*(Text(printable(cell)) for cell in row))
        filled = True
    return made if filled else Text("")


def _last(now: Situation, width: int) -> Text:
    """Return the failure of which something was learned last, and what: in one line."""
    from rich.text import Text

    if now.last is None:
        return Text("no find yet", "bright_black")
    head = f"{clock(now.last.ago)} ago {now.last.name} "
    what = f"{now.last.what}: " if now.last.what else ""
    room = max(width - len(head) - len(what), 0)
    title = printable(now.last.title)
    title = title if len(title) <= room else title[: max(room - 1, 0)] + "…"
    return Text.assemble((head, "bright_black"), (what, "bold"), title, no_wrap=True)
