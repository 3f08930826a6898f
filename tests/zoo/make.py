"""`python -m tests.zoo.make FOLDER [NAME…]` writes the models of the zoo as case folders."""

import sys
from pathlib import Path

from tests.zoo.models import ZOO, build


def main(folder: Path, names: list[str]) -> None:
    """Write them, one line each; an exporter's own failure is told and does not end the others."""
    for entry in ZOO:
        if not names or entry.name in names:
            try:
                print("wrote", build(entry, folder), flush=True)
            except Exception as error:  # whatever an exporter raises
                print("failed", entry.name, type(error).__name__, str(error)[:200], flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
