"""What works here: each part is tried, not only looked for.

Nothing that may be missing is imported before it was seen to be there.
"""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

from corpus.errors import UserError
from oracles.extras import how_to_install
from triage.console.output import quoted
from triage.projects import projects
from triage.setup.finding import Finding

CORE_PACKAGES = (
    "onnx",
    "onnx-ir",
    "onnxruntime",
    "numpy",
    "ml_dtypes",
    "typer",
    "rich",
    "sqlite-utils",
    "rapidfuzz",
    "jinja2",
)
MACHINES = ("x86_64", "aarch64")


def examine_system(database: Path, deep: bool = False) -> Iterator[Finding]:
    """Everything, from the system to the database; what needs a missing core package is not tried.

    With `deep` every target runs a model.
    """
    yield _system()
    packages = list(_packages())
    yield from packages
    if all(package.works for package in packages if package.core):
        from triage.setup.trials import try_sandbox, try_targets

        yield from try_targets(CORE_PACKAGES, deep)
        yield from try_sandbox()
        yield _database(database)


def _system() -> Finding:
    works = sys.platform == "linux" and platform.machine() in MACHINES
    text = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return Finding("system", works, text, True, "" if works else "use Linux on x86-64 or aarch64")


def _packages() -> Iterator[Finding]:
    others = (name for each in projects().values() for name in (each.package, *each.companions))
    for name in dict.fromkeys((*CORE_PACKAGES, *others)):
        core = name in CORE_PACKAGES
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield Finding(f"package {name}", False, "not installed", core, how_to_install(name))
        else:
            yield Finding(f"package {name}", True, version, core)


def _database(path: Path) -> Finding:
    from triage.store.database import Store
    from triage.store.upkeep.health import examine

    if not path.exists():
        return Finding("database", True, f"{path}: none yet", core=False)
    try:
        with Store(path) as store:
            found = examine(store)
    except UserError as error:
        advice = "name another database with --db, or move this one away"
        return Finding("database", False, str(error), core=True, advice=advice)
    text = f"{path}: {found['failures']} failures in {found['clusters']} clusters"
    problems = found["problems"]
    advice = f"crux db check --db {quoted(str(path))} lists all" if problems else ""
    return Finding("database", not problems, f"{text}; {problems[0]}" if problems else text, True, advice)
