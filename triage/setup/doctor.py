"""What works here: each part is tried, not only looked for.

Nothing that may be missing is imported before it was seen to be there.
"""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from corpus.errors import UserError
from triage.projects import projects
from triage.setup.finding import Finding, how_to_install

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
OURS = ("corpus", "oracles", "reducer", "generators", "triage")
MACHINES = ("x86_64", "aarch64")


def examine_system(database: Path) -> Iterator[Finding]:
    """Everything, from the system to the database; what needs a missing core package is not tried."""
    yield _system()
    yield from _hidden()
    packages = list(_packages())
    yield from packages
    if all(package.works for package in packages if package.core):
        from triage.setup.trials import try_sandbox, try_targets

        yield from try_targets(CORE_PACKAGES)
        yield from try_sandbox()
        yield _database(database)


def _system() -> Finding:
    works = sys.platform == "linux" and platform.machine() in MACHINES
    text = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return Finding("system", works, text, core=True)


def _hidden() -> Iterator[Finding]:
    """Packages of others in the place of one of ours: crux then runs their code, or none."""
    root = Path(__file__).resolve().parents[2]
    for name in OURS:
        spec = find_spec(name)
        found = Path(spec.origin).resolve().parents[1] if spec and spec.origin else None
        if found != root:
            text = f"found at {found}, which is not crux's"
            advice = "install tensorcrux in an environment of its own, and start it elsewhere"
            yield Finding(f"our package {name}", False, text, core=True, advice=advice)


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
        return Finding("database", False, str(error), core=True)
    text = f"{path}: {found['failures']} failures in {found['clusters']} clusters"
    problems = found["problems"]
    return Finding("database", not problems, f"{text}; {problems[0]}" if problems else text, core=True)
