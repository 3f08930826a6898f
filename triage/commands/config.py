"""`crux config`: the settings that hold, and where each comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from triage.console.options import DEFAULT_DATABASE, CaseOptions, command
from triage.console.output import Document, emit, in_columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from triage.console.settings import Setting

USUAL = {"target": "ort", "database": str(DEFAULT_DATABASE)}
GIVEN_AS = {"database": "db"}
COMMAND_LINE = "command line"


@command(CaseOptions, unsaid=("inputs", "trust"))
def config(options: CaseOptions, context: typer.Context) -> int:
    """Print each setting with its value and where it comes from: default, file, environment, command line.

    A file is crux.toml, or [tool.crux] in pyproject.toml: the nearest one up to the repository's root.

    Example: crux config --json
    """
    from triage.console.settings import KINDS, here

    settings = here()
    found = [_document(key, options, context, settings) for key in KINDS]
    emit(found, as_json=options.json, show=in_columns({"setting": "name", "value": "value", "from": "from"}))
    return 0


def _document(
    key: str, options: CaseOptions, context: typer.Context, settings: Mapping[str, Setting]
) -> Document:
    name = GIVEN_AS.get(key, key)
    value: Any = getattr(options, name, None)
    source: Any = context.get_parameter_source(name)
    if source is not None and source.name == "COMMANDLINE":
        found = COMMAND_LINE
    elif key in settings:
        value, found = settings[key].value if value is None else value, settings[key].source
    else:
        value, found = USUAL.get(key) if value is None else value, "default"
    return {
        "name": key,
        "value": value if isinstance(value, int | float | None) else str(value),
        "from": found,
    }
