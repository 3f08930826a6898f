"""The documents name everything that there is, and nothing that there is not."""

from __future__ import annotations

import importlib
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import typer.main

ROOT = Path(__file__).parents[2]
DOCUMENTS = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "BENCHMARKS.md", "CHANGELOG.md"]
TEXT = "\n".join((ROOT / name).read_text() for name in DOCUMENTS)
FIRST_COMMANDS = ["bin/crux hunt --minutes 2 --target ort", "bin/test"]


def command_line() -> click.Command:
    return typer.main.get_command(importlib.import_module("triage.cli").app)


def commands(command: click.Command, name: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command below this one that is not hidden, by its full name (`triage why`)."""
    if isinstance(command, click.Group):
        for key, child in command.commands.items():
            if not child.hidden:
                yield from [(f"{name} {key}".strip(), child), *commands(child, f"{name} {key}".strip())]


def options(command: click.Command) -> set[str]:
    return {
        option
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.hidden
        for option in (*parameter.opts, *parameter.secondary_opts)
    }


def modules(folder: str) -> list[str]:
    return sorted(path.stem for path in (ROOT / folder).glob("*.py") if not path.stem.startswith("_"))


def is_named(name: str) -> bool:
    """Whether the documents hold the name as a word of its own, in code marks or a code block."""
    code = re.findall(r"```.*?```|`[^`\n]+`", TEXT, flags=re.DOTALL)
    return any(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", piece) for piece in code)


def shell_lines() -> list[str]:
    """The `crux` commands of the documents' code blocks, without prompts and comments."""
    blocks = re.findall(r"```(?:console|sh|bash)\n(.*?)```", TEXT, flags=re.DOTALL)
    lines = [line.removeprefix("$ ").strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith(("bin/crux ", "crux "))]


def test_every_command_is_named() -> None:
    names = [name for name, _ in commands(command_line())]
    assert names
    assert [name for name in names if not is_named(name)] == []


def test_every_option_is_named() -> None:
    every = {(name, option) for name, command in commands(command_line()) for option in options(command)}
    assert every
    assert sorted(f"{name} {option}" for name, option in every if not is_named(option)) == []


@pytest.mark.parametrize("folder", ["oracles/rules", "oracles/backends", "generators/ops", "corpus/formats"])
def test_every_file_that_adds_one_is_named(folder: str) -> None:
    found = modules(folder)
    assert found
    assert [name for name in found if not is_named(name)] == []


@pytest.mark.parametrize("line", shell_lines())
def test_every_command_shown_exists_with_its_options(line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    known = dict(commands(command_line()))
    name = " ".join(words[:2]) if " ".join(words[:2]) in known else words[0]
    assert name in known
    shown = {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    assert shown <= options(known[name]) | {"--help"}


def test_the_readme_opens_with_two_commands_that_exist() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    for command in FIRST_COMMANDS:
        assert command in [line.removeprefix("$ ") for line in lines]
        assert os.access(ROOT / command.split()[0], os.X_OK)


def test_every_file_named_exists() -> None:
    top = "bin|corpus|oracles|reducer|generators|triage|tests|.ci"
    named = set(re.findall(rf"`((?:{top})/[\w./-]*)`", TEXT)) | set(
        re.findall(r"\]\((?!http|#)([^)#]+)", TEXT)
    )
    assert named
    assert sorted(name for name in named if not (ROOT / name).exists()) == []
