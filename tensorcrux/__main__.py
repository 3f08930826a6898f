"""Starts the command line `crux`, with its own packages before any of the same names."""

import sys
from pathlib import Path
from typing import NoReturn

OURS = ("corpus", "oracles", "reducer", "generators", "triage")


def prefer_own_packages() -> None:
    """Move each folder of `sys.path` that holds another package of our names behind all others.

    Such a folder is a user's working directory (`python -m`, PYTHONPATH). Processes started by
    multiprocessing take over the order; all others are started with `-I`.
    """
    home = Path(__file__).resolve().parents[1]
    hiding = [entry for entry in sys.path if _holds_our_names(Path(entry)) and Path(entry).resolve() != home]
    sys.path[:] = [entry for entry in sys.path if entry not in hiding] + hiding


def _holds_our_names(folder: Path) -> bool:
    return any((folder / name).is_dir() or (folder / f"{name}.py").is_file() for name in OURS)


def main() -> NoReturn:
    """The console script."""
    prefer_own_packages()
    from triage.cli import main as run

    run()


if __name__ == "__main__":
    main()
