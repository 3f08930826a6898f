"""Files put into folders that may be a stranger's: no link in one leads a write elsewhere."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from corpus.errors import UserError

SCRATCH = ".crux-new-"
"""What files and folders of ours begin with until they are whole; a kill may leave one behind."""


def write_fresh(path: Path, content: str | bytes) -> None:
    """Put a file in place, whole or not at all; whatever stood there goes, and no link is followed."""
    data = content.encode() if isinstance(content, str) else content
    fresh = path.with_name(f"{SCRATCH}{secrets.token_hex(8)}")
    try:
        with fresh.open("xb") as file:
            file.write(data)
        os.replace(fresh, path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def cache_folder() -> Path:
    """`tensorcrux` in the user's cache directory (XDG_CACHE_HOME)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "tensorcrux"


def must_stay_within(folder: Path, path: Path) -> None:
    """Raises `UserError` where a folder on the way from `folder` to a file in it is a link."""
    for each in path.relative_to(folder).parents:
        if each != Path(".") and (folder / each).is_symlink():
            raise UserError(f"{folder / each}: is a link, so nothing is written there; remove it")
