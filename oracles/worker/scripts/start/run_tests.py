"""Runs a file whose code is tests: each as pytest calls it, without fixtures; the first failure ends it."""

import sys

from oracles.worker.limits import MODULE, tests_of


def main(path: str) -> None:
    """Run the file at the path."""
    import linecache
    import types

    with open(path, encoding="utf-8") as file:
        text = file.read()
    module = types.ModuleType(MODULE)
    module.__file__ = sys.argv[0] = path
    sys.modules[MODULE] = module
    linecache.cache[path] = (len(text), None, text.splitlines(True), path)
    exec(compile(text, path, "exec"), vars(module))
    for _, test in tests_of(vars(module)):
        test()


main(sys.argv[1])
