"""The modules of the product, parsed once for all tests that look at how it is written."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("corpus", "oracles", "reducer", "generators", "triage")


@cache
def sources() -> dict[str, ast.Module]:
    """By path from the root."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_bytes()) for path in paths}
