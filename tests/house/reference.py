"""The parts of the documents that the program supplies: `docs/commands.md`, the same as
a manual page, `docs/crux.1`, and lists between two marks.

`python -m tests.house.reference` writes them anew; `test_docs.py` fails while they differ from the program.
A list stands between `<!-- generated: NAME -->` and `<!-- end -->`, with NAME a key of `LISTS`.
"""

import importlib
import pkgutil
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import metadata
from pathlib import Path
from typing import cast

import typer.main
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from corpus.formats import format_names
from generators.strategies import strategies
from oracles.backends import backends
from oracles.optional import asked_oracles
from oracles.rules import find_rules
from triage.cli import build
from triage.console.help import WORKFLOWS, meaning_of, value_of
from triage.console.options import PANEL
from triage.projects import projects

ROOT = Path(__file__).parents[2]
COMMANDS_PAGE = ROOT / "docs/commands.md"
MAN_PAGE = ROOT / "docs/crux.1"
PACKAGES = ("triage", "reducer", "generators", "oracles", "corpus")
MARKED = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

Command = TyperCommand | TyperGroup

SHORT = {
    "Shared by commands that run cases": "cases",
    "Shared by commands that make programs": "programs",
}
"""The headings of options that some commands share, and what a command calls them."""

EXAMPLE = "Example: "

OPENING = """\
# Commands

<!-- Written by `python -m tests.house.reference` from the help of each command: change the help instead. -->

`crux COMMAND --help` (or `-h`) prints the usual options on one screen, `--help-all` all of them. `crux --version` prints the version,
`crux --install-completion` sets up completion in your shell, `crux --show-completion` prints it; a wheel brings `man crux`.
A command takes its own options, those [shared by all commands](#shared-by-all-commands), and the groups named after *Also*.

Results go to stdout as tables and words, piped too; `--json` prints one JSON document. Only `fuzz`, `check` and `reduce` write JSON lines
when their stdout is no terminal. Progress goes to stderr.

Settings of a project stand in `crux.toml`, or under `[tool.crux]` in `pyproject.toml`; the nearest file up to the repository's root
counts, `CRUX_TARGET` and the like before it, options before both. A file cannot name what runs (`@python=`, `--trust`, `--check`).
`crux config` lists the settings, and where each comes from.

Exit codes:

- 0: no bug, done, or already minimal; `hunt` and `fuzz` exit with 0 when they find bugs, too
- 1: `check`, `wrap`: the bug shows. `reduce`, `passes`: the failure does not show. `replay`, `watch`: something differs. `doctor`, `db check`: something is broken
- 2: bad usage, or a file that cannot be used: one line says which, why and what to do
- 3: crux itself failed: one line, the traceback in a log, and a zip to report it with
- 130: interrupted; results so far are kept
"""  # noqa: E501


def walk(command: Command, name: str = "") -> Iterator[tuple[str, Command]]:
    """Every command below this one that is not hidden, by its full name (`triage why`)."""
    for key, child in getattr(command, "commands", {}).items():
        if not child.hidden:
            full = f"{name} {key}".strip()
            yield from [(full, child), *walk(child, full)]


@cache
def commands() -> dict[str, Command]:
    """The commands of `crux` by their full names."""
    return dict(walk(cast(TyperGroup, typer.main.get_command(build()))))


def options(command: Command) -> list[TyperOption]:
    """The options that the command's help shows."""
    return [each for each in command.params if isinstance(each, TyperOption) and not each.hidden]


def names_of(option: TyperOption) -> tuple[str, ...]:
    """What may be typed for the option."""
    return (*option.opts, *option.secondary_opts)


# ---------------------------------------------------------------------------------- docs/commands.md


def commands_page() -> str:
    """The reference of all commands and options."""
    parts = [OPENING]
    for heading, first in WORKFLOWS.items():
        parts.append(f"## {heading}\n")
        parts += [_section(name, each) for name, each in commands().items() if name.split()[0] in first]
    parts += [_shared_list(title, group) for title, group in _shared().items()]
    return "\n".join(parts)


def man_page() -> str:
    """The same as a manual page."""
    body = re.sub(r"<!--.*?-->\n", "", commands_page().removeprefix("# Commands\n\n"), flags=re.DOTALL)
    head = [".TH CRUX 1", ".SH NAME", f"crux \\- {metadata('tensorcrux')['Summary']}", ".SH DESCRIPTION"]
    return "\n".join([*head, *map(_roff, body.strip().splitlines()), ""])


def _roff(line: str) -> str:
    """A line of the reference in the language of manuals."""
    text = re.sub(r"\[([^]]+)\]\(#[^)]*\)", r"\1", line.replace("\\<", "<"))
    text = re.sub(r"[`*]", "", text).replace("\\", "\\e")
    for mark, macro in (("## ", ".SH "), ("### ", ".SS "), ("- ", ".IP \\(bu 2\n")):
        if text.startswith(mark):
            return macro + text.removeprefix(mark).replace("-", "\\-")
    return f"\\&{text}".replace("-", "\\-") if text else ".PP"


def _section(name: str, command: Command) -> str:
    """One command: what it does, its usage, an example, and the options that are its own."""
    paragraphs = (command.help or "").split("\n\n")
    said = [each for each in paragraphs if not each.startswith(EXAMPLE)]
    examples = [f"`{each.removeprefix(EXAMPLE)}`" for each in paragraphs if each not in said]
    lines = [f"### `crux {name}`", "", *(line for each in said for line in (_escaped(each), ""))]
    if isinstance(command, TyperGroup):
        lines += [f"Subcommands: {', '.join(f'`{each}`' for each in sorted(command.commands))}.", ""]
    arguments = [each for each in command.params if isinstance(each, TyperArgument)]
    shared = {_key(each) for group in _shared().values() for each in group}
    own = [each for each in options(command) if _key(each) not in shared]
    rows = [f"- `{each.metavar}`: {each.help}" for each in arguments]
    rows += [f"- {_spelled(each)}: {meaning_of(each)}" for each in own]
    lines += [*rows, ""] if rows else []
    lines += [line for each in (*examples, _also(command)) if each for line in (each, "")]
    return "\n".join(lines)


def _also(command: Command) -> str:
    """Which shared options the command takes: groups by name, and what is missing from them."""
    taken = {_key(each) for each in options(command)}
    pieces = []
    for title in SHORT:
        group = _shared()[title]
        here = [each for each in group if _key(each) in taken]
        if not here:
            continue
        missing = [each for each in group if _key(each) not in taken]
        link = f"[{SHORT[title]}](#{title.lower().replace(' ', '-')})"
        if not missing:
            pieces.append(link)
        elif len(missing) < len(here):
            pieces.append(f"{link} but {', '.join(f'`{names_of(each)[-1]}`' for each in missing)}")
        else:
            pieces.append(", ".join(f"`{names_of(each)[-1]}`" for each in here))
    return f"Also: {'; '.join(pieces)}." if pieces else ""


@cache
def _shared() -> dict[str, list[TyperOption]]:
    """The options that read the same in several commands, by what they are about."""
    every = [each for command in commands().values() for each in options(command)]
    times = Counter(_key(each) for each in every)
    by_key = {_key(each): each for each in reversed(every)}
    common = [key for key, each in by_key.items() if each.rich_help_panel == PANEL and times[key] > 2]
    leaves = sum(not isinstance(each, TyperGroup) for each in commands().values())
    usual = [key for key in common if times[key] > 0.9 * leaves]  # the others take them without a use
    groups = {
        "Shared by all commands": usual,
        "Shared by commands that run cases": [key for key in common if key not in usual],
        "Shared by commands that make programs": [
            key for key in by_key if key not in common and times[key] >= 2 and _makes_programs(key)
        ],
    }
    order = [_key(each) for each in every]
    return {title: [by_key[key] for key in sorted(keys, key=order.index)] for title, keys in groups.items()}


def _makes_programs(key: tuple[tuple[str, ...], str]) -> bool:
    """Whether an option is one of several makers of programs, and of no other command."""
    takers = {name for name, each in commands().items() if key in map(_key, options(each))}
    return takers <= {"hunt", "fuzz", "generate"}


def _shared_list(title: str, group: list[TyperOption]) -> str:
    rows = [f"- {_spelled(each)}: {meaning_of(each)}" for each in group]
    return "\n".join([f"## {title}", "", *rows, ""])


def _key(option: TyperOption) -> tuple[tuple[str, ...], str]:
    """What makes two options one: their names, help and default."""
    return names_of(option), meaning_of(option)


def _spelled(option: TyperOption) -> str:
    """The option with its short form and its value."""
    *others, last = names_of(option)
    return ", ".join(f"`{each}`" for each in (*others, f"{last} {value_of(option)}".strip()))


def _escaped(text: str) -> str:
    return text.replace("<", "\\<")


# ---------------------------------------------------------------------------------- lists within documents


def in_order(names: Iterator[str] | list[str]) -> str:
    """Names as a sentence."""
    return ", ".join(f"`{each}`" for each in names) + ".\n"


def rule_names() -> list[str]:
    """The rules in the order in which they are asked."""
    return [rule.name for rule in find_rules()]


def modules_of(package: str) -> list[str]:
    """The public modules and folders of a package that finds its own modules."""
    path = importlib.import_module(package).__path__
    return sorted(each.name for each in pkgutil.iter_modules(path) if not each.name.startswith("_"))


def rooms() -> str:
    """The rooms of each package, a line for each floor: a room imports from the floors below it only."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    floors = {each["containers"][0]: each["layers"] for each in contracts if "containers" in each}
    width = max(map(len, floors)) + 2
    lines = []
    for package in PACKAGES:
        labels = [f"{package}/", *[""] * (len(floors[package]) - 1)]
        rows = [re.sub(r"[()]", "", floor).replace(" | ", ", ") for floor in floors[package]]
        lines += [f"{label:{width}}{row}" for label, row in zip(labels, rows, strict=True)]
    return "\n".join(["```", *lines, "```", ""])


LISTS: dict[str, Callable[[], str]] = {
    "rooms": rooms,
    "rules": lambda: in_order(rule_names()),
    "oracles": lambda: in_order(sorted(asked_oracles())),
    "backends": lambda: in_order(sorted(backends())),
    "formats": lambda: in_order(list(format_names())),
    "projects": lambda: in_order(sorted(projects())),
    "strategies": lambda: in_order(list(strategies())),
    "operators": lambda: in_order(modules_of("oracles.operators")),
    "forms": lambda: in_order(modules_of("generators.relax.forms")),
}
"""The lists that documents may hold: name, and what stands between the marks."""


def filled(text: str) -> str:
    """The document with each of its lists as the program has it."""
    return MARKED.sub(lambda found: f"{found[1]}{LISTS[found[2]]()}{found[3]}", text)


def documents() -> list[Path]:
    """Every document that may hold a list."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def main() -> None:
    """Write what the program supplies."""
    COMMANDS_PAGE.write_text(commands_page())
    MAN_PAGE.write_text(man_page())
    for path in documents():
        text = path.read_text()
        if (now := filled(text)) != text:
            path.write_text(now)


if __name__ == "__main__":
    main()
