"""The tools of `crux mcp`: check, reduce, report, triage and explain, for an assistant that has no shell.

Each call runs the command of its name in a process of its own. Paths are confined to the folders given at
the start, and nothing that runs code of a case or names a program is let through unless the start said so.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from corpus.errors import UserError
from corpus.target import Target
from triage.store.names import is_name

Document = dict[str, Any]
SUMMARY = ("id", "title", "state", "count", "reduced", "known", "report")
"""The fields of a cluster that a list shows."""
LONG = frozenset({"moves"})
"""Fields that tell an assistant nothing."""
INSTRUCTIONS = (
    "crux judges models on deep-learning compilers. check says whether a model fails; reduce makes it"
    " small; report writes a bundle with issue.md; triage lists the bugs of a database; explain says why"
    " two failures are one bug or two. Paths are relative to the first folder that the server was given."
)


@dataclass(frozen=True, slots=True)
class Confined:
    """The folders that calls may name files in, the first of which they run in, and whether code may run."""

    folders: tuple[Path, ...]
    trust: bool

    def path(self, word: str) -> str:
        """A path in one of the folders, complete; `ToolError` for any other."""
        try:
            found = (self.folders[0] / word).resolve()
        except (OSError, ValueError, RuntimeError) as error:
            raise ToolError(f"{word!r} is no path ({error})") from None
        if not any(found.is_relative_to(folder) for folder in self.folders):
            raise ToolError(f"{word!r} is outside of {', '.join(map(str, self.folders))}")
        return str(found)

    def case(self, word: str) -> str:
        """A file, a case folder, or an id of the database."""
        return word if is_name(word) else self.path(word)

    def options(self, target: str = "", database: str = "") -> list[str]:
        """The options that calls share."""
        words = ["--trust"] if self.trust else []
        if target:
            words.append(f"--target={self._target(target)}")
        return [*words, *self.store(database)]

    def store(self, database: str) -> list[str]:
        """The option that names a database."""
        return [f"--db={self.path(database)}"] if database else []

    def _target(self, text: str) -> str:
        try:
            complaint = Target.of_data(text).complaint
        except UserError as error:
            raise ToolError(str(error)) from None
        if complaint and not self.trust:
            raise ToolError(f"{complaint} may say what to run: the server was started without --trust")
        return text


@dataclass(frozen=True, slots=True)
class Tools:
    """What an assistant may call; the texts are for it."""

    at: Confined

    async def check(
        self, context: Context, case: str, target: str = "", locate: bool = False, database: str = ""
    ) -> Document:
        """Judge a model, a case folder or an id: `bug`, `outcome`, `title`; `locate` a wrong value."""
        words = ["check", *self.at.options(target, database), *(["--locate"] if locate else [])]
        return _only(await run_crux(self.at, [*words, "--", self.at.case(case)], context))

    async def reduce(
        self, context: Context, case: str, out: str, target: str = "", minutes: float = 10, database: str = ""
    ) -> Document:
        """Shrink a failing case into the folder `out`; the same call again goes on where it was."""
        folder = self.at.path(out)
        words = ["reduce", *self.at.options(target, database), f"--out={folder}", f"--minutes={minutes}"]
        found = _only(await run_crux(self.at, [*words, "--", self.at.case(case)], context))
        return {"folder": folder} | {name: each for name, each in found.items() if name not in LONG}

    async def report(self, context: Context, case: str, out: str, database: str = "") -> Document:
        """Write a bundle for a maintainer below `out`: issue.md, repro.py, the model; `ready` to be filed?"""
        words = ["report", *self.at.options("", database), f"--out={self.at.path(out)}"]
        return _only(await run_crux(self.at, [*words, "--", self.at.case(case)], context))

    async def triage(self, context: Context, database: str = "", search: str = "") -> Document:
        """List the bugs of a database, those first that are worth a look."""
        words = ["triage", *self.at.store(database), *([f"--search={search}"] if search else [])]
        found = await run_crux(self.at, words, context)
        return {"bugs": [{name: each[name] for name in SUMMARY} for each in found]}

    async def explain(self, context: Context, first: str, second: str, database: str = "") -> Document:
        """Say why two failures or clusters (ids) are one bug or two."""
        words = ["triage", "why", *self.at.store(database), "--", first, second]
        return _only(await run_crux(self.at, words, context))


def build(folders: Sequence[Path], trust: bool) -> MCPServer:
    """The server with its tools."""
    tools = Tools(Confined(tuple(each.resolve() for each in folders), trust))
    server = MCPServer("crux", instructions=INSTRUCTIONS)
    for tool in (tools.check, tools.reduce, tools.report, tools.triage, tools.explain):
        server.tool()(tool)
    return server


async def run_crux(at: Confined, words: Sequence[str], context: Context) -> Any:
    """The document of a command; its progress goes to the client, and a cancelled call interrupts it.

    Raises `ToolError` with the line of a command that has no document.
    """
    name, *others = words
    command = [sys.executable, "-P", "-m", "triage.cli", name, *_with_json(others)]
    process = await anyio.open_process(command, cwd=at.folders[0], stdin=subprocess.DEVNULL)
    said: list[str] = []
    output = b""
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_pass_on, process, said, context)
            assert process.stdout is not None
            async for chunk in process.stdout:
                output += chunk
        code = await process.wait()
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
        with anyio.CancelScope(shield=True):
            await process.wait()
            await process.aclose()
    if code not in (0, 1) or not output.strip():
        raise ToolError(
            next((line for line in reversed(said) if line.startswith("crux")), f"exit code {code}")
        )
    return json.loads(output)


def _with_json(words: Sequence[str]) -> list[str]:
    """The words with `--json` before the `--` that ends the options."""
    place = words.index("--") if "--" in words else len(words)
    return [*words[:place], "--json", *words[place:]]


async def _pass_on(process: Any, said: list[str], context: Context) -> None:
    """Tell the client each line that the command says, and keep it."""
    rest = b""
    async for chunk in process.stderr:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            said.append(line.decode(errors="replace"))
            await context.report_progress(len(said), message=said[-1])


def _only(found: Any) -> Document:
    """The one document of a command with one case."""
    document: Document = found[0] if isinstance(found, list) else found
    return document
