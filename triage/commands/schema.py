"""`crux schema`: what the JSON of a command looks like."""

from typing import Annotated

import typer

from triage.console.options import StoreOptions, command
from triage.console.output import in_json, write_line

Name = Annotated[
    list[str] | None,
    typer.Argument(metavar="[COMMAND]", help="Such as check; without one, all that have one."),
]


@command(StoreOptions, unsaid=("db", "json", "color", "quiet"))
def schema(options: StoreOptions, command: Name = None) -> int:
    """Print the JSON schema of what a command prints with --json.

    Example: crux schema check
    """
    from corpus.errors import UserError
    from triage.console.schemas import SCHEMAS, schema_of

    name = " ".join(command or ())
    if not name:
        write_line("\n".join(SCHEMAS))
    elif name in SCHEMAS:
        write_line(in_json(schema_of(name), indent=2))
    else:
        raise UserError(f"schema {name}: there are schemas of {', '.join(SCHEMAS)}")
    return 0
