"""The help of a command: its usual options on one screen, all of them with `--help-all`."""

import enum
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Any, get_args

from triage.console.options import PANEL, RARE
from triage.console.output import is_plain, is_terminal

ROWS = 24
"""Of a terminal that nobody has made larger."""
NAMES = 26
"""Columns of the options' names, at most; a longer name has its text in the next line."""
LINES_OF_WORDS = 3
"""Of what a command does, on the first screen."""
USUAL = ("--target", "--inputs", "--db", "--json", "--jobs", "--seed", "--trust", "--timeout")
"""Of the options that commands share, those for the first screen, as far as there is room."""
CLAUSES = ("; ", ". ", ": ", " (")
UPKEEP = "Upkeep"
WORKFLOWS = {
    "You have a failing model": (
        "check",
        "reduce",
        "report",
        "passes",
        "bisect",
        "show",
        "diff",
        "wrap",
        "scrub",
    ),
    "You look for bugs": ("hunt", "fuzz", "generate", "patterns"),
    "You have bugs": ("triage", "replay", "watch", "conformance"),
    UPKEEP: ("doctor", "db", "config", "schema", "mcp"),
}
"""What the help shows under which heading; a command that is not named here is upkeep."""
START = """\
crux finds, reduces, groups and reports failures of deep-learning compilers.

You have a failing model  crux check m.onnx    then crux reduce m.onnx -o small
You look for bugs         crux hunt            then crux triage
You have bugs             crux triage          then crux report C0001 -o report

crux doctor says what works here; crux --help lists the commands.
"""
"""What `crux` alone prints."""
Row = tuple[str, str]


def help_text(command: Any, context: Any, everything: bool = False) -> str:
    """What `--help` prints, or `--help-all`."""
    width = max(shutil.get_terminal_size().columns, 40)
    lines = _whole(command, context, width) if everything else _screen(command, context, width)
    return "\n".join(lines)


def _screen(command: Any, context: Any, width: int) -> list[str]:
    """The usual options, a line each, in `ROWS` lines in all."""
    words, *more = (command.help or "").split("\n\n")
    said = textwrap.wrap(words, width)[:LINES_OF_WORDS]
    said += [_clipped(each, width) for each in more if each.startswith("Example: ")]
    if any(child.rich_help_panel for child in _children(command).values()):
        return [_usage(command, context), *said, *_by_work(command, width)]
    rows = [*_commands(command), *_arguments(command), *map(_row, _usual(command))]
    head = [_usage(command, context), "", *said, ""]
    tail = ["", f"All options: {context.command_path} --help-all"]
    return [*head, *_aligned(rows[: ROWS - len(head) - len(tail)], width), *tail]


def _by_work(command: Any, width: int) -> list[str]:
    """The commands under the work that they are for; those for upkeep by name alone."""
    lines = []
    panels: dict[str, list[Row]] = {}
    for name, child in _children(command).items():
        panels.setdefault(child.rich_help_panel, []).append((name, _first_words(child)))
    for panel, rows in panels.items():
        if panel == UPKEEP:
            lines.append(f"{_bold(panel)}: {', '.join(name for name, _ in rows)}")
        else:
            lines += [_bold(panel), *_aligned(rows, width)]
    return [*lines, "What one does: crux COMMAND --help; version and completion: crux --help-all"]


def _whole(command: Any, context: Any, width: int) -> list[str]:
    """All that there is to say, folded between words."""
    lines = [_usage(command, context), ""]
    for paragraph in filter(None, (command.help or "").split("\n\n")):
        lines += [*textwrap.wrap(paragraph, width), ""]
    own = [each for each in options_of(command) if each.rich_help_panel != PANEL]
    shared = [each for each in options_of(command) if each.rich_help_panel == PANEL]
    for title, rows in (
        ("Commands", _commands(command)),
        ("Arguments", _arguments(command)),
        ("Options", [_row(each) for each in own]),
        (PANEL, [_row(each) for each in shared]),
    ):
        if rows:
            lines += [_bold(title), *_folded(rows, width), ""]
    return lines[:-1]


def _usage(command: Any, context: Any) -> str:
    words = [name for name, _ in _arguments(command)] + ["COMMAND"] * bool(_children(command))
    return " ".join(["Usage:", context.command_path, "[OPTIONS]", *words])


def _children(command: Any) -> dict[str, Any]:
    found: dict[str, Any] = getattr(command, "commands", {})
    return {name: child for name, child in found.items() if not child.hidden}


def _commands(command: Any) -> list[Row]:
    return [(name, _first_words(child)) for name, child in _children(command).items()]


def _first_words(command: Any) -> str:
    return str(command.help or "").split("\n\n")[0].replace("\n", " ")


def _arguments(command: Any) -> list[Row]:
    found = [each for each in command.params if each.param_type_name == "argument"]
    return [(each.metavar or each.name, each.help or "") for each in found]


def options_of(command: Any) -> list[Any]:
    """The options that are not hidden."""
    return [each for each in command.params if each.param_type_name == "option" and not each.hidden]


def _usual(command: Any) -> list[Any]:
    """A command's own options but the rare ones, then the usual ones of those that commands share."""
    found = options_of(command)
    own = [each for each in found if each.rich_help_panel not in (PANEL, RARE)]
    by_name = {each.opts[-1]: each for each in found if each.rich_help_panel == PANEL}
    return own + [by_name[name] for name in USUAL if name in by_name]


def _row(option: Any) -> Row:
    names = ", ".join([*option.opts, *option.secondary_opts])
    return f"{names} {value_of(option)}".strip(), meaning_of(option)


def value_of(option: Any) -> str:
    """What is typed behind an option; nothing behind a flag."""
    if option.metavar and option.metavar.strip():
        return str(option.metavar)
    kind = option.type_descriptor.annotation
    kind = next((each for each in get_args(kind) if each is not type(None)), kind)
    if kind is bool:
        return ""
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return "|".join(str(each.value) for each in kind)
    return {int: "N", float: "N", Path: "PATH"}.get(kind, "TEXT")


def meaning_of(option: Any) -> str:
    """An option's help, with the default if it says none itself."""
    text, default = option.help or "", option.default
    if isinstance(default, enum.Enum):
        default = default.value
    if default in (None, "", False, True, 0) or isinstance(default, list | tuple) or "default:" in text:
        return str(text)
    return f"{text} (default: {default:g})" if isinstance(default, float) else f"{text} (default: {default})"


def _aligned(rows: list[Row], width: int) -> list[str]:
    """A line for each row, of which the text ends with a clause that fits."""
    column = max((len(name) for name, _ in rows if len(name) <= NAMES), default=0)
    return [
        f"  {_bold(name)}{' ' * (column - len(name))}  {_clipped(text, width - max(column, len(name)) - 4)}"
        for name, text in rows
    ]


def _folded(rows: list[Row], width: int) -> list[str]:
    column = max((len(name) for name, _ in rows if len(name) <= NAMES), default=0)
    lines: list[str] = []
    for name, text in rows:
        first, *others = textwrap.wrap(text, max(width - column - 4, 20)) or [""]
        if len(name) > column:
            lines, others, first = [*lines, f"  {_bold(name)}"], [first, *others], ""
        else:
            lines.append(f"  {_bold(name)}{' ' * (column - len(name))}  {first}".rstrip())
        lines += [f"{' ' * (column + 4)}{each}" for each in others]
    return lines


def _clipped(text: str, room: int) -> str:
    """A text's beginning: up to the end of a clause if that leaves half the room used, else of a word."""
    if len(text) <= room:
        return text
    part = text[: max(room - 1, 1)]
    clause = max(part.rfind(mark) for mark in CLAUSES)
    return part[:clause] if clause > room // 2 else f"{part.rpartition(' ')[0] or part}…"


def _bold(text: str) -> str:
    return f"\x1b[1m{text}\x1b[0m" if is_terminal(sys.stdout) and not is_plain() else text


def prepare(command: Any, everything: bool) -> None:
    """Let a command and those below it print this help."""
    command.get_help = lambda context: help_text(command, context, everything)
    for child in getattr(command, "commands", {}).values():
        prepare(child, everything)
