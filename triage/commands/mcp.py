"""`crux mcp`: a server for assistants that speak the Model Context Protocol."""

from pathlib import Path
from typing import Annotated

import typer

from triage.console.options import StoreOptions, command

Folders = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[DIR…]", help="Folders that its calls may read and write. (default: this one)"),
]
Trust = Annotated[bool, typer.Option("--trust", help="Let its calls open cases that run code.")]


@command(StoreOptions, unsaid=("db", "json", "color", "quiet"))
def serve(options: StoreOptions, folders: Folders = None, trust: Trust = False) -> int:
    """Serve check, reduce, report, triage and explain to an assistant over stdin and stdout.

    Paths are confined to the folders. It needs the extra `mcp`.

    Example: crux mcp cases
    """
    from importlib.util import find_spec

    from corpus.errors import UserError
    from oracles.extras import how_to_install, provide

    provide("mcp")
    if find_spec("mcp") is None:
        raise UserError(f"crux mcp: mcp is not installed; {how_to_install('mcp')}")
    chosen = folders or [Path()]
    if missing := [str(each) for each in chosen if not each.is_dir()]:
        raise UserError(f"crux mcp: no folder {', '.join(missing)}")
    from triage.mcp_server import build

    build(chosen, trust).run("stdio")
    return 0
