"""Opening a foreign file: whatever a user's program does as it is opened is its own doing, and is told."""

from __future__ import annotations

import base64
from typing import Any, Callable  # noqa: UP035 (Python 3.8)


def opened(capture: Callable[[str, bytes], dict[str, Any]], name: str, content: str) -> dict[str, Any]:
    """What a framework captures of a file (in base64), or an `error` in words."""
    try:
        return capture(name, base64.b64decode(content))
    except BaseException as error:
        return {"error": f"{type(error).__name__}: {error}"}
