"""The documents name everything that there is, and nothing that there is not."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
import typer.main
from typer.core import TyperCommand, TyperGroup, TyperOption

from triage.cli import build

ROOT = Path(__file__).parents[2]
DOCUMENTS = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "BENCHMARKS.md", "CHANGELOG.md"]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs/campaigns").glob("*.md")])
TEXT = "\n".join(path.read_text() for path in [*(ROOT / name for name in DOCUMENTS), *PAGES])
FIRST_COMMANDS = ["bin/crux hunt --minutes 2 --target ort", "bin/test"]


def commands(
    command: TyperCommand | TyperGroup, name: str = ""
) -> Iterator[tuple[str, TyperCommand | TyperGroup]]:
    """Every command below this one that is not hidden, by its full name (`triage why`)."""
    for key, child in getattr(command, "commands", {}).items():
        if not child.hidden:
            full = f"{name} {key}".strip()
            yield from [(full, child), *commands(child, full)]


COMMANDS = dict(commands(cast(TyperGroup, typer.main.get_command(build()))))


def options(command: TyperCommand | TyperGroup) -> set[str]:
    shown = [option for option in command.params if isinstance(option, TyperOption) and not option.hidden]
    return {name for option in shown for name in (*option.opts, *option.secondary_opts)}


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
    assert COMMANDS
    assert [name for name in COMMANDS if not is_named(name)] == []


def test_every_option_is_named() -> None:
    every = {f"{name} {option}": option for name, command in COMMANDS.items() for option in options(command)}
    assert every
    assert sorted(use for use, option in every.items() if not is_named(option)) == []


@pytest.mark.parametrize(
    "folder",
    [
        "oracles/rules",
        "oracles/optional",
        "oracles/backends",
        "generators/ops",
        "corpus/formats",
        "triage/projects",
    ],
)
def test_every_file_that_adds_one_is_named(folder: str) -> None:
    found = modules(folder)
    assert found
    assert [name for name in found if not is_named(name)] == []


@pytest.mark.parametrize("line", sorted(set(shell_lines())))
def test_every_command_shown_exists_with_its_options(line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    two = " ".join(words[:2])
    name = two if two in COMMANDS else words[0]
    assert name in COMMANDS
    shown = {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    assert shown <= options(COMMANDS[name]) | {"--help"}


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
    places = (ROOT, ROOT / "docs", ROOT / "docs/campaigns")
    wanted = {name.partition("#")[0] for name in named}
    assert sorted(name for name in wanted if not any((place / name).exists() for place in places)) == []


def help_of(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "triage.cli", *words, "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("words", [(), ("hunt",), ("triage", "mark"), ("check",)])
def test_the_help_of_a_flag_asks_for_no_value(words: tuple[str, ...]) -> None:
    assert "<bool>" not in help_of(*words)


def test_inputs_are_offered_where_a_case_is_named() -> None:
    assert "--inputs" in help_of("check")
    assert [
        name for name in ("hunt", "fuzz", "generate", "replay", "wrap") if "--inputs" in help_of(name)
    ] == []
