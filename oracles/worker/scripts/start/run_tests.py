"""Runs a file whose code is tests: each as pytest calls it, without fixtures; the first failure ends it."""

import sys

from oracles.worker.limits import executed, tests_of


def main(path: str) -> None:
    """Run the file at the path."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    sys.argv[0] = path
    for _, test in tests_of(vars(executed(path, text))):
        test()


main(sys.argv[1])
